"""Counts of rows under a condition: wrong statistics let a reader skip files that it needs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tests.histories.known import counts_otherwise, has_lossy_bounds, unread_by_duckdb
from tests.histories.state import DATA_FUSION, DUCKDB, SPARK_SQL, Dialect, State, first_line
from tests.support.duckdb_delta import connect_duckdb
from tests.support.spark_matrix import table_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPERATORS: Final[Mapping[str, Callable[[pa.ChunkedArray, pa.Scalar], pa.ChunkedArray]]] = {
    "=": pc.equal,
    ">=": pc.greater_equal,
    "<": pc.less,
}
_TESTS: Final = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_decimal,
)


@dataclass(frozen=True)
class Probe:
    """A condition on one column, and how many rows fulfil it."""

    field: pa.Field
    operator: str
    value: Any
    expected: int

    def sql(self, dialect: Dialect, *, has_blanks: bool = False) -> str:
        """The condition; ``has_blanks``: the reader takes nulls of partitions for empty texts."""
        name = dialect.name(self.field.name)
        if has_blanks and pa.types.is_string(self.field.type):
            name = f"nullif({name}, '')"  # as in ``blanks_as_nulls``
        if self.value is None:
            return f"{name} IS NULL"
        return f"{name} {self.operator} {dialect.literal(self.value, self.field.type)}"


def random_probe(chance: random.Random, state: State) -> Probe | None:
    """A condition with a value that some row has."""
    fields = [
        field
        for field in state.schema
        if any(test(field.type) for test in _TESTS)
        and not has_lossy_bounds(field.type, writes_delta_rs=state.writes_delta_rs)
    ]
    if not state.rows.num_rows:
        return None
    field = chance.choice(fields)
    column = state.rows[field.name]
    value = chance.choice(sorted(set(column.to_pylist()), key=repr))
    operator = chance.choice(list(_OPERATORS))
    if value is None:
        return Probe(field, operator, None, column.null_count)
    fulfilled = _OPERATORS[operator](column, pa.scalar(value, field.type))
    return Probe(field, operator, value, pc.sum(fulfilled).as_py() or 0)


def ask(
    probe: Probe, state: State, spark: SparkSession | None
) -> Iterator[tuple[str, int | None, str]]:
    """What each reader counts: its name, the number, and how it was asked or why it did not."""
    path, in_partition = str(state.path), probe.field.name in state.partition_by
    if probe.field.name not in unread_by_duckdb(state.partition_by, is_mapped=state.is_mapped):
        yield "DuckDB", *_try(_count_with_duckdb, path, probe.sql(DUCKDB))
    if not counts_otherwise(probe.field, in_partition=in_partition):
        yield "delta-rs", *_try(_count_with_delta_rs, path, probe.sql(DATA_FUSION))
    if spark is not None:
        where = probe.sql(SPARK_SQL, has_blanks=in_partition)
        yield (
            "Spark",
            *_try(lambda p, w: _count_with_spark(spark, p, w), table_name(state.path), where),
        )


def _try(count: Callable[[str, str], int], path: str, where: str) -> tuple[int | None, str]:
    try:
        return count(path, where), where
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of Rust are no Exceptions
        return None, f"{type(error).__name__}: {first_line(error)}"


def _count_with_duckdb(path: str, where: str) -> int:
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        asked = f"SELECT count(*) FROM delta_scan(?) WHERE {where}"
        row = connection.execute(asked, [path]).fetchone()
    assert row is not None
    return int(row[0])


def _count_with_delta_rs(path: str, where: str) -> int:
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(path))
    found = pa.table(query.execute(f"SELECT count(*) AS n FROM t WHERE {where}").read_all())
    return int(found["n"][0].as_py())


def _count_with_spark(spark: SparkSession, name: str, where: str) -> int:
    row = spark.sql(f"SELECT count(*) FROM {name} WHERE {where}").first()
    assert row is not None
    return int(row[0])
