"""The log of one table: list it, read versions and commits, and begin transactions.

``_delta_log`` is known to this package only. Everything else asks a :class:`DeltaLog`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Final, TypeVar

from deltactl.commit_options import CommitOptions
from deltactl.errors import (
    CorruptLogError,
    LogGapError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    Warn,
    hint_at_versions,
    ignore_warning,
)
from deltactl.log.commits.contents import CommitBytes, CommitReader, uses_in_commit_timestamp
from deltactl.log.commits.visitors import Visitor, Visits
from deltactl.log.committers.open import choose_committer, open_managed
from deltactl.log.committers.put_if_absent import PutIfAbsent
from deltactl.log.history.read import History, Selection, read_history
from deltactl.log.history.timestamps import (
    file_times,
    find_clamped,
    find_misdated,
    resolve_timestamp,
    warn_of_late_times,
)
from deltactl.log.listing import LogListing, list_log, retry_after_log_cleanup
from deltactl.log.rebuildable import find_rebuildable
from deltactl.log.table_probe import no_table_error
from deltactl.protocol.features import CATALOG_MANAGED, COORDINATED_COMMITS, has_feature
from deltactl.protocol.names import (
    LOG_DIR,
    SIDECAR_DIR,
    CheckpointFormat,
    checkpoint_name,
    checksum_name,
    commit_file,
)
from deltactl.protocol.properties import TableProperties
from deltactl.storage.names import is_table_name
from deltactl.storage.open import open_store
from deltactl.storage.store import FileInfo, Store
from deltactl.storage.write_guard import refuse_changes

if TYPE_CHECKING:  # Arrow is not needed to read a history
    from deltactl.catalog.base import TableAddress
    from deltactl.catalog.open import Located
    from deltactl.log.checkpoint_files import Checkpoint
    from deltactl.log.commits.events import CommitScan, EventCollector
    from deltactl.log.commits.parsed import ParsedCommits
    from deltactl.log.commits.scan import OnBroken
    from deltactl.log.committers.catalog_managed import CatalogManaged
    from deltactl.log.committers.committer import CommitTail, Committer, Permission
    from deltactl.log.replay import Tail
    from deltactl.log.snapshot import Snapshot
    from deltactl.protocol.actions import Metadata, Protocol
    from deltactl.storage.log_store import DynamoDbLogStore

_BEHIND: Final = "its catalog may know newer ones"

T = TypeVar("T")


class DeltaLog:
    """The log of one table, as it was when it was listed.

    The log is listed when this is first needed, and again only after :meth:`update`: first from the
    last checkpoint on, and as a whole when older files are needed.
    """

    def __init__(
        self,
        store: Store,
        warn: Warn,
        *,
        committer: Committer | None = None,
        managed: CatalogManaged | None = None,
        read_only: bool = False,
        published_only: bool = False,
    ) -> None:
        """Read nothing yet.

        Args:
            store: the store of the table.
            warn: receives files of the log that are invalid and not needed.
            committer: decides commits, and knows commits that a listing does not show; ``None``:
                put-if-absent.
            managed: the committer, if a catalog decides commits.
            read_only: whether commits are refused.
            published_only: if a catalog decides the commits, and the committer does not ask it,
                read those that are published.
        """
        self.store, self.warn = store, warn
        self.reader = CommitReader(store)
        self._committer = managed or committer or PutIfAbsent(store)
        self.managed = managed
        self._is_read_only, self.published_only = read_only, published_only
        self.is_published_only = False  # whether newer commits may exist; known after a read
        self.refusal: SafetyError | None = None  # of what a dry run shows; known after a listing
        self.storage_options: Mapping[str, str] = {}
        self.commit_options = CommitOptions()  # what a user adds to each commit
        self.entry: TableAddress | None = None  # what a catalog says of the table
        self.first_read: int | None = None  # the latest version, when it was first read
        self._listing: LogListing | None = None
        self._is_repeating = False  # whether a failed read of listed files is repeated

    @classmethod
    def open(
        cls,
        address: str | Located,
        storage_options: Mapping[str, str] | None = None,
        log_store: DynamoDbLogStore | None = None,
        *,
        warn: Warn,
        read_only: bool = False,
        published_only: bool = False,
        guard: Callable[[Store], Store] = lambda store: store,
    ) -> DeltaLog:
        """Open the log of the table at an address.

        Args:
            address: of the table, its name in a catalog, or what the catalog said of the name.
            storage_options: settings for the file system; never shown or logged.
            log_store: the DynamoDB table in which all writers of a table on S3 agree on commits;
                ``None``: put-if-absent.
            warn: receives files of the log that are invalid and not needed.
            read_only: for reading and dry runs: the store refuses every change, and incomplete
                commits of other writers are not finished.
            published_only: if a catalog decides the commits, and was not asked for them, read
                those that are published.
            guard: wraps the store; not used for a read-only one.

        Raises:
            UsageError: the address is not valid, or is not on S3 although ``log_store`` was given.
            StorageError: the storage cannot be reached.
            DeltactlError: a catalog does not give this table; see ``locate``.
        """
        options, entry = storage_options or {}, None
        found: str | Located = address
        if isinstance(address, str) and is_table_name(address):
            # For a name only: a command on a path loads no client of a catalog (ADR 29).
            from deltactl.catalog.open import locate

            found = locate(address, options, read_only=read_only)
        table = None
        if not isinstance(found, str):
            options, entry, table, found = found.options, found.entry, found.managed, found.uri
        store = open_store(found, options)
        store = refuse_changes(store) if read_only else guard(store)
        log = cls(
            store,
            warn,
            committer=choose_committer(store, options, log_store),
            managed=None if table is None else open_managed(store, table, warn, published_only),
            read_only=read_only,
            published_only=published_only,
        )
        log.storage_options, log.entry = options, entry
        return log

    def read_only(self, *, published_only: bool = False) -> DeltaLog:
        """Return the same log with a store that refuses every change, not listed yet."""
        log = self.unread()
        log.published_only = published_only
        log.store, log._is_read_only = refuse_changes(self.store), True
        log.reader = CommitReader(log.store)
        return log

    def unread(self) -> DeltaLog:
        """Return the same log as it was opened, not listed yet."""
        log = copy(self)
        log.reader, log._listing = CommitReader(self.store), None
        return log

    @property
    def uri(self) -> str:
        """Return the table's root as an absolute URI."""
        return self.store.uri

    @property
    def listing(self) -> LogListing:
        """Return the files of the whole log; empty if there is no table."""
        # A listing that begins at the last checkpoint is not enough.
        if self._listing is None or self._listing.start_version:
            self._listing = self.list_from(0)
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

    def ensure_newest(self, *, or_warn: bool = False) -> None:
        """List the whole log, unless this was done; refuse if its newest commits were lost.

        Raises:
            NotATableError: there is no log.
            LogGapError: a file or the committer names a later version than the listing has; with
                ``or_warn``, a file only leads to a warning, and the committer is not asked.
        """
        from deltactl.log.segment import list_whole

        if self._listing is None or self._listing.start_version:
            self._listing, lost = list_whole(self.list_from, self.store, self.warn)
            self._note_lost(lost, or_warn=or_warn)
            if self._is_read_only and not or_warn and self.exists:  # else the listing has done it
                unlisted = self.find_unlisted()
                self._note_lost(None if unlisted is None else unlisted[1], or_warn=False)
        self.ensure_exists()

    def _note_lost(self, lost: LogGapError | None, *, or_warn: bool) -> None:
        """Refuse, or warn, if the newest commits were lost; those not ratified were not."""
        if lost is None or self.refusal is not None:
            return
        if not or_warn:
            raise lost
        self.warn(f"{lost.message}. {lost.hint}")

    @property
    def commit_files(self) -> Mapping[int, FileInfo]:
        """Return the commits in the log by version."""
        return self.listing.commits

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        """Return the complete checkpoints in the log, by version."""
        return self.listing.checkpoints

    @property
    def all_checkpoints(self) -> Sequence[Checkpoint]:
        """Return the checkpoints to check: the complete ones, then the empty ones."""
        return [*self.listing.checkpoints, *self.listing.empty_checkpoints]

    @property
    def compacted_files(self) -> Mapping[tuple[int, int], FileInfo]:
        """Return the log compaction files by their first and last version."""
        return self.listing.compacted

    @property
    def checksum_files(self) -> Mapping[int, FileInfo]:
        """Return the checksum files in the log by version."""
        return self.listing.checksums

    @property
    def first_commit(self) -> int:
        """Return the oldest version from which no commit is missing, up to the latest version."""
        return self.listing.first_commit

    def has_versions_from(self, version: int) -> bool:
        """Return whether the log now has a version or a later one; lists only those."""
        return self.list_from(version).latest_version is not None

    def find_unlisted(self) -> tuple[int, LogGapError | None] | None:
        """Return a committed version that the log lacks, and the error if its commit was lost.

        This asks the committer, also for a read-only log. Without an error, a run that writes
        finishes the commit.

        Raises:
            NotATableError: there is no log.
            StorageError: this is unknown.
        """
        newest = self._committer.find_newest()
        if newest is None or newest <= self.latest_version or self.has_versions_from(newest):
            return None
        return newest, self._committer.find_loss(newest)

    def file_names(self) -> Iterator[str]:
        """Yield the names of all files in the directory of the log, without the directory."""
        for info in self.store.list_from(LOG_DIR):
            yield info.name.rpartition("/")[2]

    def without_warnings(self) -> DeltaLog:
        """Return the same log, with the same listing, that does not warn."""
        quiet = copy(self)
        quiet.warn = ignore_warning
        return quiet

    commit_file = staticmethod(commit_file)

    @staticmethod
    def checkpoint_file(
        version: int, unique_id: str | None = None, file_format: CheckpointFormat = "parquet"
    ) -> str:
        """Return the name of a checkpoint in the store; with ``unique_id``, of a V2 checkpoint."""
        return f"{LOG_DIR}/{checkpoint_name(version, unique_id, file_format)}"

    @staticmethod
    def sidecar_file(name: str) -> str:
        """Return the name of a sidecar in the store."""
        return f"{LOG_DIR}/{SIDECAR_DIR}/{name}"

    @staticmethod
    def checksum_file(version: int) -> str:
        """Return the name of the checksum file of a version in the store."""
        return f"{LOG_DIR}/{checksum_name(version)}"

    @property
    def files_ahead(self) -> Mapping[str, int]:
        """Return the files that are left from lost commits; see ``LogListing.files_ahead``."""
        return self.listing.files_ahead

    def list_from(self, version: int) -> LogListing:
        """List the files of a version and of later ones, as they are now."""
        listing, before = self._list_with_tail(version), None
        while listing.files_ahead and listing.latest_version != before:
            before = listing.latest_version
            listing = self._list_with_tail(version)  # their commits may be written meanwhile
        latest = listing.latest_version
        if listing.files_ahead and latest is not None and self._may_lack_commits(listing):
            listing.drop_after(latest)
        return listing

    def _may_lack_commits(self, listing: LogListing) -> bool:
        """Return whether commits may exist that only a catalog or coordinator knows."""
        from deltactl.log.history.latest_protocol import latest_protocol

        found = None if self.managed is not None else latest_protocol(self.reader, listing)
        return found is not None and (
            self._is_decided_by_catalog(found) or has_feature(found, COORDINATED_COMMITS)
        )

    def _list_with_tail(self, version: int) -> LogListing:
        listing, tail = self._list_once(version)
        found = [each for each in (listing.latest_version, *tail.commits) if each is not None]
        newest, latest = max(found, default=version - 1), tail.latest_version
        if latest is not None and newest != latest:
            # Commits were ratified and published meanwhile, or are not part of the table.
            listing, tail = self._list_once(version)
            latest = tail.latest_version
            if latest is not None and newest > latest:
                self._note_unratified(latest, newest)
        listing.add_tail(tail)
        known, last = tail.known_version, listing.latest_version
        if known is not None and version <= known and (last is None or last < known):
            loss = self._committer.find_loss(known)
            if loss is not None:
                raise loss
        # A listing that begins after the latest version rightly has no commits.
        if latest is not None and listing.latest_version != latest and version <= latest:
            raise LogGapError(
                f"the catalog says that version {latest} of {self.uri} is the latest, but the log "
                f"has no commit of it",
                hint="Restore the file from a backup.",
            )
        return listing

    def _note_unratified(self, latest: int, newest: int) -> None:
        """Refuse to write if the log has versions that the catalog does not know; or warn."""
        assert self.managed is not None
        refusal = self.managed.unratified_error(latest, newest)
        if not self._is_read_only:
            raise refusal
        self.refusal = refusal
        self.warn(
            f"the log of {self.uri} has version {newest}, which the catalog did not "
            f"ratify: versions after {latest} are ignored"
        )

    def _list_once(self, version: int) -> tuple[LogListing, CommitTail]:
        """Return the files of a version and of later ones, and the commits to add to them."""
        # Before the listing: a commit may be published meanwhile.
        tail = self._committer.tail(may_write=not self._is_read_only)
        return list_log(self.store, version), tail

    @property
    def published_version(self) -> int:
        """Return the latest version up to which all commits are files of the log.

        Checkpoints, log compaction files and log cleanup must not go beyond it.

        Raises:
            NotATableError: there is no log.
        """
        published = self.listed.published_through
        return self.latest_version if published is None else min(published, self.latest_version)

    def published_up_to(self, version: int) -> int:
        """Return the latest version, at most the given one, up to which all commits are published.

        This asks the committer, and does not list the log.

        Raises:
            StorageError: this is unknown.
        """
        through = self._committer.tail(may_write=False).published_through
        return version if through is None else min(through, version)

    def ensure_committer(self) -> Committer:
        """Return what decides commits.

        Raises:
            SafetyError: the log was opened for reading.
        """
        if self._is_read_only:
            raise SafetyError(f"{self.uri} was opened for reading: nothing can be committed")
        return self._committer

    def ensure_decides(self, protocol: Protocol, metadata: Metadata) -> None:
        """Raise an error if something else decides commits to a table in this state.

        Raises:
            UnsupportedFeatureError: a catalog decides them, or does not, or wants more than them.
        """
        if self._is_decided_by_catalog(protocol) != (self.managed is not None):
            raise self._wrong_way()
        if self.managed is not None and TableProperties(metadata.configuration).uniform_formats:
            raise self.managed.uniform_error()

    def _is_decided_by_catalog(self, protocol: Protocol) -> bool:
        is_said = self.entry is not None and self.entry.is_catalog_managed
        return is_said or has_feature(protocol, *CATALOG_MANAGED)

    def ensure_can_commit(self, permission: Permission | None = None) -> None:
        """Raise an error if commits to this table are not safe, or not allowed; see ``Committer``.

        Raises:
            SafetyError: a commit could be overwritten, or other writers commit in another way.
            UnsupportedFeatureError: as for ``ensure_allowed``.
            StorageError: this is not known.
        """
        committer = self.ensure_committer()
        self.ensure_allowed(permission)
        committer.ensure_can_commit()

    def ensure_allowed(self, permission: Permission | None) -> None:
        """Raise an error if a catalog decides commits, and does not allow a kind of maintenance.

        A dry run needs no permission. ``None``: no catalog can allow it.

        Raises:
            UnsupportedFeatureError: it is not allowed.
            StorageError: this is not known.
        """
        # What no catalog can allow is refused in a dry run too.
        if self.managed is not None and not (self._is_read_only and permission):
            self.managed.ensure_allowed(permission)

    def is_allowed(self, permission: Permission | None) -> bool:
        """Return whether no catalog decides commits, or it allows a kind of maintenance.

        Raises:
            StorageError: this is not known.
        """
        return self.managed is None or permission in self.managed.allowed

    def ensure_complete(self) -> None:
        """Raise an error if a catalog may know newer commits than those that were read.

        Raises:
            UnsupportedFeatureError: it may.
        """
        if self.is_published_only:
            raise self._wrong_way()

    def _note_protocol(self, protocol: Protocol) -> None:
        """Refuse to read a table without its catalog, or warn."""
        if self.managed is not None or not self._is_decided_by_catalog(protocol):
            return
        if not self.published_only:
            raise self._wrong_way()
        self.note_published_only()

    def note_published_only(self) -> None:
        """Warn once that newer commits may exist than those that were read."""
        if not self.is_published_only:
            self.warn(f"only the published commits of {self.uri} were read: {_BEHIND}")
            self.is_published_only = True

    def _wrong_way(self) -> UnsupportedFeatureError:
        if self.managed is not None:
            return UnsupportedFeatureError(
                f"the catalog decides the commits of {self.uri}, but the log has no catalogManaged",
                hint="Let the catalog repair the table. Nothing was committed.",
            )
        return UnsupportedFeatureError(
            f"cannot use {self.uri} without its catalog: the table has the feature catalogManaged, "
            f"and {_BEHIND}",
            hint="Give the table by its name, as uc://CATALOG.SCHEMA.TABLE. describe-history, "
            "describe-detail and check show what is published. With --published-only, clone and "
            "check --files data read it too.",
        )

    def update(self) -> None:
        """Forget the listing: what is read next is the newest."""
        self._listing = None

    def retry_after_cleanup(self, read: Callable[[], T]) -> T:
        """List and read the log. If a log cleanup removed files that were listed, repeat this.

        ``read`` may be called several times, with the same effects. A call inside of another one
        repeats nothing: the outer one does.

        Raises:
            ObjectNotFoundError, MissingLogFileError: in every attempt, listed files did not exist.
        """

        def read_newest() -> T:
            self.update()
            return read()

        if self._is_repeating:
            return read()
        self._is_repeating = True
        try:
            return retry_after_log_cleanup(read_newest)
        finally:
            self._is_repeating = False

    def snapshot(
        self,
        version: int | None = None,
        *,
        visitors: Sequence[Visitor] = (),
        skip: frozenset[Checkpoint] = frozenset(),
    ) -> Snapshot:
        """Rebuild a version; ``None``: the latest. See ``load_snapshot``.

        The ``visitors`` get the commits after the checkpoint, which are read anyway.

        If nothing was listed yet, the files from the last checkpoint on are listed. If a log
        cleanup removes listed files meanwhile, they are listed again. If the newest commits were
        lost, a read-only log warns.

        Raises:
            NotATableError: there is no log.
            SafetyError: a run that writes, and the log has versions that the catalog does not know.
            VersionNotFoundError: the version is not in the log.
            LogGapError, CorruptLogError, MissingActionError: the log is damaged.
        """
        from deltactl.log.segment import list_from_hint
        from deltactl.log.snapshot import load_snapshot

        def load() -> Snapshot:
            if self._listing is None:
                listing, lost = list_from_hint(self.list_from, self.store, self.warn, version)
                self._note_lost(lost, or_warn=self._is_read_only)
                self._listing = listing
            return load_snapshot(
                self.reader,
                version,
                self._listing,
                list_whole=lambda: self.listing,
                warn=self.warn,
                skip=skip,
                visitors=visitors,
            )

        # A caller that has listed the log gets versions of this listing, or an error: after a new
        # listing, the versions of one step could be of two states of the log (ADR 28).
        found = load() if self._listing is not None else self.retry_after_cleanup(load)
        if version is None and self.first_read is None:
            self.first_read = found.version
        self._note_protocol(found.protocol)
        return found

    def commits(self, versions: Iterable[int]) -> Iterator[CommitBytes]:
        """Read commits, in the given order; each only once a run.

        Raises:
            LogGapError: a commit is not in the log.
            ObjectNotFoundError: a log cleanup deleted a commit.
        """
        return self.reader.read(self._files_of(versions))

    def parsed_commits(
        self,
        versions: Iterable[int],
        partition_keys: Iterable[str] = (),
        *,
        on_broken: OnBroken | None = None,
    ) -> Iterator[ParsedCommits]:
        """Read and parse commits, some at a time, in the given order; see :meth:`scan`.

        Raises:
            LogGapError: a commit is not in the log.
            ObjectNotFoundError: a log cleanup deleted a commit.
            CorruptLogError: a commit cannot be parsed; the message has the file and the line.
        """
        from deltactl.log.commits.scan import parse_commits

        return parse_commits(self.commits(versions), partition_keys, on_broken=on_broken)

    def scan(
        self,
        versions: Iterable[int],
        *visitors: Visitor,
        partition_keys: Iterable[str] = (),
        on_broken: OnBroken | None = None,
    ) -> None:
        """Read and parse commits once, for all visitors.

        Commits that all visitors were given before, as by :meth:`snapshot`, are not read again.

        ``partition_keys`` are physical names of partition columns, as far as they are known.
        ``on_broken`` is called with each commit that cannot be parsed; without it, that is an
        error.

        Raises:
            LogGapError: a commit is not in the log.
            ObjectNotFoundError: a log cleanup deleted a commit.
            CorruptLogError: a commit cannot be parsed; the message has the file and the line.
        """
        from deltactl.log.commits.scan import parse_commits

        needed = [v for v in versions if any(v not in visitor.visited for visitor in visitors)]
        visits = Visits(visitors)
        asked = (commit for commit in self.commits(needed) if visits.ask(commit))
        for parsed in parse_commits(asked, partition_keys, on_broken=on_broken):
            visits.give(parsed)

    def replay(
        self, versions: Iterable[int], partition_keys: Iterable[str], *visitors: Visitor
    ) -> Tail:
        """Reconcile the actions of commits, in ascending order; see ``replay_tail``."""
        from deltactl.log.replay import replay_tail

        files = self._files_of(versions)
        return replay_tail(self.reader, files, partition_keys, visitors=visitors)

    def _files_of(self, versions: Iterable[int]) -> list[FileInfo]:
        known = self.listing.commits
        found = [(version, known.get(version)) for version in versions]
        for version, file in found:
            if file is None:
                raise LogGapError(
                    f"{self.commit_file(version)} is missing in {self.uri}",
                    hint="Restore the file from a backup.",
                )
        return [file for _, file in found if file is not None]

    def has_commits(self, first: int, last: int) -> bool:
        """Return whether the commits ``first`` to ``last`` are all in the log."""
        known = self.listing.commits
        return all(version in known for version in range(first, last + 1))

    def history(
        self,
        selection: Selection | None = None,
        *visitors: Visitor,
        partition_keys: Collection[str] = (),
    ) -> History:
        """Read commits, newest first; see ``read_history``."""
        history = read_history(
            self.reader,
            self.listing,
            selection,
            *visitors,
            partition_keys=partition_keys,
        )
        is_said = self.entry is not None and self.entry.is_catalog_managed
        if self.managed is None and (is_said or history.uses_in_commit_timestamps):
            # Only tables with such timestamps can have catalogManaged.
            from deltactl.log.history.latest_protocol import latest_protocol

            protocol = latest_protocol(self.reader, self.listing)
            with suppress(CorruptLogError, StorageError):  # a history shows damaged logs, too
                self._note_protocol(protocol or self.snapshot().protocol)
        return history

    def events(
        self, snapshot: Snapshot, first: int, collector: EventCollector, *visitors: Visitor
    ) -> CommitScan:
        """Return the file events of the commits ``first`` to that of a snapshot.

        The ``visitors`` get these commits too.

        Raises:
            LogGapError: a commit is not in the log.
            CorruptLogError: a commit cannot be parsed; the message has the file and the line.
        """
        keys = snapshot.metadata.partition_keys
        versions = range(first, snapshot.version + 1)
        self.scan(versions, collector, *visitors, partition_keys=keys)
        return collector.between(first, snapshot.version)

    def commit_times(self) -> dict[int, int]:
        """Return the time of each commit file, strictly ascending, in ms since 1970 UTC."""
        return file_times(self.listing, self.listing.commits)

    def warn_of_late_times(self, found: int, timestamp_ms: int) -> None:
        """Warn if the times of copied files make a version the one ``found`` for a timestamp."""
        times = {v: time for v, time in self.commit_times().items() if v >= found}
        warn_of_late_times(self.listing, times, timestamp_ms, self.warn)

    def timestamp_of(self, snapshot: Snapshot) -> int:
        """Return the time of a version, in ms since 1970 UTC, as the history shows it.

        Raises:
            CorruptLogError: the commit lacks a required in-commit timestamp.
        """
        own, version = snapshot.timestamp, snapshot.version
        if snapshot.segment.commit is None or uses_in_commit_timestamp(snapshot.metadata, version):
            return own
        return self.commit_times().get(version, own)

    def version_at(
        self, metadata: Metadata, timestamp_ms: int, *, allow_later: bool = False
    ) -> int:
        """Return the last version committed at or before a time; see ``resolve_timestamp``."""
        warn = ignore_warning if allow_later else self.warn
        return resolve_timestamp(
            self.reader, self.listing, metadata, timestamp_ms, warn=warn, allow_later=allow_later
        )

    def find_misdated(
        self, metadata: Metadata, last: int, span: tuple[int, int] | None
    ) -> int | None:
        """Return the first commit up to a version that may be of a time span, against its date.

        Without ``span``, the dates of files are right: only in-commit timestamps are compared.
        """
        found = [find_clamped(self.reader, self.listing, metadata, last)]
        if span is not None:
            found.append(find_misdated(self.reader, self.listing, metadata, last, span))
        return min((it for it in found if it is not None), default=None)

    def rebuildable(self, versions: Set[int], broken: Set[int] = frozenset()) -> set[int]:
        """Return the versions that the log can rebuild without the ``broken`` commits."""
        return find_rebuildable(self.store, self.listing, versions, broken)

    def first_rebuildable(self, known: Checkpoint | None = None) -> int:
        """Return the oldest version from which all versions up to the latest can be rebuilt.

        ``known`` is a checkpoint that was already read. It is not read again.
        """
        listing = self.listing
        # Without commit 0, no version before the oldest checkpoint can be rebuilt.
        if known is not None and known == listing.checkpoints[0] and listing.first_commit > 0:
            return known.version
        versions = {*listing.commits, *(c.version for c in listing.checkpoints)}
        found = self.rebuildable(versions)
        first = self.latest_version
        while first - 1 in found:
            first -= 1
        return first

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
                hint=hint_at_versions(self.uri),
            )
