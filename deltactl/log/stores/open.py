"""Open the store of a table for commits: with conditional puts, or with DynamoDB."""

from __future__ import annotations

from collections.abc import Mapping

from deltactl.clock import SystemClock
from deltactl.errors import UsageError
from deltactl.log.stores.conditional import ConditionalCommitStore
from deltactl.log.stores.external import ExternalCommitStore
from deltactl.storage.dynamodb import DynamoDbEntries
from deltactl.storage.log_store import DynamoDbLogStore
from deltactl.storage.open import open_store
from deltactl.storage.providers import provider_of
from deltactl.storage.store import Store
from deltactl.storage.write_guard import ReadOnlyStore


def open_table_store(
    uri: str,
    options: Mapping[str, str] | None = None,
    log_store: DynamoDbLogStore | None = None,
    *,
    read_only: bool = False,
) -> Store:
    """Open the store of a table. Commits are decided in the way that its other writers use.

    A ``read_only`` store is for reading and dry runs. It changes nothing, and does not even finish
    a commit of another writer.

    Raises:
        UsageError: the address is not valid, or is not on S3 although ``log_store`` was given.
        StorageError: the storage cannot be reached.
    """
    provider = provider_of(uri)
    is_s3 = provider is not None and provider.uses_dynamodb
    if log_store is not None and not is_s3:
        raise UsageError(
            f"a log store in DynamoDB is for tables on S3, not for {uri!r}",
            hint="Omit --log-store: outside of S3, the storage itself ensures that only one "
            "writer commits a version.",
        )
    store = open_store(uri, options)
    if read_only:
        return ReadOnlyStore(store)
    if not is_s3:
        return store
    if log_store is None:
        return ConditionalCommitStore(store)
    return ExternalCommitStore(store, DynamoDbEntries(log_store, options or {}), SystemClock())
