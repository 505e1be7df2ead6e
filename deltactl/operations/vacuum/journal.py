"""Write the journal of a vacuum: the files to remove, synced before the first removal.

    _deltactl/vacuum/<run>/plan.parquet    path, size_bytes, modified_ms, reason of each file
    _deltactl/vacuum/<run>/run.json        the rest; rewritten when the run ends
    _deltactl/quarantine/<run>/<path>      what was moved instead of deleted

All names begin with ``_`` at the table's root: readers and the vacuums of Delta on Spark and of
delta-rs ignore them.
"""

from __future__ import annotations

import errno
import io
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from deltactl.errors import (
    DeltactlError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    UsageError,
)
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store
from deltactl.units import format_count, format_size, format_timestamp

RUNS_DIR = f"{OWN_DIR}/vacuum"
QUARANTINE_DIR = f"{OWN_DIR}/quarantine"
_RUN_ID = re.compile(r"[0-9TZ]+-[0-9a-f]+")
_SHOWN = 10
_BATCH = 1000

_WITHOUT_JOURNAL = (
    "Restore the file from a backup or an older version of the object, then rerun. Nothing is in "
    "the quarantine of the run, and only the journal says which files it removed. Without it, copy "
    "missing files from a backup of the table: `deltactl check TABLE` names them."
)

_SPACE_FOR_COMMITS = 64 << 10  # also for the lease and what is written at the end
_SPACE_FOR_ROW = 200  # a path takes about half of this, compressed


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
        write_files(store, f"{RUNS_DIR}/{record.run_id}/plan.parquet", files)
        write_record(store, record)
    except StorageError as error:
        remove_journal(store, record.run_id)
        if getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            error.hint = _hint_at_space(files.num_rows)
        raise


def remove_journal(store: Store, run_id: str) -> None:
    """Remove what was written of a journal, so that a full disk gets no fuller with each run."""
    folder = f"{RUNS_DIR}/{run_id}"
    with suppress(StorageError):
        store.delete_many([f"{folder}/run.json", f"{folder}/plan.parquet"])
        if store.directories is not None:
            store.directories.remove_directories([folder])


def _hint_at_space(num_files: int) -> str:
    needed = format_size(_SPACE_FOR_COMMITS + num_files * _SPACE_FOR_ROW)
    return (
        f"Free {needed} on the disk, outside of the table or, if the table has a quarantine, with "
        "`deltactl vacuum TABLE --purge-quarantine`; then rerun. A vacuum needs up to this much "
        "for its journal and its commits, before it deletes files. Nothing was removed."
    )


def write_files(store: Store, name: str, files: pa.Table) -> None:
    """Write a table of files as Parquet."""
    import pyarrow.parquet as pq  # loads all of Arrow's file systems: not for a dry run

    sink = io.BytesIO()
    pq.write_table(files, sink, compression="zstd")
    store.put(name, sink.getvalue())


def write_record(store: Store, record: RunRecord) -> None:
    """Write the state of a run."""
    text = json.dumps(asdict(record), indent=2) + "\n"
    store.put(f"{RUNS_DIR}/{record.run_id}/run.json", text.encode())


def read_run(store: Store, run_id: str) -> tuple[RunRecord | None, pa.Table]:
    """Return the state and the files of a run.

    If its journal is absent or damaged: no state, and the files in its quarantine.

    Raises:
        DeltactlError: there is no such run, or its journal is damaged and nothing in quarantine.
        StorageError: the journal cannot be read.
    """
    try:
        return read_record(store, run_id), read_files(store, run_id)
    except StorageError:
        raise
    except DeltactlError as error:
        names = list_quarantine(store, run_id) if _RUN_ID.fullmatch(run_id) else []
        if names:
            return None, pa.table({"path": pa.array(names, pa.string())})
        error.hint = _list_ids(store) if isinstance(error, UsageError) else _WITHOUT_JOURNAL
        raise


def read_files(store: Store, run_id: str) -> pa.Table:
    """Return the files of a run.

    Raises:
        DeltactlError: its journal cannot be read.
    """
    import pyarrow.parquet as pq

    try:
        files = pq.read_table(pa.BufferReader(store.read(f"{RUNS_DIR}/{run_id}/plan.parquet")))
        if files["path"].type != pa.string() or files["path"].null_count:
            raise TypeError("the column 'path' has another type than string, or nulls")
        return files
    except (pa.ArrowException, OSError, KeyError, TypeError, ObjectNotFoundError) as error:
        raise _damaged(run_id, "plan.parquet", error) from error


def read_record(store: Store, run_id: str) -> RunRecord:
    """Return the state of a run.

    Raises:
        UsageError: there is no such run.
        DeltactlError: its journal is damaged.
        StorageError: its journal cannot be read.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise _no_run(store, run_id)
    try:
        data = store.read(f"{RUNS_DIR}/{run_id}/run.json")
        if not data:
            raise ValueError("the file is empty")
        node: Any = json.loads(data)
        record = RunRecord(**node)
        _ensure_types(record)
        return record
    except ObjectNotFoundError as error:
        raise _no_run(store, run_id) from error
    except (ValueError, TypeError) as error:
        raise _damaged(run_id, "run.json", error) from error


def _damaged(run_id: str, name: str, error: Exception) -> DeltactlError:
    file = f"{RUNS_DIR}/{run_id}/{name}"
    return DeltactlError(
        f"the journal of run {run_id} cannot be read: {file} is missing or damaged, for "
        f"example by a full disk: {error}"
    )


def _ensure_types(record: RunRecord) -> None:
    for field in fields(record):
        value = getattr(record, field.name)
        if type(value).__name__.replace("NoneType", "None") not in str(field.type).split(" | "):
            raise TypeError(f"{field.name!r} is {value!r}, not {field.type}")


def _no_run(store: Store, run_id: str) -> UsageError:
    return UsageError(f"no vacuum of {store.uri} has the id {run_id!r}")


def _list_ids(store: Store) -> str:
    """Return the hint with the ids of the newest runs that removed files."""
    runs = [run for run in reversed(list_runs(store)) if run.files_removed != 0]
    shown = ", ".join(
        f"{run.run_id} ({format_count(run.files, 'file')}, {run.status})" for run in runs[:_SHOWN]
    )
    more = f" and {len(runs) - _SHOWN:,} older in {RUNS_DIR}" if len(runs) > _SHOWN else ""
    if not runs:
        return f"No run in {RUNS_DIR} removed files: there is nothing to undo."
    return f"Give 'last' for the newest run with files to restore, or one of these: {shown}{more}."


def list_runs(store: Store) -> list[RunRecord]:
    """Return all runs with a journal, oldest first; skip damaged ones.

    Raises:
        StorageError: a journal cannot be read.
    """
    names = {name for batch in store.walk(RUNS_DIR) for name in batch if name.endswith("/run.json")}
    records = []
    for name in names:
        try:
            records.append(read_record(store, name.split("/")[-2]))
        except StorageError:
            raise
        except DeltactlError:
            continue
    return sorted(records, key=lambda record: (record.started_ms, record.run_id))


def list_removals(store: Store) -> dict[str, RunRecord | None]:
    """Return the runs that may have removed files, by id, newest first.

    ``None`` is a run with a quarantine, but without a readable journal that has removed files.
    """
    known = {run.run_id: run for run in list_runs(store)}
    runs: dict[str, RunRecord | None] = {
        run_id: None
        for run_id in list_quarantines(store)
        if run_id not in known and list_quarantine(store, run_id)
    }
    runs |= {run_id: run for run_id, run in known.items() if run.files_removed != 0}

    def started(run_id: str) -> tuple[str, int]:
        record = runs[run_id]
        return run_id.partition("-")[0], 0 if record is None else record.started_ms

    return {run_id: runs[run_id] for run_id in sorted(runs, key=started, reverse=True)}


def quarantine_name(run_id: str, path: str) -> str:
    """Return the name of a file in the quarantine of a run."""
    return f"{QUARANTINE_DIR}/{run_id}/{path}"


def list_quarantines(store: Store) -> list[str]:
    """Return the ids of the runs that have a quarantine, oldest first."""
    names = (it.rpartition("/")[2] for it in store.list_directories(QUARANTINE_DIR))
    return sorted(name for name in names if _RUN_ID.fullmatch(name))


def list_quarantine(store: Store, run_id: str) -> list[str]:
    """Return the original paths of the files that are still in a run's quarantine."""
    prefix = f"{QUARANTINE_DIR}/{run_id}/"
    return sorted(name[len(prefix) :] for batch in store.walk(prefix) for name in batch)


def move_back(store: Store, run_id: str, names: Sequence[str]) -> dict[str, StorageError]:
    """Move files from a run's quarantine to their places; return errors by name.

    A file that is at its place is no error, even if it could not be removed from the quarantine.
    """
    failed: dict[str, StorageError] = {}
    for start in range(0, len(names), _BATCH):
        pairs = {quarantine_name(run_id, name): name for name in names[start : start + _BATCH]}
        errors = store.move_many(list(pairs.items()))
        failed |= {pairs[stored]: error for stored, error in errors.items()}
    tried = [name for name, error in failed.items() if not isinstance(error, ObjectExistsError)]
    stored = store.stat_many([quarantine_name(run_id, name) for name in tried])
    back = {
        info.name
        for info, kept in zip(store.stat_many(tried), stored, strict=True)
        if info is not None and (kept is None or kept.size_bytes == info.size_bytes)
    }
    return {name: error for name, error in failed.items() if name not in back}


def find_quarantined(store: Store, paths: Sequence[str]) -> dict[str, str]:
    """Return the run in whose quarantine each file is, also if its journal cannot be read."""
    found: dict[str, str] = {}
    for folder in store.list_directories(QUARANTINE_DIR):
        run_id = folder.rpartition("/")[2]
        infos = store.stat_many([quarantine_name(run_id, path) for path in paths])
        found |= {path: run_id for path, info in zip(paths, infos, strict=True) if info is not None}
    return found


def find_linked(store: Store, names: Sequence[str]) -> set[str]:
    """Return the names whose places lead, through links, into a quarantine: only that has them."""
    places = zip(names, store.real_names(names), strict=True)
    return {name for name, real in places if (real or "").startswith(f"{QUARANTINE_DIR}/")}


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
