"""The rows of a table as each reader returns them, and one checksum over them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from tests.support.duckdb_delta import connect_duckdb

Reader = Callable[[Path], pa.Table]


def read_with_deltactl(table: Path) -> pa.Table:
    """Rows by our own scan."""
    from deltactl import Table

    return Table(str(table)).scan().read_all()


def read_with_delta_rs(table: Path) -> pa.Table:
    """Rows by delta-rs."""
    from deltalake import DeltaTable

    return DeltaTable(table).to_pyarrow_table()


def read_with_duckdb(table: Path) -> pa.Table:
    """Rows by DuckDB's delta extension, which comes as a package of its own."""
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        name = str(table).replace("'", "''")
        return connection.sql(f"SELECT * FROM delta_scan('{name}')").to_arrow_table()


def installed_readers() -> Mapping[str, Reader]:
    """Our own reader, and those of others that are installed."""
    readers: dict[str, Reader] = {"deltactl": read_with_deltactl}
    if find_spec("deltalake") is not None:
        readers["delta-rs"] = read_with_delta_rs
    if find_spec("duckdb") is not None and find_spec("duckdb_extension_delta") is not None:
        readers["DuckDB"] = read_with_duckdb
    return readers


def checksum(rows: pa.Table, schema: pa.Schema, key: str) -> str:
    """A checksum of all values, whatever the order of the rows; ``key`` tells them apart."""
    ordered = rows.select(schema.names).cast(schema).sort_by(key)
    sink = pa.BufferOutputStream()
    pc.write_csv(ordered, sink)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]
