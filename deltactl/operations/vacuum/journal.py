"""Write the journal of a vacuum: the files to remove, synced before the first removal.

    _deltactl/vacuum/<run>/plan.parquet    path, size_bytes, modified_ms, reason of each file
    _deltactl/vacuum/<run>/run.json        the rest; rewritten when the run ends
    _deltactl/quarantine/<run>/<path>      what was moved instead of deleted

All names begin with ``_`` at the table's root: readers and the vacuums of Delta on Spark and of
delta-rs ignore them.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from deltactl.errors import DeltactlError, ObjectNotFoundError
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store

_RUNS = f"{OWN_DIR}/vacuum"
_QUARANTINE = f"{OWN_DIR}/quarantine"
_RUN_ID = re.compile(r"[0-9TZ]+-[0-9a-f]+")


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
    from deltactl.units import format_timestamp

    when = format_timestamp(started_ms)[:19].replace("-", "").replace(":", "")
    return f"{when}Z-{unique.replace('-', '')[-8:]}"


def write_journal(store: Store, record: RunRecord, files: pa.Table) -> None:
    """Write the journal of a run before it removes files; durable once this returns.

    Raises:
        StorageError: it cannot be written; nothing may be removed.
    """
    import pyarrow.parquet as pq  # loads all of Arrow's file systems: not for a dry run

    sink = io.BytesIO()
    pq.write_table(files, sink, compression="zstd")
    store.put(f"{_RUNS}/{record.run_id}/plan.parquet", sink.getvalue())
    write_record(store, record)


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
        raise _no_run(run_id)
    try:
        node: Any = json.loads(store.read(f"{_RUNS}/{run_id}/run.json"))
        return RunRecord(**node)
    except ObjectNotFoundError as error:
        raise _no_run(run_id) from error
    except (ValueError, TypeError) as error:
        raise DeltactlError(f"the journal of run {run_id} cannot be read: {error}") from error


def _no_run(run_id: str) -> DeltactlError:
    return DeltactlError(
        f"no vacuum of this table has the id {run_id!r}",
        hint=f"Give the name of a directory in {_RUNS}, or use `--undo last` for the newest run.",
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
    return f"{_QUARANTINE}/{run_id}/{path}"


def list_quarantine(store: Store, run_id: str) -> list[str]:
    """Return the original paths of the files that are still in a run's quarantine."""
    prefix = f"{_QUARANTINE}/{run_id}/"
    return sorted(name[len(prefix) :] for batch in store.walk(prefix) for name in batch)
