"""Find restorable versions: the log can rebuild them and their files exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, DeltactlError
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.audit.path_actions import FirstActions
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.events import EventCollector
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.lifetimes import Lifetimes
from deltactl.log.physical_names import locate
from deltactl.log.rebuildable import split_runs
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags
from deltactl.operations.stored_files import list_facts, stat_files
from deltactl.protocol.deletion_vectors import vector_ends, vector_files
from deltactl.protocol.vacuum_names import below_mask
from deltactl.storage.store import Store


class State(StrEnum):
    """Whether a version can be read completely, partly or not."""

    READABLE = "readable"
    PARTLY_GONE = "partly gone"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Restorable:
    """The state of a version: of ``num_files`` live files, ``num_gone`` cannot be read.

    A file without its deletion vector cannot be read either. Both are 0 if the log cannot
    rebuild the version.
    """

    state: State
    num_files: int = 0
    num_gone: int = 0


_FILE_COLUMNS = ["path", "size_bytes", "vector_file", "vector_end"]
_STORED = pa.schema([("name", pa.string()), ("size_bytes", pa.int64())])


def find_restorable(log: DeltaLog, damaged: Collection[str] = ()) -> Mapping[int, Restorable]:
    """Return the state of each version in the log, except those whose state is unknown.

    Lists all files below the root once; files of another size than in the log count as gone, files
    that are too short for their deletion vectors, and those with a name in ``damaged``.
    Versions before a missing or broken commit are rebuilt from the commits before it. The state of
    a version that is rebuilt from a commit that may have lost actions is unknown.
    """
    try:
        files = _list_files(log.store)
        if damaged:
            is_damaged = pc.is_in(files["name"], value_set=pa.array(sorted(damaged)))
            files = files.filter(pc.invert(is_damaged))
        return _judge_versions(log, files, frozenset())
    except DeltactlError as error:
        log.warn(f"it is unknown which versions can be restored: {error.message}")
        return {}


def _judge_versions(
    log: DeltaLog, stored: pa.Table, broken: frozenset[int]
) -> dict[int, Restorable]:
    """Return the states of all versions; ``broken`` are those of `_find_broken`."""
    commits = log.commit_files.keys() - broken
    checkpoints = {each.version for each in log.checkpoints}
    versions = log.rebuildable({*commits, *checkpoints}, broken)
    lost = dict.fromkeys(log.commit_files.keys() - versions, Restorable(State.GONE))
    found: dict[int, Restorable] = {}
    doubts = CommitDoubts()
    for run in split_runs(sorted(versions), commits):
        try:
            found |= _judge_run(log, run, stored, commits, doubts)
        except DeltactlError as error:
            if more := _find_broken(log, commits):
                return _judge_versions(log, stored, broken | more)
            log.warn(
                f"it is unknown which of the versions {run[0]} to {run[-1]} can be restored: "
                f"{error.message}"
            )
    if doubts.found:
        sound = log.rebuildable(found.keys(), broken | doubts.found.keys())
        if unknown := found.keys() - sound:
            doubts.warn(log, min(unknown))
        found = {version: state for version, state in found.items() if version in sound}
    return lost | found


def _find_broken(log: DeltaLog, commits: Set[int]) -> set[int]:
    """Return those of the versions whose commit cannot be parsed, or has an invalid vector."""
    broken: set[int] = set()

    def on_broken(commit: CommitBytes, _: CorruptLogError) -> None:
        assert commit.version is not None  # a commit of the listing
        broken.add(commit.version)

    for parsed in log.parsed_commits(sorted(commits), on_broken=on_broken):
        for version in parsed.versions:
            try:
                EventCollector().visit(parsed.select([version]))
            except DeltactlError:
                broken.add(version)
    return broken


def _judge_run(
    log: DeltaLog, run: list[int], stored: pa.Table, commits: Set[int], doubts: CommitDoubts
) -> dict[int, Restorable]:
    """Return the states of consecutive versions that the log can rebuild from ``commits``."""
    store, events = log.store, EventCollector()
    first = run[0] + 1
    while first - 1 in commits:  # earlier commits show when files were added
        first -= 1
    actions = FirstActions(log.uri, begins=first == 0)
    snapshot = log.snapshot(run[-1], visitors=[events, doubts, actions])
    scan = log.events(snapshot, first, events, doubts, actions)
    doubts.found = actions.find_unknown_removes() | doubts.found
    lifetimes = _with_untouched(Lifetimes.of(scan, run[0]), snapshot)
    files = lifetimes.files
    gone = ~_present(store, files["path"], stored, files["size_bytes"], pc.not_equal)
    gone |= ~_present(store, files["vector_file"], stored, files["vector_end"], pc.less)
    total = lifetimes.count(np.ones(len(gone), np.bool_))
    missing = lifetimes.count(gone)
    return {
        version: _judge(num_files, num_gone)
        for version, num_files, num_gone in zip(run, total.tolist(), missing.tolist(), strict=True)
    }


def _judge(num_files: int, num_gone: int) -> Restorable:
    if not num_gone:
        return Restorable(State.READABLE, num_files)
    state = State.GONE if num_gone == num_files else State.PARTLY_GONE
    return Restorable(state, num_files, num_gone)


def _with_untouched(lifetimes: Lifetimes, snapshot: Snapshot) -> Lifetimes:
    """Add the live files without an action in the range: they were always live."""
    known = lifetimes.files["key"].combine_chunks()
    parts = [lifetimes.files.select(_FILE_COLUMNS)]
    for batch in snapshot.file_batches(("path", "size_bytes", *KEY_COLUMNS)):
        untouched = batch.filter(pc.invert(pc.is_in(file_keys(batch), value_set=known)))
        vectors = untouched["deletion_vector"]
        columns = [vector_files(vectors), vector_ends(vectors)]
        parts.append(
            pa.table([untouched["path"], untouched["size_bytes"], *columns], names=_FILE_COLUMNS)
        )
    files = pa.concat_tables(parts)
    added = files.num_rows - len(lifetimes.born)
    return Lifetimes(
        lifetimes.first,
        lifetimes.last,
        files,
        np.concatenate([lifetimes.born, np.full(added, lifetimes.first)]),
        np.concatenate([lifetimes.died, np.full(added, lifetimes.last + 1)]),
    )


def _present(
    store: Store,
    logged: pa.ChunkedArray,
    stored: pa.Table,
    sizes: pa.ChunkedArray,
    differs: Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.ChunkedArray],
) -> Flags:
    """Return whether each file can be read, by its name in the log; true if there is no name.

    It exists, and its size does not differ from that in the log (``differs(stored, logged)``). No
    listing follows links, which have no size.
    """
    located = locate(store, logged)
    links = stored.filter(pc.is_null(stored["size_bytes"]))["name"].to_pylist()
    outside = pc.and_(pc.is_null(located), pc.is_valid(logged))
    outside = pc.or_(outside, pc.fill_null(below_mask(located, links), False))
    located = pc.coalesce(located, logged)
    if pc.any(outside).as_py():
        found = stat_files(store, located.filter(outside).unique())
        parts = [stored, found.select(["path", "size_bytes"]).rename_columns(_STORED.names)]
        stored = pa.concat_tables(parts)
    places = pc.index_in(located, value_set=stored["name"])
    present = pc.or_(pc.is_valid(places), pc.is_null(logged))
    has_other = differs(stored["size_bytes"].take(places), sizes)
    present = pc.and_(present, pc.invert(pc.fill_null(has_other, False)))
    return np.asarray(present.to_numpy(), np.bool_).copy()


def _list_files(store: Store) -> pa.Table:
    """Return all files below the root that a log can contain, with the sizes that are known."""
    listing = list_facts(store)
    assert listing.facts is not None  # requested
    files = pa.table([listing.files, listing.facts["size_bytes"]], schema=_STORED)
    links = [pa.array(listing.links, pa.string()), pa.nulls(len(listing.links), pa.int64())]
    return pa.concat_tables([files, pa.table(links, schema=_STORED)])
