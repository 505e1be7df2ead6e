"""The sample table of the demo: orders of twelve days in hundreds of small files."""

from __future__ import annotations

import json
import uuid
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.columns import chosen, decimals, join, with_nulls
from benchmarks.log_tables import write_commit
from benchmarks.shapes import PROTOCOL, commit_info, metadata_of

NUM_DAYS = 12
NUM_LOADS = 25
_ROWS_PER_FILE = 400
_START_MS = 1_717_200_000_000  # 2024-06-01

SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("day", pa.date32()),
        ("customer", pa.string()),
        ("status", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("note", pa.string()),
        ("created_at", pa.timestamp("us", "UTC")),
    ]
)
_DELTA_TYPES = {
    "order_id": "long",
    "day": "date",
    "customer": "string",
    "status": "string",
    "amount": "decimal(10,2)",
    "note": "string",
    "created_at": "timestamp",
}
_STATUS = ["open", "paid", "paid", "sent", "sent", "sent", "test"]
_NOTES = ["call back", "gift", "leave at the door", "express", "damaged box", "ring twice"]


def write_sample_table(table: Path) -> None:
    """Write 25 loads, each with a small file a day, then delete the test orders of two days."""
    write = _write_with_delta_rs if find_spec("deltalake") is not None else _write_by_hand
    write(table)


def make_load(load: int) -> pa.Table:
    """The orders of one load, of all days."""
    rng = np.random.default_rng(load)
    count = NUM_DAYS * _ROWS_PER_FILE
    ids = np.arange(load * count, (load + 1) * count, dtype=np.int64)
    micros = (np.arange(count) // _ROWS_PER_FILE) * 86_400_000_000 + _START_MS * 1000
    created = pa.array(micros + rng.integers(0, 86_400_000_000, count))
    columns = {
        "order_id": pa.array(ids),
        "day": pa.array(micros // 86_400_000_000, pa.int32()),
        "customer": join("customer-", pa.array(rng.integers(0, 5_000, count))),
        "status": chosen(rng, count, _STATUS),
        "amount": decimals(rng.integers(100, 90_000, count), 10, 2),
        "note": with_nulls(rng, chosen(rng, count, _NOTES), 0.7),
        "created_at": created,
    }
    return pa.table({name: columns[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names})


def _write_with_delta_rs(table: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    for load in range(NUM_LOADS):
        write_deltalake(table, make_load(load), mode="append", partition_by=["day"])
    DeltaTable(table).delete("status = 'test' AND day >= '2024-06-11'")


def _write_by_hand(table: Path) -> None:
    """The same, with plain Parquet and JSON; the deleted rows are in files of their own."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    removed: list[str] = []
    for load in range(NUM_LOADS):
        rows = make_load(load)
        lines = [commit_info(load, "WRITE", operationParameters={"mode": "Append"})]
        if load == 0:
            metadata = metadata_of(_DELTA_TYPES, ["day"])
            lines += [json.dumps({"protocol": PROTOCOL}), json.dumps({"metaData": metadata})]
        for day in rows["day"].unique():
            of_day = rows.filter(pc.equal(rows["day"], day))
            parts = [of_day]
            if day.as_py().isoformat() >= "2024-06-11":
                is_test = pc.equal(of_day["status"], "test")
                parts = [of_day.filter(pc.invert(is_test)), of_day.filter(is_test)]
            adds = [_write_file(table, str(day), part) for part in parts]
            removed += [str(add["path"]) for add in adds[1:]]
            lines += [json.dumps({"add": add}) for add in adds]
        write_commit(log, load, lines)
    info = commit_info(NUM_LOADS, "DELETE", operationParameters={"predicate": "status = 'test'"})
    facts = {"deletionTimestamp": _START_MS, "dataChange": True}
    gone = [json.dumps({"remove": {"path": path, **facts}}) for path in removed]
    write_commit(log, NUM_LOADS, [info, *gone])


def _write_file(table: Path, day: str, rows: pa.Table) -> dict[str, object]:
    folder = table / f"day={day}"
    folder.mkdir(exist_ok=True)
    file = folder / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    pq.write_table(rows.drop_columns("day"), file, compression="snappy", store_schema=False)
    status = file.stat()
    return {
        "path": f"day={day}/{file.name}",
        "partitionValues": {"day": day},
        "size": status.st_size,
        "modificationTime": int(status.st_mtime * 1000),
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows}),
    }
