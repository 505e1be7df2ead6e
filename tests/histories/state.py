"""What is known of the table when a step begins, and random conditions on its rows."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.histories.rows import KEY, Pools, random_rows, sql_text


class RefusedError(Exception):
    """A program would not or could not do a step; says why."""


class BrokenError(Exception):
    """Our own program failed in a way that it must not: a failure of the history."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass(frozen=True)
class State:
    """The table as our scan last read it."""

    path: Path
    version: int
    rows: pa.Table
    partition_by: tuple[str, ...]
    is_mapped: bool
    has_feed: bool
    writes_delta_rs: bool
    pools: Pools

    @property
    def schema(self) -> pa.Schema:
        """The logical columns."""
        return self.rows.schema

    def data_columns(self) -> list[pa.Field]:
        """The columns that are neither the key nor of the partitioning."""
        taken = (KEY, *self.partition_by)
        return [field for field in self.schema if field.name not in taken]


@dataclass(frozen=True)
class Dialect:
    """How an engine writes names, literals, and the types of timestamps with a zone and without."""

    quote: str
    backslashes: bool
    with_zone: str
    without_zone: str

    def name(self, text: str) -> str:
        """A column's name, quoted."""
        return self.quote + text.replace(self.quote, self.quote * 2) + self.quote

    def literal(self, value: Any, arrow: pa.DataType) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value).lower()
        if pa.types.is_integer(arrow):
            return str(value)
        if isinstance(value, str):
            return sql_text(value, backslashes=self.backslashes)
        return f"CAST({sql_text(_plain(value), backslashes=False)} AS {self._type(arrow)})"

    def _type(self, arrow: pa.DataType) -> str:
        if pa.types.is_decimal(arrow):
            return f"DECIMAL({arrow.precision},{arrow.scale})"
        if pa.types.is_date(arrow):
            return "DATE"
        if pa.types.is_timestamp(arrow):
            return self.with_zone if arrow.tz else self.without_zone
        return "FLOAT" if pa.types.is_float32(arrow) else "DOUBLE"


SPARK_SQL = Dialect("`", True, "TIMESTAMP", "TIMESTAMP_NTZ")
DATA_FUSION = Dialect('"', False, "TIMESTAMP", "TIMESTAMP")
DUCKDB = Dialect('"', False, "TIMESTAMPTZ", "TIMESTAMP")


def _plain(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00:00")
    return str(value)


def new_rows(chance: random.Random, number: int, state: State) -> pa.Table:
    """The rows that a step adds, with keys of its own."""
    count = chance.choice((1, 3, 10, 40))
    return random_rows(chance, state.schema, number * 1000, count, state.pools)


def random_condition(chance: random.Random, state: State, dialect: Dialect) -> str:
    """A condition that some rows fulfil: by key, or by the value of a partition column."""
    pick = chance.random()
    if pick < 0.4 and state.partition_by and state.rows.num_rows:
        return partition_condition(chance, state, dialect)
    if pick < 0.7:
        modulus = chance.randint(2, 7)
        return f"k % {modulus} = {chance.randrange(modulus)}"
    low, high = key_range(chance, state)
    return f"k >= {low} AND k < {high}"


def key_range(chance: random.Random, state: State) -> tuple[int, int]:
    """Some keys from low to high."""
    keys = sorted(set(state.rows[KEY].to_pylist())) or [0]
    low = chance.choice(keys)
    return low, low + chance.choice((1, 5, 1000))


def partition_condition(chance: random.Random, state: State, dialect: Dialect) -> str:
    """The value of a partition column of some row."""
    column = chance.choice(state.partition_by)
    value = chance.choice(sorted(set(state.rows[column].to_pylist()), key=repr))
    if value is None:
        return f"{dialect.name(column)} IS NULL"
    return f"{dialect.name(column)} = {dialect.literal(value, state.schema.field(column).type)}"


def first_line(error: BaseException) -> str:
    """The first line that an error says; of an exception of Java its own."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    is_java = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    return lines[is_java][:200]
