"""What each reader reads: rows as sorted texts, made alike by the schema that our scan has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltactl import Table
from deltactl.errors import ignore_warning
from tests.histories.facts import facts_by_delta_rs, facts_by_spark
from tests.histories.known import blanks_as_nulls, has_checkpoints_of_two_kinds, unread_by_duckdb
from tests.histories.state import first_line
from tests.interop.canonical import arrow_rows, comparable, spark_type
from tests.support.duckdb_delta import connect_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS: Final = "deltactl"
ROW_IDS: Final = "row ids on Spark"
_ID_COLUMNS: Final = ("row id", "row commit version")


@dataclass(frozen=True)
class Reading:
    """The rows that a reader read, or why it could not.

    ``expected`` is what our scan read of the same columns; ``schema`` is Spark's, where it read.
    """

    rows: tuple[str, ...] | None
    why: str = ""
    expected: tuple[str, ...] | None = None
    schema: str | None = None


def read_ours(path: Path, version: int | None = None) -> pa.Table:
    """What our scan reads; raises what it raises."""
    return Table(str(path), warn=ignore_warning).scan(version).read_all()


def texts_of(rows: pa.Table) -> tuple[str, ...]:
    """The rows of our scan as texts."""
    return _texts(rows, comparable(rows.schema))


def schema_of(ours: pa.Table) -> str:
    """The schema of our scan, as Spark names it."""
    return f"struct<{','.join(f'{f.name}:{spark_type(f.type)}' for f in ours.schema)}>"


def read_all(
    path: Path,
    ours: pa.Table,
    partition_by: Collection[str],
    spark: SparkSession | None,
    *,
    is_mapped: bool,
    row_ids: bool,
) -> dict[str, Reading]:
    """What all readers read; of ``ours`` what our scan read already."""
    schema = comparable(ours.schema)
    expected = texts_of(ours)
    found = {OURS: Reading(expected)}
    left_out = unread_by_duckdb(partition_by, is_mapped=is_mapped)
    columns = pa.schema([field for field in schema if field.name not in left_out])
    found["DuckDB"] = _read(lambda: _read_duckdb(path), columns, _texts(ours, columns))
    blanks = functools.partial(blanks_as_nulls, partition_by=partition_by)
    found["delta-rs"] = _read(lambda: blanks(_read_delta_rs(path)), schema, expected)
    found["facts by delta-rs"] = _state(lambda: facts_by_delta_rs(path))
    if spark is not None:
        found |= _read_spark(spark, path, schema, expected, row_ids, blanks)
        found["facts by Spark"] = _state(lambda: facts_by_spark(spark, path))
    return found


def _state(tell: Callable[[], tuple[str, ...]]) -> Reading:
    try:
        return Reading(tell())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of Rust are no Exceptions
        return Reading(None, f"{type(error).__name__}: {first_line(error)}")


def _read(read: Callable[[], pa.Table], schema: pa.Schema, expected: tuple[str, ...]) -> Reading:
    return replace(_state(lambda: _texts(read(), schema)), expected=expected)


def _texts(table: pa.Table, schema: pa.Schema) -> tuple[str, ...]:
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise KeyError(f"no columns {missing}")
    return tuple(arrow_rows(table.select(schema.names).cast(schema)))


def _read_duckdb(path: Path) -> pa.Table:
    if has_checkpoints_of_two_kinds(path):
        raise ValueError("a checkpoint in parts beside one in one file")
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute("SELECT * FROM delta_scan(?)", [str(path)]).to_arrow_table()


def _read_delta_rs(path: Path) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(str(path)))
    return pa.table(query.execute("SELECT * FROM t").read_all())


def _read_spark(
    spark: SparkSession,
    path: Path,
    schema: pa.Schema,
    expected: tuple[str, ...],
    row_ids: bool,
    blanks: Callable[[pa.Table], pa.Table],
) -> Mapping[str, Reading]:
    """The rows, and where there are row ids, the rows with theirs and the versions they are of."""
    try:
        frame = spark.read.format("delta").load(str(path))
        text = frame.schema.simpleString()
        extra = ("row_id", "row_commit_version") if row_ids else ()
        named = zip(extra, _ID_COLUMNS, strict=False)
        wanted = [f"_metadata.{name} AS `{column}`" for name, column in named]
        table = blanks(frame.selectExpr("*", *wanted).toArrow())
        found = {"Spark": Reading(_texts(table, schema), expected=expected, schema=text)}
        if row_ids:
            fields = [*schema, *(pa.field(name, pa.int64()) for name in _ID_COLUMNS)]
            found[ROW_IDS] = Reading(_texts(table, pa.schema(fields)))
    except Exception as error:  # noqa: BLE001 - whatever Java says
        why = f"{type(error).__name__}: {first_line(error)}"
        return {name: Reading(None, why) for name in ("Spark", *([ROW_IDS] if row_ids else []))}
    return found
