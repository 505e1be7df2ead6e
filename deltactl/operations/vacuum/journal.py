"""Write the journal of a vacuum: the files to remove, synced before the first removal; undo it.

    _deltactl/vacuum/<run>/plan.parquet    path, size_bytes, modified_ms, reason of each file
    _deltactl/vacuum/<run>/run.json        the rest; rewritten when the run ends
    _deltactl/quarantine/<run>/<path>      what was moved instead of deleted
    _deltactl/leases/undone.<run>.parquet  the paths of an undone run, dated by the undo

Vacuums list the leases anyway, so tables without an undone run need no further request. The files
of an undone run are kept for the retention again: their tombstones are past it already, and a file
from an older version in the object store has the time that it had.

All names begin with ``_`` at the table's root: readers and the vacuums of Delta on Spark and of
delta-rs ignore them.
"""

from __future__ import annotations

import errno
import io
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    DeltactlError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    UsageError,
    Warn,
)
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info, write_last_vacuum_info
from deltactl.operations.leases import LEASES_DIR
from deltactl.operations.short_repr import ShortRepr
from deltactl.storage.errors import NO_VERSION, no_versions_error
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import FileInfo, Store
from deltactl.units import format_size, format_timestamp

_RUNS = f"{OWN_DIR}/vacuum"
QUARANTINE_DIR = f"{OWN_DIR}/quarantine"
_UNDONE = f"{LEASES_DIR}/undone."
_RUN_ID = re.compile(r"[0-9TZ]+-[0-9a-f]+")

_BATCH = 1000

_SPACE_FOR_COMMITS = 64 << 10  # also for the lease and what is written at the end
_SPACE_FOR_ROW = 200  # a path takes about half of this, compressed

WITHOUT_UNDO: Final = (
    "Copy missing files from a backup, or restore a version that does not need them: `deltactl "
    "describe-history TABLE --restorable` shows which versions have all their files."
)
REMOVED_AGAIN: Final = (
    "a later vacuum removes again those of the restored files that the latest version does not "
    "need. To keep them, restore a version that needs them"
)
NAME_IN_USE: Final = "another file has its name now"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a vacuum; times in ms since 1970 UTC.

    ``status`` is ``started``, ``completed``, ``partial``, ``undone`` or ``purged``.
    ``quarantined_until_ms`` is set if files were moved instead of deleted.
    """

    run_id: str
    table_id: str
    version: int
    mode: str
    started_ms: int
    cutoff_ms: int
    retain_ms: int
    files: int
    bytes: int
    status: str = "started"
    quarantined_until_ms: int | None = None
    files_removed: int | None = None


def new_run_id(started_ms: int, unique: str) -> str:
    """Return an id that sorts by time: ``20240131T120000Z-0a1b2c3d``."""
    when = format_timestamp(started_ms)[:19].replace("-", "").replace(":", "")
    return f"{when}Z-{unique.replace('-', '')[-8:]}"


def write_journal(store: Store, record: RunRecord, files: pa.Table) -> None:
    """Write the journal of a run before it removes files; durable once this returns.

    Raises:
        StorageError: it cannot be written; nothing may be removed.
    """
    try:
        _write_files(store, f"{_RUNS}/{record.run_id}/plan.parquet", files)
        write_record(store, record)
    except StorageError as error:
        _remove_journal(store, record.run_id)
        if getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            error.hint = _hint_at_space(files.num_rows)
        raise


def _remove_journal(store: Store, run_id: str) -> None:
    """Remove what was written of a journal, so that a full disk gets no fuller with each run."""
    folder = f"{_RUNS}/{run_id}"
    with suppress(StorageError):
        store.delete_many([f"{folder}/run.json", f"{folder}/plan.parquet"])
        if store.directories is not None:
            store.directories.remove_directories([folder])


def _hint_at_space(num_files: int) -> str:
    needed = format_size(_SPACE_FOR_COMMITS + num_files * _SPACE_FOR_ROW)
    return (
        f"Free {needed} on the disk, outside of the table or with `deltactl vacuum TABLE "
        "--purge-quarantine`; then rerun. A vacuum needs up to this much for its journal and its "
        "commits, before it deletes files. Nothing was removed."
    )


def _write_files(store: Store, name: str, files: pa.Table) -> None:
    import pyarrow.parquet as pq  # loads all of Arrow's file systems: not for a dry run

    sink = io.BytesIO()
    pq.write_table(files, sink, compression="zstd")
    store.put(name, sink.getvalue())


def write_record(store: Store, record: RunRecord) -> None:
    """Write the state of a run."""
    text = json.dumps(asdict(record), indent=2) + "\n"
    store.put(f"{_RUNS}/{record.run_id}/run.json", text.encode())


def read_run(store: Store, run_id: str) -> tuple[RunRecord, pa.Table]:
    """Return a run and its files.

    Raises:
        DeltactlError: there is no such run, or its journal cannot be read.
    """
    import pyarrow.parquet as pq

    record = _parse_record(store, run_id)
    try:
        files = pq.read_table(pa.BufferReader(store.read(f"{_RUNS}/{run_id}/plan.parquet")))
    except (pa.ArrowException, OSError, ObjectNotFoundError) as error:
        raise DeltactlError(f"the journal of run {run_id} cannot be read: {error}") from error
    return record, files


def _parse_record(store: Store, run_id: str) -> RunRecord:
    if not _RUN_ID.fullmatch(run_id):
        raise _no_run(store, run_id)
    try:
        node: Any = json.loads(store.read(f"{_RUNS}/{run_id}/run.json"))
        return RunRecord(**node)
    except ObjectNotFoundError as error:
        raise _no_run(store, run_id) from error
    except (ValueError, TypeError) as error:
        raise DeltactlError(f"the journal of run {run_id} cannot be read: {error}") from error


def _no_run(store: Store, run_id: str) -> UsageError:
    return UsageError(
        f"no vacuum of {store.uri} has the id {run_id!r}",
        hint=f"Give the name of a directory in {_RUNS}, or 'last' for the newest run.",
    )


def list_runs(store: Store) -> list[RunRecord]:
    """Return all runs with a journal, oldest first; skip unreadable ones."""
    names = {name for batch in store.walk(_RUNS) for name in batch if name.endswith("/run.json")}
    records = []
    for name in sorted(names):
        try:
            records.append(_parse_record(store, name.split("/")[-2]))
        except DeltactlError:
            continue
    return records


def quarantine_name(run_id: str, path: str) -> str:
    """Return the name of a file in the quarantine of a run."""
    return f"{QUARANTINE_DIR}/{run_id}/{path}"


def list_quarantine(store: Store, run_id: str) -> list[str]:
    """Return the original paths of the files that are still in a run's quarantine."""
    prefix = f"{QUARANTINE_DIR}/{run_id}/"
    return sorted(name[len(prefix) :] for batch in store.walk(prefix) for name in batch)


@dataclass(frozen=True, slots=True, repr=False)
class UndoReport(ShortRepr):
    """The result of an undo: ``restored`` paths; ``impossible`` has the reasons for the others.

    ``num_in_place`` files of the run were at their place before.
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

    Files come from the quarantine, or from object versions kept by the store. An existing file is
    never replaced. The log is not changed. Later vacuums keep the files for the retention again.

    Raises:
        DeltactlError: there is no such run.
        StorageError: the store cannot be listed.
    """
    run_id = _find_last(store) if run_id == "last" else run_id
    record, files = read_run(store, run_id)
    planned = files["path"].to_pylist()
    stored = set(list_quarantine(store, run_id))
    there = {info.name for info in store.stat_many(planned) if info is not None}
    deleted = [name for name in planned if name not in stored | there]
    lost = _undelete(store, deleted, dry_run=True)
    impossible = {name: NAME_IN_USE for name in planned if name in stored & there}
    impossible |= {name: _reason(record, error) for name, error in lost.items()}
    num_in_place = len(there - stored)
    moved = [name for name in planned if name in stored and name not in there]
    kept = [name for name in deleted if name not in lost]
    names = [*moved, *kept]
    if dry_run:
        return UndoReport(run_id, True, tuple(names), impossible, num_in_place)
    if names:  # before the first of them is there for a vacuum
        _write_files(store, f"{_UNDONE}{run_id}.parquet", files.select(["path"]))
    if names and read_last_vacuum_info(store) is not None:
        write_last_vacuum_info(store, None)  # a lite run would never consider them again
    failed = _move_back(store, run_id, moved) | _undelete(store, kept)
    impossible |= {name: error.message for name, error in failed.items()}
    remove_directories(store, run_id, moved)
    if names:
        write_record(store, replace(record, status="undone"))
    restored = tuple(name for name in names if name not in failed)
    return UndoReport(run_id, False, restored, impossible, num_in_place)


def _find_last(store: Store) -> str:
    runs = [run for run in list_runs(store) if run.files_removed != 0]
    if not runs:
        raise DeltactlError(
            f"no vacuum of {store.uri} removed files and left a journal: nothing can be restored",
            hint=f"{WITHOUT_UNDO} Only vacuums of deltactl can be undone.",
        )
    return runs[-1].run_id


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


def _reason(record: RunRecord, error: StorageError) -> str:
    if not isinstance(error, ObjectNotFoundError):
        return error.message
    if record.quarantined_until_ms is None:
        return f"it was deleted, not quarantined, and {NO_VERSION}"
    return f"it is not in the quarantine, and {NO_VERSION}"


def _undelete(store: Store, names: list[str], *, dry_run: bool = False) -> dict[str, StorageError]:
    """Restore deleted files; return errors of files that cannot be restored, by name."""
    if store.versions is None:
        return {name: no_versions_error(name) for name in names}
    return store.versions.undelete_many(names, dry_run=dry_run)


def _move_back(store: Store, run_id: str, names: list[str]) -> dict[str, StorageError]:
    failed: dict[str, StorageError] = {}
    for start in range(0, len(names), _BATCH):
        pairs = {quarantine_name(run_id, name): name for name in names[start : start + _BATCH]}
        errors = store.move_many(list(pairs.items()))
        failed |= {pairs[stored]: error for stored, error in errors.items()}
    return failed


def remove_directories(store: Store, run_id: str, names: list[str]) -> None:
    """Remove empty directories of a run's quarantine."""
    folders = {quarantine_name(run_id, "")[:-1]}
    for name in names:
        folder = quarantine_name(run_id, name).rpartition("/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    if store.directories is not None:
        store.directories.remove_directories(sorted(folders, key=lambda name: -name.count("/")))


@dataclass(frozen=True, slots=True)
class PastVacuum:
    """A vacuum that removed missing files; its undo restores the ``restorable`` of them."""

    run_id: str
    started_ms: int
    num_files: int
    restorable: pa.Array


def find_past_vacuums(store: Store, missing: Sequence[str], warn: Warn) -> tuple[PastVacuum, ...]:
    """Return the recorded vacuums that removed missing files, newest first; change nothing."""
    wanted, found = pa.array(missing, pa.string()), []
    try:
        for record in reversed(list_runs(store)):
            if record.files_removed == 0:
                continue  # what it planned, another run removed before
            _, files = read_run(store, record.run_id)
            names = files["path"].filter(pc.is_in(files["path"], value_set=wanted))
            if not len(names):
                continue
            undo = undo_vacuum(store, record.run_id, dry_run=True)
            restored = pa.array(undo.restored, pa.string())
            back = names.filter(pc.is_in(names, value_set=restored)).combine_chunks()
            found.append(PastVacuum(record.run_id, record.started_ms, len(names), back))
    except DeltactlError as error:
        warn(f"it is not known which vacuum removed the files: {error.message}")
    return tuple(found)


def describe_vacuums(past: Iterable[PastVacuum]) -> str:
    """Return the end of a message about missing files: the vacuums that removed them."""
    texts = (
        f"; vacuum {it.run_id} of {format_timestamp(it.started_ms)} removed {it.num_files:,}"
        for it in past
    )
    return "".join(texts)


def list_undos(store: Store, past: Iterable[PastVacuum]) -> list[str]:
    """Return the remedy for missing files that undos of vacuums restore, if there are any."""
    command = f"deltactl vacuum {shlex.quote(store.uri)} --undo"
    undos = [
        f"`{command} {it.run_id}`, which restores {len(it.restorable):,}"
        for it in past
        if len(it.restorable)
    ]
    return [f"run {' and '.join(undos)}"] if undos else []
