"""Random rows of any schema, and values that writers, paths and statistics handle in odd ways."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tests.histories.known import NO_NEGATIVE_DECIMALS_IN_PARTITIONS

KEY: Final = "k"
"""A column of every table: a whole number, another one in each row that a step adds."""

COMPUTED: Final = {"generated": "gen", "identity": "ident", "default": "dflt"}
"""Columns that Spark fills in, by the trait that adds them."""

PARTITION_TEXTS: Final = (
    None, "", "a", "A", "b", "é", "e\u0301", "ü/ö", "日本", "😀",
    "a b",
    " a",
    "a ",
    "a+b", "a%20b", "100%", "%25", "%C3%A9", "x/y", "..", ".", "//", "a:b", "a=b", "#", "?", "&",
    "'", '"', "\\", "[x]", "{y}", "*", "^", "`", "<>|", "~", ";,", "\t", "null",
)  # fmt: skip
_TEXTS: Final = (
    "",
    "a",
    "é",
    "😀 中文",
    "x" * 40,
    "y" * 31 + "😀z",
    "\n\t\"'\\",
    "%",
    "\uffff" * 35,
)
_DAYS: Final = (date(1970, 1, 1), date(2024, 2, 29), date(1582, 10, 15), date(9999, 12, 31))
_MOMENTS: Final = (
    datetime(2024, 1, 1, 10, 0, 0, 123456),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 6, 1),
    datetime(1970, 1, 1),
)
_FLOATS: Final = (0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 1e-30)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its type as SQL of Spark names it."""

    name: str
    type: str


Pools: TypeAlias = Mapping[str, Sequence[Any]]
"""The values that steps give to a partition column, by its name."""


def random_rows(
    chance: random.Random, schema: pa.Schema, first_key: int, count: int, pools: Pools
) -> pa.Table:
    """Rows with the keys from ``first_key`` on; ``pools``: values of the partition columns."""
    columns = []
    for field in schema:
        if field.name == KEY:
            values: list[Any] = list(range(first_key, first_key + count))
        elif field.name in pools:
            pool = chance.sample(pools[field.name], chance.randint(1, len(pools[field.name])))
            values = [chance.choice(pool) for _ in range(count)]
        else:
            values = [_value(chance, field.type, field.nullable) for _ in range(count)]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def make_pools(seed: int, schema: pa.Schema, partition_by: Sequence[str]) -> Pools:
    """A few values for each partition column of a table, so that partitions get several files."""
    pools = {}
    for number, name in enumerate(partition_by):
        chance = random.Random(f"{seed} {number}")
        arrow = schema.field(name).type
        pools[name] = [partition_value(chance, arrow) for _ in range(chance.randint(1, 4))]
    return pools


def partition_value(chance: random.Random, arrow: pa.DataType) -> Any:
    if pa.types.is_string(arrow):
        return chance.choice(PARTITION_TEXTS)
    value = _value(chance, arrow, nullable=True)
    if isinstance(value, Decimal) and NO_NEGATIVE_DECIMALS_IN_PARTITIONS:
        return abs(value)
    return value


def _value(chance: random.Random, arrow: pa.DataType, nullable: bool) -> Any:
    if nullable and chance.random() < 0.15:
        return None
    if pa.types.is_struct(arrow):
        return {f.name: _value(chance, f.type, f.nullable) for f in arrow}
    if pa.types.is_map(arrow):
        keys = {f"k{chance.randint(0, 3)}" for _ in range(chance.randint(0, 2))}
        return [(key, _value(chance, arrow.item_type, True)) for key in sorted(keys)]
    if pa.types.is_list(arrow):
        count = chance.randint(0, 2)
        return [_value(chance, arrow.value_type, True) for _ in range(count)]
    if pa.types.is_decimal(arrow):
        unscaled = chance.randint(-(10**arrow.precision) + 1, 10**arrow.precision - 1)
        return Decimal(unscaled).scaleb(-arrow.scale)
    for test, make in _SIMPLE:
        if test(arrow):
            return make(chance, arrow)
    raise ValueError(f"no values of type {arrow}")


def _whole(chance: random.Random, arrow: pa.DataType) -> int:
    most: int = 2 ** (arrow.bit_width - 1)
    return chance.choice((0, 1, -1, most - 1, -most, chance.randint(-100, 100)))


def _text(chance: random.Random, _: pa.DataType) -> str:
    return chance.choice(_TEXTS)


def _moment(chance: random.Random, arrow: pa.DataType) -> datetime:
    moment = chance.choice(_MOMENTS) + timedelta(seconds=chance.randint(0, 5))
    return moment.replace(tzinfo=UTC) if arrow.tz else moment


_SIMPLE: Final[
    tuple[tuple[Callable[[pa.DataType], bool], Callable[[random.Random, pa.DataType], Any]], ...]
] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_boolean, lambda chance, _: chance.random() < 0.5),
    (pa.types.is_floating, lambda chance, _: chance.choice(_FLOATS)),
    (pa.types.is_string, _text),
    (pa.types.is_binary, lambda chance, _: chance.choice((b"", b"\x00\xff", b"abc"))),
    (pa.types.is_date, lambda chance, _: chance.choice(_DAYS)),
    (pa.types.is_timestamp, _moment),
)


def rows_for_merge(
    chance: random.Random, rows: pa.Table, low: int, high: int, pools: Pools
) -> pa.Table:
    """New values for the keys that the table has from low to high."""
    keys = sorted({key for key in rows[KEY].to_pylist() if low <= key < high})
    found = random_rows(chance, rows.schema, 0, len(keys), pools)
    at = rows.schema.get_field_index(KEY)
    return found.set_column(at, rows.schema.field(KEY), pa.array(keys, pa.int64()))


def settable_columns(schema: pa.Schema) -> list[pa.Field]:
    """The columns whose values are easily written in SQL; the key only if there is no other."""
    tests = (
        pa.types.is_string,
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_date,
        pa.types.is_decimal,
    )
    taken = (KEY, *COMPUTED.values())
    found = [f for f in schema if f.name not in taken and any(test(f.type) for test in tests)]
    return found or [schema.field(KEY)]


def sql_text(text: str, *, backslashes: bool) -> str:
    """A literal of SQL; ``backslashes``: the dialect takes them for escapes, as Spark does."""
    doubled = text.replace("\\", "\\\\") if backslashes else text
    return "'" + (doubled.replace("'", "\\'") if backslashes else doubled.replace("'", "''")) + "'"


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, _ARROW[column.type]) for column in columns])


_ARROW: Final[Mapping[str, pa.DataType]] = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "SMALLINT": pa.int16(),
    "TINYINT": pa.int8(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DECIMAL(30,5)": pa.decimal128(30, 5),
    "BINARY": pa.binary(),
    "STRUCT<a: INT, b: STRING>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "MAP<STRING, INT>": pa.map_(pa.string(), pa.int32()),
}
