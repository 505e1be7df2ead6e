"""Choose how commits of a table are decided: by put-if-absent, DynamoDB or a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltactl.clock import SystemClock
from deltactl.errors import StorageError, UsageError, Warn
from deltactl.log.committers.committer import Committer
from deltactl.log.committers.dynamodb import DynamoDb
from deltactl.log.committers.put_if_absent import PutIfAbsent
from deltactl.option_names import option
from deltactl.storage.dynamodb import DynamoDbEntries
from deltactl.storage.log_store import DynamoDbLogStore
from deltactl.storage.providers import may_use_dynamodb
from deltactl.storage.store import Store

if TYPE_CHECKING:
    from deltactl.catalog.managed import ManagedTable
    from deltactl.log.committers.catalog_managed import CatalogManaged


def open_managed(
    store: Store, table: ManagedTable, warn: Warn, published_only: bool
) -> CatalogManaged | None:
    """Return the committer of a table whose commits a catalog decides.

    ``None``: the catalog does not answer, and published commits are enough.

    Raises:
        StorageError: the catalog cannot be reached, or refuses.
    """
    from deltactl.log.committers.catalog_managed import CatalogManaged

    committer = CatalogManaged(store, table, warn)
    try:
        # Now, not when the log is read: the answer decides whether there is a committer.
        committer.load()
    except StorageError as error:
        if not published_only:
            raise
        warn(error.message)
        return None
    return committer


def choose_committer(
    store: Store, options: Mapping[str, str], log_store: DynamoDbLogStore | None
) -> Committer:
    """Return the committer that the other writers of a table use too.

    Raises:
        UsageError: ``log_store`` is given for a table that is not on S3.
    """
    if log_store is None:
        return PutIfAbsent(store)
    if not may_use_dynamodb(store.uri):
        raise UsageError(
            f"a log store in DynamoDB is for tables on S3, not for {store.uri!r}",
            hint=f"Omit {option('log_store')}: outside of S3, the storage itself ensures that only "
            "one writer commits a version.",
        )
    return DynamoDb(store, DynamoDbEntries(log_store, options), SystemClock())
