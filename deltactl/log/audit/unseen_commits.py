"""Find commits that were written without an earlier one, which a wrong checkpoint lacks.

Their writers read the checkpoint, or the earlier commit while it was damaged. If they rewrote,
replaced or merged rows, a repair of the checkpoint would bring rows in a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.log.audit.commit_doubts import ignore_broken
from deltactl.log.commits.contents import CommitBytes, find_actions
from deltactl.log.commits.events import EventCollector
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.path_columns import normalize_paths

_NO_FILES: Final = pa.table({"key": pa.array([], pa.string()), "path": pa.array([], pa.string())})
_REPLACES: Final = frozenset(
    {
        "CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE",
        "REPLACE TABLE AS SELECT", "TRUNCATE",
    }
)  # fmt: skip
# A MERGE can insert rows and remove none.
_CHANGES: Final = frozenset({"CLONE", "DELETE", "MERGE", "UPDATE"})
# These remove files that exist no longer, or whose rows they keep.
_KEEPS: Final = frozenset({"FSCK", "OPTIMIZE"})
_RESTORE: Final = "RESTORE"
_MOST_DIGITS: Final = 20
_NO_CONDITION: Final = ("", "[]", '["true"]')


class _Writes(EventCollector):
    """Collects the events, and the commits that replaced, changed or certainly kept all rows.

    ``restored`` has the version that a RESTORE restored, or -1 if it is not stated. ``txns`` has
    the version of a commit, and the application and version of a ``txn`` action.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replacing: set[int] = set()
        self.changing: set[int] = set()
        self.keeping: set[int] = set()
        self.restored: dict[int, int] = {}
        self.txns: list[tuple[int, object, object]] = []

    def see(self, commit: CommitBytes) -> bool:
        info: Mapping[str, Any] = {}
        with suppress(CorruptLogError):  # parsing reports it
            info = commit.info or {}
        operation, parameters = str(info.get("operation")), info.get("operationParameters")
        chosen = parameters if isinstance(parameters, dict) else {}
        if commit.version is not None:
            if operation == _RESTORE:
                target = str(chosen.get("version"))
                is_version = target.isdecimal() and len(target) < _MOST_DIGITS
                self.restored[commit.version] = int(target) if is_version else -1
            elif _replaces_rows(operation, chosen, str(info.get("engineInfo"))):
                self.replacing.add(commit.version)
            elif operation in _CHANGES:
                self.changing.add(commit.version)
            elif operation in _KEEPS:
                self.keeping.add(commit.version)
            with suppress(CorruptLogError):
                nodes = find_actions(commit.name, commit.data, "txn")
                self.txns += [(commit.version, it.get("appId"), it.get("version")) for it in nodes]
        return super().see(commit)


def _replaces_rows(operation: str, chosen: Mapping[str, Any], engine: str) -> bool:
    """Return whether a commit states that it replaced all rows, or those of a condition."""
    mode = str(chosen.get("mode", chosen.get("outputMode"))).lower()
    if operation == "DELETE" and chosen.get("predicate") in (None, *_NO_CONDITION):
        # delta-rs states no condition then. Others may never state one.
        return "predicate" in chosen or engine.startswith("delta-rs")
    return operation in _REPLACES or mode in ("overwrite", "complete")


def find_unseen(log: DeltaLog, own: Snapshot, replayed: Snapshot, since: int) -> str | None:
    """Return which commit was written without an earlier one that a checkpoint lacks, or ``None``.

    ``own`` is the version of the checkpoint, rebuilt from it alone, and ``replayed`` is the same
    version, rebuilt without it. ``since`` is the version of the first wrong checkpoint.

    A commit that removes a file again which the earlier one had removed did not see it, and
    probably neither did an overwrite that leaves files of the earlier one. A writer that changed
    rows after the wrong checkpoint probably read this checkpoint, or wrote it. If the checkpoint
    has files of an older such commit, or their tombstones, the earlier one may have been damaged
    for its writer too. A ``txn`` action that is there already, or is also in the earlier one, shows
    the same.
    """
    base, last, writes = replayed.segment.checkpoint_version, log.latest_version, _Writes()
    log.scan([v for v in log.commit_files if base < v <= last], writes, on_broken=ignore_broken)
    events = writes.between(base + 1, last).events
    removes, adds = events.filter(pc.invert(events["is_add"])), events.filter(events["is_add"])
    live = _live_files(own)
    removed_later = removes.filter(pc.greater(removes["version"], own.version))
    lacking = _without(_live_files(replayed), "key", live, removed_later)
    if not lacking.num_rows:  # a repair brings no file into the latest version
        return None
    newest = adds.group_by("key").aggregate([("version", "max")])
    repeated = _find_repeated(log, events, _unseen(newest, removes, lacking["key"], live["key"]))
    if repeated is not None:
        return repeated
    lacking = _without(lacking, "path", live)
    if not lacking.num_rows:  # a repair changes only which rows of live files are deleted
        return None
    added = newest["version_max"].take(pc.index_in(lacking["key"], value_set=newest["key"]))
    first = pc.min(pc.fill_null(added, base)).as_py()
    removing = set(removes.filter(removes["is_change"])["version"].to_pylist())
    newest_added, adding = pc.max(added).as_py() or base, set(added.to_pylist())
    restores = {v for v, target in writes.restored.items() if target < newest_added}
    changing = writes.changing | removing - writes.keeping - writes.restored.keys() | restores
    suspects = {v for v in writes.replacing if v > first}
    seen = _find_seen(adds, live, own)
    suspects |= {v for v in changing if v > first and (v >= since or v in seen)}
    later = (it for it in writes.txns if it[0] > own.version)
    suspects |= {v for v, app, number in later if _is_repeated(app, number, own, replayed)}
    lost = {it[1:] for it in writes.txns if it[0] in adding}
    suspects |= {v for v, *txn in writes.txns if tuple(txn) in lost and v > first} - adding
    if not suspects:
        return None
    name = "an older commit" if first <= base else log.commit_file(first)
    return (
        f"{log.commit_file(min(suspects))} replaces, changes or repeats rows, but leaves files of "
        f"{name}: perhaps its writer did not see this commit"
    )


def _is_repeated(app: object, version: object, own: Snapshot, replayed: Snapshot) -> bool:
    """Return whether a ``txn`` action was written before, in a commit that a checkpoint lacks."""
    before, seen = replayed.txns.get(str(app)), own.txns.get(str(app))
    if before is None or not isinstance(version, int):
        return False
    return (-1 if seen is None else seen.version) < version <= before.version


def _find_seen(adds: pa.Table, live: pa.Table, own: Snapshot) -> set[int]:
    """Return the commits that added files which a checkpoint has, or had."""
    parts = [live["key"], *(file_keys(batch) for batch in own.tombstone_batches(KEY_COLUMNS))]
    known = pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
    return set(adds.filter(pc.is_in(adds["key"], value_set=known))["version"].to_pylist())


def _live_files(snapshot: Snapshot) -> pa.Table:
    """Return the keys of the live files, and their normalized paths."""
    parts = [
        pa.table({"key": file_keys(batch), "path": normalize_paths(batch["encoded_path"])})
        for batch in snapshot.file_batches(KEY_COLUMNS)
    ]
    return pa.concat_tables([_NO_FILES, *parts])


def _without(files: pa.Table, column: str, *others: pa.Table) -> pa.Table:
    for other in others:
        files = files.filter(pc.invert(pc.is_in(files[column], value_set=other[column])))
    return files


def _unseen(
    newest: pa.Table, removes: pa.Table, keys: pa.ChunkedArray, live: pa.ChunkedArray
) -> pa.Array:
    """Return the commits that added files, and those that added what these commits removed.

    ``newest`` is the newest add of each file. Files that are ``live`` in the checkpoint were seen.
    """
    removes = removes.filter(pc.invert(pc.is_in(removes["key"], value_set=live)))
    added = newest["version_max"].take(pc.index_in(removes["key"], value_set=newest["key"]))
    pairs = pa.table({"by": removes["version"], "of": added}).group_by(["by", "of"]).aggregate([])
    removed: dict[int, list[int | None]] = {}
    for by, of in zip(pairs["by"].to_pylist(), pairs["of"].to_pylist(), strict=True):
        removed.setdefault(by, []).append(of)
    found: set[int] = set()
    is_wanted = pc.is_in(newest["key"], value_set=keys)
    pending: list[int | None] = pc.unique(newest["version_max"].filter(is_wanted)).to_pylist()
    while pending:
        version = pending.pop()
        if version is not None and version not in found:
            found.add(version)
            pending += removed.get(version, [])
    return pa.array(sorted(found), pa.int64())


def _find_repeated(log: DeltaLog, events: pa.Table, unseen: pa.Array) -> str | None:
    """Return a commit that removes a file again that an ``unseen`` one had removed."""
    removed = events["key"].filter(pc.is_in(events["version"], value_set=unseen))
    found = events.filter(pc.is_in(events["key"], value_set=removed))
    order = [("key", "ascending"), ("version", "ascending"), ("is_add", "ascending")]
    found = found.sort_by(order).select(["key", "path", "version", "is_add"])
    before, after = found.slice(0, max(found.num_rows - 1, 0)), found.slice(1)
    tests = [
        pc.equal(before["key"], after["key"]),
        pc.invert(pc.or_(before["is_add"], after["is_add"])),
        pc.is_in(before["version"], value_set=unseen),
        pc.invert(pc.is_in(after["version"], value_set=unseen)),
    ]
    again = after.append_column("earlier", before["version"]).filter(reduce(pc.and_, tests))
    for row in again.sort_by("version").slice(0, 1).to_pylist():
        return (
            f"{log.commit_file(row['version'])} removes {row['path']!r} again, which "
            f"{log.commit_file(row['earlier'])} had removed: its writer did not see this commit"
        )
    return None
