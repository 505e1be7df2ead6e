"""Undo a vacuum: restore the files that it removed.

    _deltactl/leases/undone.<run>.parquet  the paths of an undone run, dated by the undo

The files of an undone run are kept for the retention again: their tombstones are past it already,
and a file from an older version in the object store has the time that it had. Vacuums list the
leases anyway, so tables without an undone run need no further request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from deltactl.errors import (
    DeltactlError,
    FileMissingError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    explain_rest,
    find_worst_error,
    ignore_warning,
)
from deltactl.log.audit.stored_actions import read_stored_metadata
from deltactl.log.delta_log import DeltaLog
from deltactl.log.table_probe import has_log, no_table_error
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info, write_last_vacuum_info
from deltactl.operations.leases import LEASES_DIR
from deltactl.operations.short_repr import ShortRepr
from deltactl.operations.vacuum.journal import (
    RunRecord,
    find_linked,
    list_quarantine,
    list_quarantines,
    list_removals,
    move_back,
    quarantine_name,
    read_run,
    remove_directories,
    write_files,
    write_record,
)
from deltactl.storage.copying import FileToCopy, has_same_bytes
from deltactl.storage.errors import NO_VERSION, no_versions_error
from deltactl.storage.names import OWN_DIR
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import FileInfo, Store
from deltactl.units import format_count

_UNDONE: Final = f"{LEASES_DIR}/undone."

WITHOUT_UNDO: Final = (
    "Copy missing files from a backup, or restore a version that does not need them, and write "
    "again what is newer: `deltactl describe-history TABLE --restorable` shows which versions have "
    "all their files."
)
REMOVED_AGAIN: Final = (
    "A later vacuum may remove restored files that the latest version does not need. To keep them, "
    "restore a version that needs them"
)
NAME_IN_USE: Final = "another file has its name now"
LINKED: Final = "its name leads, through a link, into the quarantine"


@dataclass(frozen=True, slots=True, repr=False)
class UndoReport(ShortRepr):
    """The result of an undo: ``restored`` paths; ``errors`` has those of the others, by path.

    A ``FileMissingError``: the file cannot come back. Others: the store refused or failed.
    ``num_in_place`` files of the run were at their place before, or have a copy there.
    ``quarantined`` has the numbers of the files that other runs still have in quarantine, by run.
    """

    run_id: str
    dry_run: bool
    restored: tuple[str, ...]
    errors: dict[str, DeltactlError] = field(default_factory=dict)
    num_in_place: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)

    @property
    def impossible(self) -> dict[str, str]:
        """Return why files cannot be restored, by path."""
        return {path: error.message for path, error in self.errors.items()}

    def find_error(self) -> DeltactlError | None:
        """Return the worst error: of a file that is gone, before that of a store that refused."""
        if not self.errors:
            return None
        worst = find_worst_error(self.errors.values())
        path = next(path for path, error in self.errors.items() if error is worst)
        hint = worst.hint
        if not isinstance(worst, FileMissingError):
            again = f"`deltactl vacuum TABLE --undo {self.run_id}`"
            hint = (hint or "Fix the cause.") + f" Then run {again}."
        count = format_count(len(self.errors), "file", "files")
        return explain_rest(
            worst, f"{count} cannot be restored: {path}: {worst.message}", hint=hint
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        return {
            "run_id": self.run_id,
            "files_restored": len(self.restored),
            "restored": list(self.restored),
            "files_in_place": self.num_in_place,
            "impossible": [{"path": p, "reason": r} for p, r in self.impossible.items()],
            "quarantined": [{"run_id": r, "files": n} for r, n in self.quarantined.items()],
        }


def undo_vacuum(store: Store, run_id: str, *, dry_run: bool = False) -> UndoReport:
    """Restore the files that a run removed; ``last`` is the newest run with files to restore.

    Files come from the quarantine (also if the journal of the run is damaged), or from object
    versions kept by the store. An existing file is never replaced. The log is not changed. Later
    vacuums keep the files for the retention again.

    Raises:
        NotATableError: there is no log, and no run.
        SafetyError: the run is of another table, which was at this address before.
        DeltactlError: there is no such run.
        StorageError: the store cannot be listed.
    """
    run_id = _find_last(store) if run_id == "last" else run_id
    record, files = read_run(store, run_id)
    if record is not None:
        _ensure_same_table(store, record)
    plan, moved = plan_undo(store, run_id, files, compares=True)
    plan = replace(plan, quarantined=_count_quarantined(store, except_run=run_id))
    if dry_run:
        return plan
    in_quarantine = set(moved)
    kept = [name for name in plan.restored if name not in in_quarantine]
    if moved or kept:  # before the first of them is there for a vacuum
        write_files(store, f"{_UNDONE}{run_id}.parquet", files.select(["path"]))
        if read_last_vacuum_info(store) is not None:
            write_last_vacuum_info(store, None)  # a lite run would never consider them again
    failed = move_back(store, run_id, moved) | _undelete(store, kept)
    remove_directories(store, run_id, moved)
    if (moved or kept) and record is not None:
        write_record(store, replace(record, status="undone"))
    # Others are in place.
    errors = {n: _explain(run_id, n, failed[n]) for n in plan.restored if n in failed}
    back = store.stat_many([name for name in kept if name not in failed])
    errors |= _find_other_sizes(files, (info for info in back if info is not None))
    return replace(
        plan,
        dry_run=False,
        restored=tuple(name for name in plan.restored if name not in errors),
        errors=plan.errors | errors,
    )


def _ensure_same_table(store: Store, record: RunRecord) -> None:
    """Refuse a run of another table, which was at this address before.

    A run before a REPLACE TABLE is of an id that only older versions have. Tables whose log cannot
    be read can need their files, too.

    Raises:
        SafetyError: no metadata in the log has the table id of the run.
    """
    log = DeltaLog(store, ignore_warning, read_only=True, published_only=True)
    try:
        table_id = log.snapshot().metadata.id
    except DeltactlError:
        return
    if table_id == record.table_id:
        return
    files = [*log.commit_files.values(), *(it for c in log.checkpoints for it in c.files)]
    if record.table_id in {it.id for it in read_stored_metadata(store, files)}:
        return
    raise SafetyError(
        f"run {record.run_id} is a vacuum of another table (id {record.table_id}), which was at "
        f"{store.uri} before: the table that is there now has the id {table_id}",
        hint=f"Restore the log of that table from a backup into an empty directory, copy {OWN_DIR} "
        "into it, and undo the run there. Nothing was restored: no version of this table needs the "
        "files.",
    )


def plan_undo(
    store: Store, run_id: str, files: pa.Table, *, compares: bool = False
) -> tuple[UndoReport, list[str]]:
    """Return the report of a dry run of an undo, and the names to move out of the quarantine.

    Some of these are in place: after a killed move, one file has both names. Others have another
    size than in the journal: they are moved, so that nothing is lost, but count as an error.
    Without ``compares``, nothing is read, and only a file that is in place, too, is looked up: it
    is the same if the sizes are equal.
    """
    planned = files["path"].to_pylist()
    stored = set(list_quarantine(store, run_id))
    there = {info.name: info for info in store.stat_many(planned) if info is not None}
    looked = [name for name in planned if name in stored and (compares or name in there)]
    infos = store.stat_many([quarantine_name(run_id, name) for name in looked])
    kept = {name: info for name, info in zip(looked, infos, strict=True) if info is not None}
    linked = find_linked(store, [name for name in looked if name in there])
    pairs = [
        (there[name], info) for name, info in kept.items() if name in there and name not in linked
    ]
    compare = partial(_find_difference, store) if compares else _find_other_size
    reasons = zip(pairs, each_in_parallel(lambda pair: compare(*pair), pairs), strict=True)
    others = {info.name: why for (info, _), why in reasons if why is not None}
    deleted = [name for name in planned if name not in stored and name not in there]
    lost = _undelete(store, deleted, dry_run=True)
    errors = {name: _linked(name) for name in sorted(linked)} | others
    errors |= {name: _explain(run_id, name, error) for name, error in lost.items()}
    moved = [name for name in planned if name in stored and name not in errors]
    if compares:
        found = (replace(info, name=name) for name, info in (there | kept).items())
        errors = _find_other_sizes(files, found) | errors
    names = [name for name in moved if name not in there and name not in errors]
    names += [name for name in deleted if name not in lost]
    num_in_place = len(there.keys() - errors.keys())
    return UndoReport(run_id, True, tuple(names), errors, num_in_place), moved


def _find_other_size(there: FileInfo, kept: FileInfo) -> DeltactlError | None:
    is_same = there.size_bytes == kept.size_bytes
    return None if is_same else _name_in_use(there.name, kept.name)


def _find_difference(store: Store, there: FileInfo, kept: FileInfo) -> DeltactlError | None:
    """Return why a file is not known to be the one in quarantine, or a copy of it."""
    file = FileToCopy(there.name, kept.name, there.size_bytes)
    try:
        is_same = kept.size_bytes == there.size_bytes and has_same_bytes(store, file, store)
    except StorageError as error:
        return error
    return None if is_same else _name_in_use(there.name, kept.name)


def _find_other_sizes(files: pa.Table, found: Iterable[FileInfo]) -> dict[str, DeltactlError]:
    """Return an error for each file whose size is not that in the journal, by path."""
    if "size_bytes" not in files.column_names:
        return {}
    sizes = dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))
    return {
        info.name: FileMissingError(
            f"it has {info.size_bytes:,} bytes, and had {sizes[info.name]:,} before the vacuum",
            hint="Copy the file from a backup, if a version needs it. The undo puts the file that "
            "it found at its place.",
        )
        for info in found
        if info.size_bytes != sizes[info.name]
    }


def _find_last(store: Store) -> str:
    runs = list_removals(store)
    if not runs:
        if not has_log(store):
            raise no_table_error(store)
        raise DeltactlError(
            f"no vacuum of {store.uri} removed files and left a journal: nothing can be restored",
            hint=f"{WITHOUT_UNDO} Only vacuums of deltactl can be undone.",
        )
    undone = None
    for run_id, run in runs.items():
        try:
            plan, _ = plan_undo(store, run_id, read_run(store, run_id)[1])
        except StorageError:
            raise
        except DeltactlError:  # a damaged journal: the undo of the newest run says what is wrong
            if undone is None:
                return run_id
            continue
        if plan.restored or (plan.errors and undone is None):
            return run_id
        if plan.errors:  # nothing to restore, and not the newest
            break
        # A run that did not end and has all files stopped before its first one.
        if undone is None and (run is None or run.status != "started"):
            undone = run_id
    return undone or next(iter(runs))


def _count_quarantined(store: Store, *, except_run: str) -> dict[str, int]:
    """Return how many files the other runs have in quarantine, oldest first."""
    runs = (it for it in list_quarantines(store) if it != except_run)
    counts = {run_id: len(list_quarantine(store, run_id)) for run_id in runs}
    return {run_id: count for run_id, count in counts.items() if count}


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


def _explain(run_id: str, path: str, error: StorageError) -> DeltactlError:
    """Return the error of a file that the store did not restore."""
    if isinstance(error, ObjectExistsError):
        return _name_in_use(path, quarantine_name(run_id, path))
    if isinstance(error, ObjectNotFoundError):
        return FileMissingError(f"not in quarantine, and {NO_VERSION}", hint=WITHOUT_UNDO)
    return error


def _name_in_use(path: str, kept: str) -> FileMissingError:
    return FileMissingError(
        NAME_IN_USE,
        hint=f"Move the file that is now in {path!r} to another directory, if no version needs it, "
        f"and rerun: the file that the vacuum removed is in {kept!r}.",
    )


def _linked(path: str) -> DeltactlError:
    hint = f"Remove the link in {path!r}, not the file to which it leads, and rerun."
    return FileMissingError(LINKED, hint=hint)


def _undelete(store: Store, names: list[str], *, dry_run: bool = False) -> dict[str, StorageError]:
    """Restore deleted files; return errors of files that cannot be restored, by name."""
    if store.versions is None:
        return {name: no_versions_error(name) for name in names}
    return store.versions.undelete_many(names, dry_run=dry_run)
