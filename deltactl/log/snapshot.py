"""Load a table at one version: non-file actions at once, file actions when needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from deltactl.errors import CorruptLogError, LogGapError, MissingActionError, Warn, ignore_warning
from deltactl.lazy import cached_property
from deltactl.log.checkpoint.read import FILE_COLUMNS, TOMBSTONE_COLUMNS, CheckpointHead, read_head
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.contents import CommitReader, UnreadableFileError
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.commits.visitors import Visitor
from deltactl.log.history.timestamps import commit_timestamp
from deltactl.log.listing import LogListing
from deltactl.log.replay import Tail, Watch, live_batches, replay_tail, tombstone_batches
from deltactl.log.segment import LogSegment, select_segment
from deltactl.log.table_probe import no_table_error
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, empty_table
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store


@dataclass(frozen=True)
class Snapshot:
    """A table as of ``version``. It does not change, and threads may share it.

    ``files`` is loaded when it is first used. :meth:`file_batches` streams the files of tables that
    do not fit the memory.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    txns: Mapping[str, Txn]
    domains: Mapping[str, DomainMetadata]
    segment: LogSegment
    store: Store
    reader: CommitReader
    head: CheckpointHead | None
    """The checkpoint from which the version is rebuilt; ``None`` if there is none."""
    tail: Tail
    """The reconciled actions of the commits after the checkpoint."""
    warn: Warn = field(default=ignore_warning, compare=False)
    """Receives table properties that are ignored."""
    watch: Watch | None = field(default=None, compare=False)
    """Sees the files of the checkpoint, and the live files, whenever all of these are read."""
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

    def __repr__(self) -> str:
        """Return the address and the version."""
        return f"Snapshot({self.store.uri!r}, version={self.version})"

    @property
    def older_metadata(self) -> list[Metadata]:
        """Return earlier ``metaData`` actions, as far as the files that were read have them."""
        head = None if self.head is None else self.head.non_file_actions.metadata
        return [*([] if head is None else [head]), *self.tail.non_file_actions.older_metadata]

    @cached_property
    def timestamp(self) -> int:
        """Return the time of the commit (ms): the in-commit timestamp, or the file's own time."""
        return commit_timestamp(self.reader, self.segment, self.metadata)

    @cached_property
    def properties(self) -> TableProperties:
        """Return the table's typed ``delta.*`` properties."""
        return TableProperties(self.metadata.configuration, self.warn)

    @property
    def files(self) -> pa.Table:
        """Return all live files: one row for each, with the columns of ``ADD_SCHEMA``."""
        with self._lock:  # threads that share a snapshot read the log once
            return self._files

    @cached_property
    def _files(self) -> pa.Table:
        batches = list(self.file_batches())
        return pa.concat_tables(batches) if batches else empty_table(ADD_SCHEMA)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        num_files = size_bytes = 0
        for batch in self.file_batches(["size_bytes"]):
            num_files += batch.num_rows
            size_bytes += sum_sizes(batch)
        return num_files, size_bytes

    @property
    def num_files(self) -> int:
        """Return the number of live files."""
        with self._lock:
            return self._totals[0]

    @property
    def size_bytes(self) -> int:
        """Return the total size of all live files in bytes, with their deleted rows."""
        with self._lock:
            return self._totals[1]

    def file_batches(self, columns: Sequence[str] = FILE_COLUMNS) -> Iterator[pa.Table]:
        """Yield live files with the given columns. One batch and the log's tail are in memory."""
        return live_batches(self.store, self.head, self.tail, columns, watch=self.watch)

    def kept_batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield :meth:`file_batches`, and also files that are live for some readers only."""
        return live_batches(
            self.store, self.head, self.tail, columns, by_text=True, watch=self.watch
        )

    def tombstone_batches(self, columns: Sequence[str] = TOMBSTONE_COLUMNS) -> Iterator[pa.Table]:
        """Yield tombstones, also expired ones."""
        return tombstone_batches(self.store, self.head, self.tail, columns)


def load_snapshot(
    reader: CommitReader,
    version: int | None,
    listing: LogListing,
    *,
    list_whole: Callable[[], LogListing] | None = None,
    warn: Warn,
    skip: frozenset[Checkpoint] = frozenset(),
    visitors: Sequence[Visitor] = (),
) -> Snapshot:
    """Rebuild a version from the log; ``None``: the latest.

    If a checkpoint cannot be read, and other files can still rebuild the version, it is ignored
    with a warning. The checkpoints in ``skip`` are not read. The ``visitors`` get the commits that
    are read. ``list_whole`` is called if older files are needed.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the version is not in the log.
        LogGapError, CorruptLogError, MissingActionError: the log is damaged.
    """
    store = reader.store
    latest = listing.latest_version
    if latest is None:
        raise no_table_error(store)
    skipped = skip
    broken: CorruptLogError | None = None
    while True:
        try:
            segment = select_segment(listing, version, skip=skipped, where=store.uri)
        except LogGapError as gap:
            if listing.start_version == 0 or list_whole is None:
                if broken is None:
                    raise
                broken.hint = (
                    "Restore this file, or the commits before the checkpoint, from a backup: no "
                    "other file of the log can rebuild the version."
                )
                raise broken from gap
            listing = list_whole()
            continue
        try:
            # Apart from the commits: only after an error of the checkpoint, an older one can help.
            chosen, checks = segment.checkpoint, reader.checks_sidecars
            head = None if chosen is None else read_head(store, chosen, checks_sidecars=checks)
        except CorruptLogError as error:
            warn(f"{error.message}; trying older files")
            assert segment.checkpoint is not None
            # If no other file can rebuild the version, the first error is the one to report.
            broken, skipped = broken or error, skipped | {segment.checkpoint}
            continue
        try:
            return load_segment(reader, segment, head, visitors, warn)
        except UnreadableFileError as error:
            # These commits are the only files that can rebuild the version.
            if segment.version == latest:
                error.hint_at_version_before()
            raise


def load_segment(
    reader: CommitReader,
    segment: LogSegment,
    head: CheckpointHead | None,
    visitors: Sequence[Visitor] = (),
    warn: Warn = ignore_warning,
) -> Snapshot:
    """Rebuild a version from the files of a segment; ``head`` is that of its checkpoint.

    Raises:
        CorruptLogError, MissingActionError: the log is damaged.
    """
    found = NonFileActions()
    if head is not None:
        found.update(head.non_file_actions)
    tail = replay_tail(reader, segment.tail, found.partition_keys, visitors=visitors)
    found.update(tail.non_file_actions)
    protocol, metadata = found.protocol, found.metadata
    for name, action in (("protocol", protocol), ("metaData", metadata)):
        if action is None:
            raise MissingActionError(
                f"version {segment.version} of {reader.store.uri} has no {name} action",
                hint="Restore _delta_log from a backup; the log is damaged.",
            )
    assert protocol is not None and metadata is not None
    return Snapshot(
        version=segment.version,
        protocol=protocol,
        metadata=metadata,
        txns=found.txns,
        domains=found.live_domains,
        segment=segment,
        store=reader.store,
        reader=reader,
        head=head,
        tail=tail,
        warn=warn,
    )
