"""Readers of Delta tables that are not ours, and what they see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.duckdb_delta import connect_duckdb

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def count_with_duckdb(path: Path) -> int:
    """Rows that DuckDB reads, every column of them."""
    return len(rows_with_duckdb(path))


def rows_with_duckdb(path: Path) -> list[dict[str, Any]]:
    """The rows that DuckDB reads; maps as lists of pairs, instants in UTC."""
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute("SELECT * FROM delta_scan(?)", [str(path)])
        return list(found.to_arrow_table().to_pylist())


def count_with_delta_rs(path: Path) -> int:
    """Rows that delta-rs reads, every column of them."""
    return len(rows_with_delta_rs(path))


def rows_with_delta_rs(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(str(path)))
    return list(pa.table(query.execute("SELECT * FROM t").read_all()).to_pylist())


def count_each(table: DataFrame, *conditions: str) -> list[int]:
    """Count the rows of each condition. Each has a scan, and so a filter, of its own."""
    scans = [table.where(it).selectExpr(f"{n} AS n") for n, it in enumerate(conditions)]
    found = Counter(row["n"] for row in reduce(type(table).unionAll, scans).collect())
    return [found[n] for n in range(len(conditions))]


READERS: dict[str, Callable[[Path], int]] = {
    "DuckDB": count_with_duckdb,
    "delta-rs": count_with_delta_rs,
}


def try_count(reader: str, path: Path) -> tuple[int | None, str]:
    """The rows that a reader sees, or None and why it cannot read the table."""
    try:
        return READERS[reader](path), ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of Rust are no Exceptions
        return None, f"{type(error).__name__}: {str(error).splitlines()[0]}"
