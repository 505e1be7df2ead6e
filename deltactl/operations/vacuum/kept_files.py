"""Collect the physical names of all files that a retained version needs.

- files that are live for any reader (with any comparison of paths), and their deletion vectors;
- removed files whose tombstone is younger than the cutoff;
- every file in a commit after the version that was current at the cutoff, whatever the timestamps
  of its tombstones: checkpoints drop tombstones after the retention of the table, not after
  ``--retain``;
- files of ``keep_versions`` and ``keep_last``, and the change data of their commits;
- files that other tables, such as shallow clones, reference;
- files that the newest Iceberg metadata of the table refer to (UniForm), if pyiceberg is installed.

Names are yielded in batches, with repetitions, so that a lite run never has all of them in memory.

Of tables that reference files of this one (noted clones, and given tables), all files and deletion
vectors that the log still references are kept: live files, tombstones, and files in its commits and
older checkpoints. Each file of its log is read once, as a stream. If a noted clone cannot be read,
the vacuum is refused: it does not assume that the clone was deleted. Clones of clones reference
files of the first table, so the notes in a clone are read too.

One file can have several addresses: by a bind mount, an alias of a bucket, or the old name of a
directory. So for a reference that is not below the root, all names are kept that end the reference.
If no reference of another table is below the root, nor is one of them the same file by size and
time, the vacuum is refused: the addresses may be of files that this table has under other names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import Literal, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    ConflictError,
    DeltactlError,
    LogGapError,
    NotATableError,
    SafetyError,
    VersionNotFoundError,
    Warn,
    ignore_warning,
)
from deltactl.log.commits.events import CommitScan, EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.log.lifetimes import added_by_text
from deltactl.log.naming import naming
from deltactl.log.physical_names import (
    event_names,
    file_names,
    locate,
    misread_names,
    possible_names,
)
from deltactl.log.rebuildable import split_runs
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone_notes import CloneNote, read_notes
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.retention import Retention
from deltactl.option_names import option
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.path_columns import absolute_mask
from deltactl.storage.names import is_absolute_name, refuse_chain
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from deltactl.units import HOUR_MS, format_count, format_timestamp

Role: TypeAlias = Literal["live", "retained", "other", "possible"]
"""Why a name is kept: the latest version, another version, or something else needs it.

``possible`` names may be needed, and need not exist.
"""

Kept: TypeAlias = tuple[pa.ChunkedArray, Role]
"""Names to keep."""

_FILE_COLUMNS = ("path", "deletion_vector")
_SAMPLED = 20  # files elsewhere that are compared with files below the root


@dataclass(frozen=True, slots=True)
class KeepRules:
    """The rules that select the files to keep.

    ``current_at_cutoff`` is the version that was current at the cutoff, ``None`` if the table is
    younger; ``scan`` covers at least the commits after it, and those after ``oldest_kept``.
    ``others`` are the names that other tables need.
    """

    log: DeltaLog
    snapshot: Snapshot
    scan: CommitScan
    retention: Retention
    current_at_cutoff: int | None
    options: VacuumOptions
    others: Iterable[pa.ChunkedArray]
    context: RunContext


def live_names(snapshot: Snapshot, role: Role = "live") -> Iterator[Kept]:
    """Yield the names of live files and their deletion vectors.

    An absolute name outside of the root may be another address of a file below it.
    """
    for batch in snapshot.kept_batches(_FILE_COLUMNS):
        vectors = pc.unique(vector_files(batch["deletion_vector"]).drop_null())
        for names in (batch["path"], pa.chunked_array([vectors], pa.string())):
            located = locate(snapshot.store, names)
            yield located.drop_null(), role
            if located.null_count:
                outside = names.filter(pc.is_null(located)).combine_chunks()
                yield from ((ends, "possible") for ends in possible_names(outside))


def keep_names(rules: KeepRules, oldest_kept: int | None) -> Iterator[Kept]:
    """Yield all names to keep, in batches, with the names for which some reader takes them.

    ``oldest_kept`` is the oldest of the last versions to keep, if requested.

    Raises:
        SafetyError: a file of the log cannot be located.
        TableError: a version to keep cannot be rebuilt.
    """
    needed: Iterator[Kept] = ((names, "other") for names in rules.others)
    for names, role in chain(_named_by_the_log(rules, oldest_kept), needed):
        yield names, role
        yield misread_names(rules.snapshot.store, names), "possible"


def reads_iceberg(snapshot: Snapshot) -> bool:
    """Return whether files are kept for the Iceberg metadata of the table: UniForm, pyiceberg."""
    return "iceberg" in snapshot.properties.uniform_formats and find_spec("pyiceberg") is not None


def _named_by_the_log(rules: KeepRules, oldest_kept: int | None) -> Iterator[Kept]:
    store = rules.snapshot.store
    yield from live_names(rules.snapshot)
    times: list[pa.ChunkedArray] = []
    for batch in rules.snapshot.tombstone_batches((*_FILE_COLUMNS, "deletion_timestamp_ms")):
        young = pc.greater_equal(batch["deletion_timestamp_ms"], rules.retention.cutoff_ms)
        yield file_names(store, batch.filter(pc.fill_null(young, False))), "retained"
        times.append(batch["deletion_timestamp_ms"])
    _warn_of_future(rules, times)
    first = rules.scan.first if rules.current_at_cutoff is None else rules.current_at_cutoff + 1
    if oldest_kept is not None:
        first = min(first, oldest_kept + 1)
    events = rules.scan.events
    yield event_names(store, events.filter(pc.greater_equal(events["version"], first))), "retained"
    yield event_names(store, added_by_text(rules.scan)), "retained"
    versions = {*rules.options.keep_versions}
    if oldest_kept is not None:
        # Commits show all changes after the oldest; each checkpoint shows only its own version.
        versions |= {oldest_kept, *range(oldest_kept, rules.scan.first)}
    changes = rules.scan.change_files
    wanted = pa.array(sorted(versions), pa.int64())
    is_kept = pc.or_(
        pc.greater_equal(changes["version"], first), pc.is_in(changes["version"], wanted)
    )
    yield locate(store, changes.filter(is_kept)["path"]).drop_null(), "retained"
    if rules.snapshot.properties.change_feed_enabled:
        # Without change data files, the added and removed files of a commit are its change data.
        is_fed = pc.and_(pc.is_in(events["version"], wanted), events["is_change"])
        yield event_names(store, events.filter(is_fed)), "retained"
    for version in sorted(versions):
        if version != rules.snapshot.version:
            yield from live_names(version_to_keep(rules.log, version), "retained")
    yield from _needed_before_gaps(rules)


def _needed_before_gaps(rules: KeepRules) -> Iterator[Kept]:
    """Yield the names of versions before a gap in the log: no commit shows what was removed in it.

    Raises:
        TableError: the log is damaged.
    """
    log, since = rules.log, rules.current_at_cutoff or 0
    older = [it for it in _older_versions(log, log.first_commit - 1) if it >= since]
    for first, *others in split_runs(older, log.commit_files.keys()):
        snapshot = log.snapshot(first)
        yield from live_names(snapshot, "retained")
        for commits in log.parsed_commits(others, snapshot.metadata.partition_keys):
            yield file_names(log.store, commits.adds), "retained"


def version_to_keep(log: DeltaLog, version: int) -> Snapshot:
    """Rebuild a version that is to be kept.

    Raises:
        VersionNotFoundError: the log does not have it, or no longer.
        TableError: the log is damaged.
    """
    try:
        return log.snapshot(version)
    except LogGapError as gap:
        raise VersionNotFoundError(
            f"cannot find the files that version {version} needs: {gap.message}. Nothing was "
            "removed",
            hint=f"Omit {option('keep_versions', version)} if a log cleanup deleted the commits: "
            "nothing can read the version any more. Otherwise first restore the commits from a "
            "backup, with their modification times (`cp -p`).",
        ) from gap


def _warn_of_future(rules: KeepRules, times: Sequence[pa.ChunkedArray]) -> None:
    """Warn of tombstones that wait longer than the retention, because of the clock of a writer."""
    retention = rules.retention
    last_ms = max((pc.max(time).as_py() or 0 for time in times), default=0)
    # The time of the retention can be that of an earlier commit.
    if last_ms <= retention.now_ms or last_ms <= (now_ms := rules.context.clock.now_ms()) + HOUR_MS:
        return
    count = sum(pc.sum(pc.greater(time, now_ms)).as_py() or 0 for time in times)
    rules.context.warn(
        f"{format_count(count, 'removed file is', 'removed files are')} kept, the last until "
        f"{format_timestamp(last_ms + retention.retain_ms)}: the log dates the removal in the "
        "future"
    )


class OtherTables:
    """The tables that use files of this table."""

    def __init__(self, snapshot: Snapshot, context: RunContext, warn: Warn | None = None) -> None:
        """Find files of the table of ``snapshot``; the others are opened with the same options."""
        self._store, self._table_id = snapshot.store, snapshot.metadata.id
        self._options, self._warn = context.storage_options, warn or context.warn
        self._clock = context.clock

    def names(
        self, addresses: Sequence[str], notes: Sequence[CloneNote], *, iceberg: bool
    ) -> Iterator[pa.ChunkedArray]:
        """Yield the names for tables at addresses, noted clones, and Iceberg metadata.

        Raises:
            DeltactlError: one of them cannot be read, or references only files elsewhere.
        """
        yield from self.names_for(addresses)
        yield from self.names_for_clones(notes)
        if iceberg:
            yield from self.names_for_iceberg()

    def names_for(self, addresses: Sequence[str]) -> Iterator[pa.ChunkedArray]:
        """Yield the names under the root that tables at these addresses reference.

        Raises:
            SafetyError: one of them references only files elsewhere.
            TableError: one of them is not a table, or its log is damaged.
            StorageError: one of them cannot be read.
        """
        for address in addresses:
            other = open_store(address, self._options)
            with naming(other.uri):
                yield from self._names_used_by(other, None)

    def names_for_clones(self, notes: Sequence[CloneNote]) -> Iterator[pa.ChunkedArray]:
        """Yield the names under the root that noted clones, and their clones, reference.

        Raises:
            SafetyError: one of them cannot be read, is now another table, or references only
                files elsewhere.
            ConflictError: the same, but a run may still commit it.
        """
        waiting, seen = list(notes), {(self._store.uri, self._table_id)}
        while waiting:
            note = waiting.pop(0)
            if (note.clone_uri, note.clone_id) in seen:
                continue
            seen.add((note.clone_uri, note.clone_id))
            try:
                other = open_store(note.clone_uri, self._options)
                yield from self._names_used_by(other, note, may_be_elsewhere=note not in notes)
                waiting += read_notes(other)
            except DeltactlError as error:
                _refuse(self._store, note, error, self._clock.now_ms())

    def names_for_iceberg(self) -> Iterator[pa.ChunkedArray]:
        """Yield the names under the root that the newest Iceberg metadata refer to.

        Raises:
            SafetyError: the metadata cannot be read, or refer only to files elsewhere.
        """
        from deltactl.operations.iceberg_metadata import newest_metadata, referenced_addresses

        newest = newest_metadata(self._store)
        if not newest:
            self._warn(
                "there are no Iceberg metadata in metadata/: files of older versions that other "
                "Iceberg metadata refer to are kept for the retention, and not longer"
            )
        addresses = referenced_addresses(self._store, newest)
        yield from self._names_in(self._store, ([batch] for batch in addresses))

    def _names_used_by(
        self, other: Store, note: CloneNote | None, *, may_be_elsewhere: bool = False
    ) -> Iterator[pa.ChunkedArray]:
        """Yield the names that may be of files under the root that another table references."""
        refuse_chain(other.uri)
        columns = names_in_log_of(other, note, self._warn)
        yield from self._names_in(other, columns, may_be_elsewhere=may_be_elsewhere)

    def _names_in(
        self,
        other: Store,
        batches: Iterable[Sequence[pa.ChunkedArray]],
        *,
        may_be_elsewhere: bool = False,
    ) -> Iterator[pa.ChunkedArray]:
        """Yield the names under the root for absolute names in columns that ``other`` has."""
        is_used = may_be_elsewhere
        elsewhere: list[str] = []
        for columns in batches:
            for names in columns:
                absolute = pc.unique(names.filter(absolute_mask(names)))
                located = pa.array(self._store.real_names(absolute.to_pylist()), pa.string())
                is_used = is_used or located.null_count < len(located)
                yield pa.chunked_array([located.drop_null()])
                outside = absolute.filter(pc.is_null(located))
                yield from possible_names(outside)
                room = _SAMPLED - len(elsewhere)
                elsewhere += outside.slice(0, room).to_pylist()
        if is_used:
            return
        found = zip(elsewhere, other.real_names(elsewhere), strict=True)
        elsewhere = [name for name, own in found if own is None]
        if elsewhere and not self._has_one_of(elsewhere):
            raise SafetyError(
                f"{other.uri} references files such as {elsewhere[0]!r}, but none below "
                f"{self._store.uri}",
                hint="Rerun with the address of the table in these references. If the table was "
                "moved, make the old address lead to it, for example with a symbolic link.",
            )

    def _has_one_of(self, names: Sequence[str]) -> bool:
        """Return whether a file outside of the root is also below the root: same size and time."""
        for name in names:
            ends = [end for it in possible_names(pa.array([name])) for end in it.to_pylist()]
            inside = [end for end in ends if not is_absolute_name(end)]
            there, *here = self._store.stat_many([name, *inside])
            if there is None:
                continue
            facts = (there.size_bytes, there.modified_ms)
            if any(it and (it.size_bytes, it.modified_ms) == facts for it in here):
                return True
        return False


def names_in_log_of(
    other: Store, note: CloneNote | None, warn: Warn = ignore_warning
) -> Iterator[Sequence[pa.ChunkedArray]]:
    """Yield columns of names, relative or absolute, in any version of another table.

    Raises:
        NotATableError: there is no table, or not the one that the note is of.
        ConflictError: the version that the note names was not committed yet.
        DeltactlError: its log cannot be read.
    """
    log = DeltaLog(other, warn)
    log.ensure_newest()
    events = EventCollector()
    latest = log.snapshot(visitors=[events])
    if note is not None and note.clone_id and latest.metadata.id != note.clone_id:
        raise NotATableError(
            f"{other.uri} now contains another table: its id is {latest.metadata.id}, not "
            f"{note.clone_id}"
        )
    if note is not None and latest.version < note.clone_version:
        raise ConflictError(
            f"a `deltactl clone --replace` has not committed version {note.clone_version} of "
            "the clone. If it was killed, rerun it"
        )
    yield from _files_of(latest)
    for batch in latest.tombstone_batches(_FILE_COLUMNS):
        yield _names(batch)
    first = log.first_commit
    if first > latest.version:
        return
    scan = log.events(latest, first, events)
    yield [scan.events["path"], scan.events["vector_file"], scan.change_files["path"]]
    # All files that were live since the version before are in these commits, or are live.
    for version in _older_versions(log, first - 1):
        yield from _files_of(log.snapshot(version))


def _files_of(snapshot: Snapshot) -> Iterator[Sequence[pa.ChunkedArray]]:
    for batch in snapshot.kept_batches(_FILE_COLUMNS):
        yield _names(batch)


def _names(files: pa.Table) -> Sequence[pa.ChunkedArray]:
    return [files["path"], vector_files(files["deletion_vector"])]


def _older_versions(log: DeltaLog, before: int) -> list[int]:
    """Return the versions before ``before`` that can be rebuilt; only a log with gaps has any."""
    versions = {*log.commit_files, *(checkpoint.version for checkpoint in log.checkpoints)}
    older = {version for version in versions if version < before}
    return sorted(log.rebuildable(older)) if older else []


def _refuse(store: Store, note: CloneNote, error: DeltactlError, now_ms: int) -> NoReturn:
    if note.may_be_running(now_ms):
        text, hint = note.describe_run()
        raise ConflictError(
            f"{text}, and it is unknown which files of this table it uses: {error.message}",
            hint=hint,
        ) from error
    source, clone = shlex.quote(store.uri), shlex.quote(note.clone_uri)
    host = f" on {note.host}" if note.host else ""
    raise SafetyError(
        f"the shallow clone {note.clone_uri!r}{host} of version {note.source_version} is recorded "
        f"in {note.name}, but it is unknown which files of this table it uses: {error.message}",
        hint="Rerun when the clone can be read, with the address of this table that the clone "
        "uses. If the clone or this table was moved, make the old address lead to it, for example "
        "with a symbolic link. Or, for a clone that is now at NEW, first run `deltactl clone "
        f"{source} NEW --shallow --version {note.source_version}`, which records its new address "
        "and does not change it (repeat the condition of a clone of some partitions). If this "
        "table no longer has that version, make a deep clone of NEW instead. Do not run "
        f"`deltactl clone {source} NEW --shallow --replace`: it replaces the rows of the clone. "
        "If the new address is recorded, the deep clone is made, or the clone was deleted or never "
        "committed, or uses no file of this table any more, run "
        f"`deltactl vacuum {source} --forget-clone {clone}`.",
    ) from error
