"""Undo a vacuum: restore the files that it removed.

    _deltactl/leases/undone.<run>.parquet  the paths of an undone run, dated by the undo

The files of an undone run are kept for the retention again: their tombstones are past it already,
and a file from an older version in the object store has the time that it had. Vacuums list the
leases anyway, so tables without an undone run need no further request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from deltactl.errors import (
    DeltactlError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
)
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info, write_last_vacuum_info
from deltactl.operations.leases import LEASES_DIR
from deltactl.operations.short_repr import ShortRepr
from deltactl.operations.vacuum.journal import (
    RunRecord,
    list_quarantine,
    list_removals,
    move_back,
    quarantine_name,
    read_run,
    remove_directories,
    write_files,
    write_record,
)
from deltactl.storage.errors import NO_VERSION, no_versions_error
from deltactl.storage.store import FileInfo, Store

_UNDONE: Final = f"{LEASES_DIR}/undone."

WITHOUT_UNDO: Final = (
    "Copy missing files from a backup, or restore a version that does not need them: `deltactl "
    "describe-history TABLE --restorable` shows which versions have all their files."
)
REMOVED_AGAIN: Final = (
    "A later vacuum removes restored files that the latest version does not need. To keep them, "
    "restore a version that needs them"
)
NAME_IN_USE: Final = "another file has its name now"
_CHUNK: Final = 16 << 20


@dataclass(frozen=True, slots=True, repr=False)
class UndoReport(ShortRepr):
    """The result of an undo: ``restored`` paths; ``impossible`` has the reasons for the others.

    ``num_in_place`` files of the run were at their place before, or have a copy there.
    """

    run_id: str
    dry_run: bool
    restored: tuple[str, ...]
    impossible: dict[str, str] = field(default_factory=dict)
    num_in_place: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        return {
            "run_id": self.run_id,
            "files_restored": len(self.restored),
            "restored": list(self.restored),
            "files_in_place": self.num_in_place,
            "impossible": [{"path": p, "reason": r} for p, r in self.impossible.items()],
        }


def undo_vacuum(store: Store, run_id: str, *, dry_run: bool = False) -> UndoReport:
    """Restore the files that a run removed; ``last`` is the newest run that removed any.

    Files come from the quarantine (also if the journal of the run is damaged), or from object
    versions kept by the store. An existing file is never replaced. The log is not changed. Later
    vacuums keep the files for the retention again.

    Raises:
        DeltactlError: there is no such run.
        StorageError: the store cannot be listed.
    """
    run_id = _find_last(store) if run_id == "last" else run_id
    record, files = read_run(store, run_id)
    plan, moved = plan_undo(store, run_id, files)
    names = plan.restored
    if dry_run:
        return plan
    if names:  # before the first of them is there for a vacuum
        write_files(store, f"{_UNDONE}{run_id}.parquet", files.select(["path"]))
    if names and read_last_vacuum_info(store) is not None:
        write_last_vacuum_info(store, None)  # a lite run would never consider them again
    in_quarantine = set(moved)
    kept = [name for name in names if name not in in_quarantine]
    failed = move_back(store, run_id, moved) | _undelete(store, kept)
    remove_directories(store, run_id, moved)
    if names and record is not None:
        write_record(store, replace(record, status="undone"))
    return replace(
        plan,
        dry_run=False,
        restored=tuple(name for name in names if name not in failed),
        impossible=plan.impossible | {name: _reason(error) for name, error in failed.items()},
    )


def plan_undo(store: Store, run_id: str, files: pa.Table) -> tuple[UndoReport, list[str]]:
    """Return the report of a dry run of an undo, and the names to move out of the quarantine."""
    planned = files["path"].to_pylist()
    stored = set(list_quarantine(store, run_id))
    there = {info.name: info for info in store.stat_many(planned) if info is not None}
    both = [info for info in there.values() if info.name in stored]
    others, copies = _find_others(store, run_id, both)
    deleted = [name for name in planned if name not in stored and name not in there]
    lost = _undelete(store, deleted, dry_run=True)
    taken = [name for name in planned if name in others and name not in copies]
    impossible = dict.fromkeys(taken, NAME_IN_USE)
    impossible |= {name: _reason(error) for name, error in lost.items()}
    moved = [name for name in planned if name in stored and name not in others]
    names = (*moved, *(name for name in deleted if name not in lost))
    num_in_place = len(there.keys() - stored) + len(copies)
    return UndoReport(run_id, True, names, impossible, num_in_place), moved


def _find_others(store: Store, run_id: str, there: Sequence[FileInfo]) -> tuple[set[str], set[str]]:
    """Return the names of those files that are not the files in the quarantine, and of copies.

    After a killed or failed move, one file can have both names, so both have the same facts. In an
    object store a move is a copy and a deletion, so there may be a copy with a later time.
    """
    others, copies = set(), set()
    stored = store.stat_many([quarantine_name(run_id, info.name) for info in there])
    for info, kept in zip(there, stored, strict=True):
        if kept is not None and replace(kept, name=info.name) != info:
            others.add(info.name)
            if _have_equal_content(store, info, kept):
                copies.add(info.name)
    return others, copies


def _have_equal_content(store: Store, one: FileInfo, other: FileInfo) -> bool:
    size = one.size_bytes
    spans = [[(at, min(_CHUNK, size - at))] for at in range(0, size, _CHUNK)]
    return other.size_bytes == size and all(
        store.read_ranges(one.name, span) == store.read_ranges(other.name, span) for span in spans
    )


def _find_last(store: Store) -> str:
    runs = list_removals(store)
    if not runs:
        raise DeltactlError(
            f"no vacuum of {store.uri} removed files and left a journal: nothing can be restored",
            hint=f"{WITHOUT_UNDO} Only vacuums of deltactl can be undone.",
        )
    return next((it for it, run in runs.items() if not _has_all_files(store, run)), [*runs][0])


def _has_all_files(store: Store, run: RunRecord | None) -> bool:
    """Return whether a run that did not end removed nothing: it stopped before its first file."""
    if run is None or run.status != "started":
        return False
    _, files = read_run(store, run.run_id)
    return plan_undo(store, run.run_id, files)[0].num_in_place == len(files)


def read_undone(store: Store, leases: Iterable[FileInfo], cutoff_ms: int) -> list[pa.ChunkedArray]:
    """Return the paths of the runs that were undone at or after the cutoff, among the leases.

    Raises:
        SafetyError: they cannot be read.
    """
    import pyarrow.parquet as pq

    found = []
    for info in leases:
        if info.name.startswith(_UNDONE) and info.modified_ms >= cutoff_ms:
            try:
                found.append(pq.read_table(pa.BufferReader(store.read(info.name)))["path"])
            except (pa.ArrowException, OSError, KeyError, ObjectNotFoundError) as error:
                raise SafetyError(
                    f"{info.name!r} in {store.uri} cannot be read, so it is unknown which files "
                    f"an undo of a vacuum brought back: {error}",
                    hint="If these files may be removed again, delete this file, then rerun.",
                ) from error
    return found


def _reason(error: StorageError) -> str:
    if isinstance(error, ObjectExistsError):
        return NAME_IN_USE
    if not isinstance(error, ObjectNotFoundError):
        return error.message
    return f"not in quarantine, and {NO_VERSION}"


def _undelete(store: Store, names: list[str], *, dry_run: bool = False) -> dict[str, StorageError]:
    """Restore deleted files; return errors of files that cannot be restored, by name."""
    if store.versions is None:
        return {name: no_versions_error(name) for name in names}
    return store.versions.undelete_many(names, dry_run=dry_run)
