"""The log of one table: list it, read versions and commits, and begin transactions.

``_delta_log`` is known to this package only. Everything else asks a :class:`DeltaLog`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, TypeVar

from deltactl.errors import VersionNotFoundError, Warn, ignore_warning
from deltactl.log.history.read import CommitObserver, History, Selection, read_history
from deltactl.log.history.timestamps import resolve_timestamp
from deltactl.log.listing import LogListing, list_log, retry_after_log_cleanup
from deltactl.log.rebuildable import find_rebuildable, truncated_file
from deltactl.log.stores.open import open_table_store
from deltactl.log.table_probe import no_table_error
from deltactl.protocol.names import LOG_DIR, checksum_name, commit_name
from deltactl.storage.store import Store

if TYPE_CHECKING:  # Arrow is not needed to read a history
    from deltactl.log.commits.events import LogSweep
    from deltactl.log.listing import Checkpoint
    from deltactl.log.replay import Collect
    from deltactl.log.snapshot import Snapshot
    from deltactl.protocol.actions import Metadata
    from deltactl.storage.log_store import DynamoDbLogStore

T = TypeVar("T")


class DeltaLog:
    """The log of one table, as it was when it was listed.

    The log is listed when this is first needed, and again only after :meth:`update`: first from the
    last checkpoint on, and as a whole when older files are needed.
    """

    def __init__(self, store: Store, warn: Warn) -> None:
        """Read nothing yet.

        Args:
            store: the store of the table. Without the right to commit, it is read-only.
            warn: receives files of the log that are invalid and not needed.
        """
        self.store, self.warn = store, warn
        self._listing: LogListing | None = None

    @classmethod
    def open(
        cls,
        address: str,
        storage_options: Mapping[str, str] | None = None,
        log_store: DynamoDbLogStore | None = None,
        *,
        warn: Warn,
        read_only: bool = False,
    ) -> DeltaLog:
        """Open the log of the table at an address; see ``open_table_store``.

        Raises:
            UsageError: the address is not valid, or is not on S3 although ``log_store`` was given.
            StorageError: the storage cannot be reached.
        """
        return cls(open_table_store(address, storage_options, log_store, read_only=read_only), warn)

    @property
    def uri(self) -> str:
        """Return the table's root as an absolute URI."""
        return self.store.uri

    @property
    def listing(self) -> LogListing:
        """Return the files of the whole log; empty if there is no table."""
        if self._listing is None or self._listing.start_version:
            self._listing = list_log(self.store)
        return self._listing

    @property
    def listed(self) -> LogListing:
        """Return the files that were listed: at least those that the latest version needs."""
        return self.listing if self._listing is None else self._listing

    @property
    def latest_version(self) -> int:
        """Return the latest version of the listing.

        Raises:
            NotATableError: there is no log.
        """
        self.ensure_exists()
        latest = self.listing.latest_version
        assert latest is not None
        return latest

    @property
    def exists(self) -> bool:
        """Return whether there is a table: the listing has a version."""
        return self.listing.latest_version is not None

    def ensure_exists(self) -> None:
        """List the log, unless this was done.

        Raises:
            NotATableError: there is no log.
        """
        if not self.exists:
            raise no_table_error(self.store)

    def has_versions_from(self, version: int) -> bool:
        """Return whether the log now has a version or a later one; lists only those."""
        return list_log(self.store, version).latest_version is not None

    def file_names(self) -> Iterator[str]:
        """Yield the names of all files in the directory of the log, without the directory."""
        for info in self.store.list_from(LOG_DIR):
            yield info.name.rpartition("/")[2]

    def without_warnings(self) -> DeltaLog:
        """Return the same log, with the same listing, that does not warn."""
        quiet = DeltaLog(self.store, ignore_warning)
        quiet._listing = self._listing
        return quiet

    @staticmethod
    def commit_file(version: int) -> str:
        """Return the name of the commit file of a version in the store."""
        return f"{LOG_DIR}/{commit_name(version)}"

    @staticmethod
    def checksum_file(version: int) -> str:
        """Return the name of the checksum file of a version in the store."""
        return f"{LOG_DIR}/{checksum_name(version)}"

    def update(self) -> None:
        """Forget the listing: what is read next is the newest."""
        self._listing = None

    def retry_after_cleanup(self, read: Callable[[], T]) -> T:
        """List and read the log. If a log cleanup removed files that were listed, repeat this.

        Args:
            read: reads this log. It may be called several times, with the same effects.

        Raises:
            ObjectNotFoundError, MissingLogFileError: in every attempt, listed files did not exist.
        """

        def read_newest() -> T:
            self.update()
            return read()

        return retry_after_log_cleanup(read_newest)

    def snapshot(
        self,
        version: int | None = None,
        *,
        collect: Collect | None = None,
        skip: frozenset[Checkpoint] = frozenset(),
    ) -> Snapshot:
        """Rebuild a version; ``None``: the latest. See ``load_snapshot``.

        If nothing was listed yet, the files from the last checkpoint on are listed. If a log
        cleanup removes listed files meanwhile, they are listed again.

        Raises:
            NotATableError: there is no log.
            VersionNotFoundError: the version is not in the log.
            LogGapError, CorruptLogError, MissingActionError: the log is damaged.
        """
        from deltactl.log.replay import Collect
        from deltactl.log.segment import list_from_hint
        from deltactl.log.snapshot import load_snapshot

        def load() -> Snapshot:
            if self._listing is None:
                self._listing = list_from_hint(self.store, self.warn, version)
            return load_snapshot(
                self.store,
                version,
                warn=self.warn,
                listing=self._listing,
                skip=skip,
                collect=collect or Collect.NOTHING,
            )

        return load() if self._listing is not None else self.retry_after_cleanup(load)

    def history(
        self, selection: Selection | None = None, *, observer: CommitObserver | None = None
    ) -> History:
        """Read commits, newest first; see ``read_history``."""
        return read_history(self.store, self.listing, selection, observer=observer)

    def events(self, snapshot: Snapshot, first: int, *, known: LogSweep | None = None) -> LogSweep:
        """Read the file actions of the commits ``first`` to that of a snapshot.

        Commits that the snapshot or a ``known`` sweep collected are not read again.

        Raises:
            CorruptLogError: a commit cannot be parsed; the message has the file and the line.
        """
        from deltactl.log.lifetimes import sweep_commits

        known = snapshot.tail.sweep if known is None else known
        return sweep_commits(
            self.store, self.listing, snapshot.metadata, first, snapshot.version, known=known
        )

    def version_at(
        self, metadata: Metadata, timestamp_ms: int, *, allow_later: bool = False
    ) -> int:
        """Return the last version committed at or before a time; see ``resolve_timestamp``."""
        return resolve_timestamp(
            self.store, self.listing, metadata, timestamp_ms, allow_later=allow_later
        )

    def rebuildable(self, versions: Set[int]) -> set[int]:
        """Return those of the given versions that can be rebuilt from the files of the log."""
        return find_rebuildable(self.store, self.listing, versions, frozenset())

    def first_rebuildable(self, known: Checkpoint | None = None) -> int:
        """Return the oldest version from which all versions up to the latest can be rebuilt.

        ``known`` is a checkpoint that was already read. It is not read again.
        """
        from deltactl.log.lifetimes import first_rebuildable

        return first_rebuildable(self.store, self.listing, known)

    def truncated_file(self, checkpoint: Checkpoint) -> str | None:
        """Return a truncated Parquet file of a checkpoint, or ``None``; few bytes are read."""
        return truncated_file(self.store, checkpoint)

    def ensure_has(self, version: int) -> None:
        """Refuse a version outside of the log.

        Raises:
            NotATableError: there is no log.
            VersionNotFoundError: the log does not contain this version.
        """
        latest, oldest = self.latest_version, self.listing.oldest_version
        if oldest is None or not oldest <= version <= latest:
            raise VersionNotFoundError(
                f"the log of {self.uri} has no version {version}: "
                f"it has versions {oldest} to {latest}",
                hint="Run `deltactl describe-history --all` to list the versions.",
            )
