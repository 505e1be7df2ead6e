"""Parquet files of several writers, to copy from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

ROWS: Final = 3000

SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("small", pa.int32()),
        pa.field("text", pa.string()),
        pa.field("long_text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("day", pa.date32()),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("flag", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("tags", pa.list_(pa.field("element", pa.string()))),
        pa.field("inner", pa.struct([pa.field("a", pa.int32()), pa.field("b.c", pa.string())])),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
    ]
)


def make_table(rows: int = ROWS, start: int = 0) -> pa.Table:
    """Return rows with nulls in every column but ``id``, which counts from ``start``."""
    return pa.Table.from_pylist([_row(number) for number in range(start, start + rows)], SCHEMA)


def _row(n: int) -> dict[str, Any]:
    if n % 11 == 3:
        return {"id": n}
    return {
        "id": n,
        "small": n % 7,
        "text": f"value {n % 100}",
        "long_text": "é" * (n % 50) + f" {n:020d} " + "x" * (n % 90),
        "number": n / 7,
        "day": dt.date(1990, 1, 1) + dt.timedelta(days=n % 9000),
        "time": dt.datetime(2001, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=n * 1001),
        "price": Decimal(n) / 100,
        "flag": n % 3 == 0,
        "raw": bytes([n % 256, 255]),
        "tags": None if n % 5 == 0 else [str(n % 3)] * (n % 4),
        "inner": None if n % 6 == 0 else {"a": n, "b.c": str(n % 9)},
        "map": None if n % 4 == 0 else [(str(n % 3), n)],
    }


def _pyarrow(**options: Any) -> Callable[[Path, pa.Table], None]:
    def write(path: Path, table: pa.Table) -> None:
        pq.write_table(table, path, row_group_size=1000, **options)

    return write


def _duckdb(path: Path, table: pa.Table) -> None:
    duckdb.from_arrow(table).write_parquet(str(path), row_group_size=2048)


def _delta_rs(path: Path, table: pa.Table) -> None:
    folder = path.parent / f"{path.stem}-delta"
    write_deltalake(folder, table)
    (written,) = folder.glob("*.parquet")
    written.rename(path)


WRITERS: Final[Mapping[str, Callable[[Path, pa.Table], None]]] = {
    "pyarrow": _pyarrow(),
    "pyarrow with indexes": _pyarrow(
        write_page_index=True, data_page_size=2000, compression="zstd"
    ),
    "pyarrow with pages of version 2": _pyarrow(data_page_version="2.0", compression="gzip"),
    "pyarrow with checksums": _pyarrow(write_page_checksum=True, use_dictionary=False),
    "pyarrow with Bloom filters": _pyarrow(
        write_page_index=True, bloom_filter_options={"id": True, "text": True}
    ),
    "pyarrow without compression": _pyarrow(
        compression="none", use_byte_stream_split=["number"], use_dictionary=["text"]
    ),
    "pyarrow of old versions": _pyarrow(version="1.0", use_deprecated_int96_timestamps=True),
    "DuckDB": _duckdb,
    "delta-rs": _delta_rs,
}
