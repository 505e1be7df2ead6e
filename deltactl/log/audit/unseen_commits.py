"""Find commits that were written without an earlier one, which a wrong checkpoint lacks.

Their writers read the checkpoint, or the earlier commit while it was damaged. If they rewrote or
replaced rows, a repair of the checkpoint would bring rows in a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.log.audit.commit_doubts import ignore_broken
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.events import EventCollector
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot

_NO_KEYS: Final = pa.array([], pa.string())
_REPLACES: Final = frozenset(
    {
        "CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE",
        "REPLACE TABLE AS SELECT", "TRUNCATE",
    }
)  # fmt: skip
# These keep the rows that they do not name. A wrong RESTORE is RESTORE_INCOMPLETE.
_KEEPS: Final = frozenset({"DELETE", "MERGE", "OPTIMIZE", "RESTORE", "UPDATE"})
_NO_CONDITION: Final = ("", "[]", '["true"]')
_Extent: TypeAlias = Literal["all", "part", "unknown"]


class _Writes(EventCollector):
    """Collects the events, and whether commits replaced all rows, or a part of them."""

    def __init__(self) -> None:
        super().__init__()
        self.extents: dict[int, _Extent] = {}

    def see(self, commit: CommitBytes) -> bool:
        extent: _Extent | None = "unknown"
        with suppress(CorruptLogError):  # parsing reports it
            extent = _find_extent(commit.info or {})
        if extent is not None and commit.version is not None:
            self.extents[commit.version] = extent
        return super().see(commit)


def _find_extent(info: Mapping[str, Any]) -> _Extent | None:
    operation, parameters = str(info.get("operation")), info.get("operationParameters")
    chosen = parameters if isinstance(parameters, dict) else {}
    has_condition = chosen.get("predicate") not in (None, *_NO_CONDITION)
    if operation == "WRITE" and str(chosen.get("mode")).lower() == "overwrite":
        return "part" if has_condition else "all"
    if operation == "STREAMING UPDATE" and chosen.get("outputMode") == "Complete":
        return "all"
    if operation == "DELETE" and not has_condition:
        # delta-rs states no condition then. Others may never state one.
        is_known = "predicate" in chosen or str(info.get("engineInfo")).startswith("delta-rs")
        return "all" if is_known else None
    if operation in _REPLACES:
        return "all"
    return None if operation in _KEEPS else "unknown"


def find_unseen(log: DeltaLog, own: Snapshot, replayed: Snapshot) -> str | None:
    """Return which commit was written without an earlier one that a checkpoint lacks, or ``None``.

    Two kinds are found: a commit that removes files again which the earlier one had removed, and an
    overwrite that leaves files of the earlier one. ``own`` is the version of the checkpoint,
    rebuilt from it alone, and ``replayed`` is the same version, rebuilt without it.
    """
    base, last, writes = replayed.segment.checkpoint_version, log.latest_version, _Writes()
    log.scan([v for v in log.commit_files if base < v <= last], writes, on_broken=ignore_broken)
    events = writes.between(base + 1, last).events
    removes, adds = events.filter(pc.invert(events["is_add"])), events.filter(events["is_add"])
    own_keys = pa.concat_arrays([_NO_KEYS, *_live_keys(own)])
    removed_later = removes.filter(pc.greater(removes["version"], own.version))["key"]
    lacking = pa.concat_arrays([_NO_KEYS, *_live_keys(replayed)])
    lacking = _without(_without(lacking, own_keys), removed_later)
    if not len(lacking):  # a repair brings no file into the latest version
        return None
    newest = adds.group_by("key").aggregate([("version", "max")])
    repeated = _find_repeated(log, removes, adds, _unseen(newest, removes, lacking, own_keys))
    if repeated is not None:
        return repeated
    added = newest["version_max"].take(pc.index_in(lacking, value_set=newest["key"]))
    first = pc.min(pc.fill_null(added, base)).as_py()
    version = _find_overwrite(events, lacking, first, writes.extents)
    if version is None:
        return None
    name = "an older commit" if first <= base else log.commit_file(first)
    return (
        f"{log.commit_file(version)} replaces or deletes rows, but leaves files of {name}: "
        "perhaps its writer did not see this commit"
    )


def _live_keys(snapshot: Snapshot) -> Iterator[pa.Array]:
    for batch in snapshot.file_batches(KEY_COLUMNS):
        yield from file_keys(batch).chunks


def _without(keys: pa.Array, others: pa.Array | pa.ChunkedArray) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))


def _unseen(newest: pa.Table, removes: pa.Table, keys: pa.Array, live: pa.Array) -> pa.Array:
    """Return the commits that added files, and those that added what these commits removed.

    ``newest`` is the newest add of each file. Files that are ``live`` in the checkpoint were seen.
    """
    found = pc.unique(newest["version_max"].filter(pc.is_in(newest["key"], value_set=keys)))
    while True:
        removed = removes["key"].filter(pc.is_in(removes["version"], value_set=found))
        keys = pa.concat_arrays([keys, *_without(removed, live).chunks])
        more = pc.unique(newest["version_max"].filter(pc.is_in(newest["key"], value_set=keys)))
        if len(more) == len(found):
            return found
        found = more


def _find_repeated(
    log: DeltaLog, removes: pa.Table, adds: pa.Table, unseen: pa.Array
) -> str | None:
    """Return a commit that removes a file again that an ``unseen`` one had removed."""
    is_unseen = pc.is_in(removes["version"], value_set=unseen)
    first = removes.filter(is_unseen).group_by("key").aggregate([("version", "min")])
    places = pc.index_in(removes["key"], value_set=first["key"])
    earlier = first["version_min"].take(places)
    is_later = pc.fill_null(pc.greater(removes["version"], earlier), False)
    later = removes.append_column("earlier", earlier).filter(
        pc.and_(is_later, pc.invert(is_unseen))
    )
    for row in later.sort_by("version").slice(0, 1).to_pylist():
        same = adds.filter(pc.equal(adds["key"], row["key"]))
        between = pc.and_(
            pc.greater(same["version"], row["earlier"]), pc.less(same["version"], row["version"])
        )
        if not pc.any(between).as_py():  # else it was added again
            return (
                f"{log.commit_file(row['version'])} removes {row['path']!r} again, which "
                f"{log.commit_file(row['earlier'])} had removed: its writer did not see this commit"
            )
    return None


def _find_overwrite(
    events: pa.Table, lacking: pa.Array, first: int, extents: Mapping[int, _Extent]
) -> int | None:
    """Return an overwrite after version ``first``, which added a ``lacking`` file.

    An overwrite of a part counts if it has files in the directory of a lacking file, and a commit
    of which it is not known what it does, if it removes rows there.
    """
    folders = pc.unique(_folders(events.filter(pc.is_in(events["key"], value_set=lacking))))
    for version in sorted(it for it in extents if it > first):
        own = events.filter(pc.equal(events["version"], version))
        if extents[version] == "unknown":
            own = own.filter(pc.and_(own["is_change"], pc.invert(own["is_add"])))
        is_near = pc.any(pc.is_in(_folders(own), value_set=folders)).as_py()
        if extents[version] == "all" or is_near or (own.num_rows and not len(folders)):
            return version
    return None


def _folders(events: pa.Table) -> pa.ChunkedArray:
    return pc.replace_substring_regex(events["path"], r"[^/]*$", "")
