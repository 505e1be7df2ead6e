"""What each reader reads: rows as sorted texts, made alike by the schema that our scan has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltactl import Table
from deltactl.errors import ignore_warning
from tests.interop.canonical import arrow_rows, comparable, json_rows
from tests.support.duckdb_delta import connect_duckdb
from tests.support.spark_matrix import read_row_ids, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS: Final = "deltactl"
ROW_IDS: Final = "row ids on Spark"


@dataclass(frozen=True)
class Reading:
    """The rows that a reader read, or why it could not."""

    rows: tuple[str, ...] | None
    why: str = ""


def read_ours(path: Path) -> pa.Table:
    """What our scan reads; raises what it raises."""
    return Table(str(path), warn=ignore_warning).scan().read_all()


def read_all(
    path: Path, ours: pa.Table, spark: SparkSession | None, *, row_ids: bool
) -> dict[str, Reading]:
    """What the other readers read, and ``ours``, which is read already."""
    schema = comparable(ours.schema)
    found = {OURS: Reading(tuple(arrow_rows(ours.select(schema.names))))}
    for name, read in ARROW_READERS.items():
        found[name] = _try(lambda read=read: _texts(read(path), schema))  # type: ignore[misc]
    if spark is not None:
        found["Spark"] = _try(lambda: json_rows(read_rows(spark, path), schema))
        if row_ids:
            found[ROW_IDS] = _try(lambda: read_row_ids(spark, path))
    return found


def _try(read: Callable[[], list[str]]) -> Reading:
    try:
        return Reading(tuple(read()))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of Rust are no Exceptions
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return Reading(None, f"{type(error).__name__}: {first[:300]}")


def _texts(table: pa.Table, schema: pa.Schema) -> list[str]:
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise KeyError(f"no columns {missing}")
    return arrow_rows(table.select(schema.names).cast(schema))


def _read_duckdb(path: Path) -> pa.Table:
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute("SELECT * FROM delta_scan(?)", [str(path)]).to_arrow_table()


def _read_delta_rs(path: Path) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(str(path)))
    return pa.table(query.execute("SELECT * FROM t").read_all())


ARROW_READERS: Final[Mapping[str, Callable[[Path], pa.Table]]] = {
    "DuckDB": _read_duckdb,
    "delta-rs": _read_delta_rs,
}
