"""The store of a table that may be committed to: how its writers agree is decided here."""

from __future__ import annotations

from collections.abc import Mapping

from deltactl.clock import SystemClock
from deltactl.errors import UsageError
from deltactl.log.stores.conditional import ConditionalCommitStore
from deltactl.log.stores.external import ExternalCommitStore
from deltactl.storage.dynamodb import DynamoDbEntries, DynamoDbLogStore
from deltactl.storage.open import open_store, package_of
from deltactl.storage.read_only import ReadOnlyStore
from deltactl.storage.store import Store


def open_table_store(
    uri: str,
    options: Mapping[str, str] | None = None,
    log_store: DynamoDbLogStore | None = None,
    *,
    read_only: bool = False,
) -> Store:
    """Open the store of a table, so that commits to it are decided as its writers agreed.

    A ``read_only`` one is for looks and dry runs: it changes nothing, not even to finish a commit
    that another writer left half done.

    Raises:
        UsageError: the address cannot be understood, or is none of S3 though ``log_store`` is for
            tables there.
        StorageError: the storage cannot be reached.
    """
    is_s3 = package_of(uri) == "s3fs"
    if log_store is not None and not is_s3:
        raise UsageError(
            f"a log store in DynamoDB is for tables on S3, not for {uri!r}",
            hint="Omit --log-store: other storage decides by itself who commits first.",
        )
    store = open_store(uri, options)
    if read_only:
        return ReadOnlyStore(store)
    if not is_s3:
        return store
    if log_store is None:
        return ConditionalCommitStore(store)
    return ExternalCommitStore(store, DynamoDbEntries(log_store, options or {}), SystemClock())
