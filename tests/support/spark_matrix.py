"""Tables written by Delta on Spark: every feature in several shapes of the log.

A feature is built once; the shapes of its log are made of copies, which is quicker than to write
the data again and tells apart what comes from the data and what from the log. Run as a script
(``python -m tests.support.spark_matrix OUTDIR``) it leaves all tables and ``expected.json``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Shape = Literal["json", "classic", "cleaned", "multipart", "v2json", "v2parquet"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
_V2: Final = ("v2json", "v2parquet")

# NULL, -0.0 and microseconds have to show, or a difference in them would not.
_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its definition, and how it follows from ``id`` (None: Spark fills it in)."""

    name: str
    type: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Insert:
    """A commit of ``files`` files with the rows ``low <= id < high``.

    ``values`` adds to or replaces the values of the feature's columns, or drops one by None.
    """

    low: int
    high: int
    files: int = 3
    values: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Feature:
    """One row of the matrix. In statements ``{t}`` stands for the table."""

    name: str
    columns: tuple[Column, ...]
    steps: tuple[Insert | str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    vectors: bool = False
    row_ids: bool = False
    shapes: tuple[Shape, ...] = ("json", "classic")


@dataclass(frozen=True, slots=True)
class Expected:
    """What Spark reads: rows as sorted JSON texts, the newest version last in ``versions``."""

    version: int
    schema: str
    rows: list[str]
    row_ids: list[str] | None
    versions: dict[int, list[str]]
    schemas: dict[int, str]


@dataclass(frozen=True, slots=True)
class MatrixTable:
    """A table of the matrix on disk."""

    name: str
    path: Path
    features: tuple[str, ...]
    expected: Expected


def _pick(*values: str) -> str:
    return f"element_at(array({', '.join(values)}), cast(id % {len(values)} + 1 as int))"


_ID = Column("id", "BIGINT", "id")
_NAME = Column("name", "STRING", "if(id % 11 = 0, null, concat('name ', id))")
_SCORE = Column("score", "DOUBLE", "id / 3")
_BASE = (_ID, _NAME, _SCORE)
_NASTY = Column(
    "p", "STRING", _pick("'a b'", "'x:y/%'", "'é'", "null", "''", "'it''s=\"1\"#?&'", "'%20'")
)
_UPDATE = "UPDATE {t} SET name = 'updated' WHERE id % 10 = 3"
_DELETE_FEW = "DELETE FROM {t} WHERE id = 7"
_DELETE_MANY = "DELETE FROM {t} WHERE id % 5 = 2"
_INSERTS = (Insert(0, 40), Insert(40, 70, 2), Insert(70, 75, 1), Insert(75, 130, 4))
_FEW = (Insert(0, 40), Insert(40, 70, 2), Insert(70, 80, 1))
# An UPDATE takes three times as long as an INSERT: only where it adds to what is tested.
_LATER = Insert(80, 110, 3)
_FOUR = (*_FEW, _LATER)
# After an UPDATE that rewrote all into one file: enough to make merging worth it.
_AFTER = (Insert(200, 240), Insert(240, 280), Insert(280, 320))
_MORE_SHAPES = SHAPES


def _mapped(mode: str) -> dict[str, str]:
    return {"delta.columnMapping.mode": mode}


def _plain_features() -> Iterator[Feature]:
    yield Feature("plain", _BASE, (*_INSERTS, _UPDATE, *_AFTER), shapes=_MORE_SHAPES)
    yield Feature("emptied", _BASE, (*_FEW, "DELETE FROM {t}"), shapes=("json",))
    yield Feature(
        "partitioned",
        (*_BASE, _NASTY),
        (Insert(0, 40, 2), Insert(40, 70, 2), Insert(70, 110, 1), _UPDATE),
        layout="PARTITIONED BY (p)",
        shapes=_MORE_SHAPES,
    )
    yield Feature(
        "partitioned_types",
        (
            *_BASE,
            Column("d", "DATE", _pick("date'2024-02-29'", "null", "date'0001-01-01'")),
            Column(
                "ts",
                "TIMESTAMP",
                _pick("timestamp'2024-01-01 10:00:00.123456'", "null", "timestamp'1969-12-31'"),
            ),
            Column("dec", "DECIMAL(10,3)", _pick("1.500BD", "-0.001BD", "null")),
            Column("i", "INT", _pick("-1", "null", "2147483647")),
            Column("f", "DOUBLE", _pick("double('NaN')", "-1.5D", "double('-Infinity')")),
            Column("b", "BOOLEAN", _pick("true", "false", "null")),
        ),
        (Insert(0, 30, 2), Insert(30, 60, 2), Insert(60, 70, 1), _UPDATE),
        layout="PARTITIONED BY (d, ts, dec, i, f, b)",
    )
    yield Feature(
        "partitioned_first",
        (_NASTY, *_BASE),
        _FOUR,
        layout="PARTITIONED BY (p)",
        shapes=("json",),
    )


def _vector_features() -> Iterator[Feature]:
    yield Feature(
        "vectors",
        _BASE,
        (*_INSERTS, _DELETE_FEW, _DELETE_MANY, "UPDATE {t} SET score = -1 WHERE id % 9 = 4"),
        vectors=True,
        shapes=_MORE_SHAPES,
    )
    yield Feature(
        "vectors_partitioned",
        (*_BASE, _NASTY),
        (Insert(0, 60, 2), Insert(60, 90, 1), _DELETE_MANY, Insert(90, 110, 1), _DELETE_FEW),
        layout="PARTITIONED BY (p)",
        vectors=True,
    )


def _mapping_features() -> Iterator[Feature]:
    odd = Column("a b,;{}()=", "INT", "cast(id as int)")
    nested = Column("s", "STRUCT<x: INT, `y z`: STRING>", "named_struct('x', id, 'y z', 'q')")
    changes = (
        "ALTER TABLE {t} RENAME COLUMN name TO `näme`",
        "ALTER TABLE {t} RENAME COLUMN s.x TO x2",
        "ALTER TABLE {t} DROP COLUMN score",
    )
    later: dict[str, str | None] = {"name": None, "score": None, "`näme`": "'later'"}
    again = "ALTER TABLE {t} ADD COLUMN (score STRING)"
    for mode in ("name", "id"):
        yield Feature(
            f"mapping_{mode}",
            (*_BASE, odd, nested),
            (
                *_FEW,
                *changes,
                Insert(80, 100, 2, later),
                again,
                Insert(100, 120, 2, {**later, "score": "'new'"}),
            ),
            _mapped(mode),
            shapes=_MORE_SHAPES if mode == "name" else ("json", "classic"),
        )
    yield Feature(
        "mapping_upgraded",
        (*_BASE,),
        (
            *_FEW,
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            *changes[:1],
            *changes[2:],
            Insert(80, 100, 2, later),
        ),
    )
    yield Feature(
        "mapping_partitioned",
        (*_BASE, _NASTY),
        (
            *_FEW,
            "ALTER TABLE {t} RENAME COLUMN p TO `part ition`",
            Insert(80, 100, 2, {"p": None, "`part ition`": f"{_NASTY.value}"}),
            _DELETE_MANY,
        ),
        _mapped("id"),
        layout="PARTITIONED BY (p)",
        vectors=True,
    )


def _tracking_features() -> Iterator[Feature]:
    on = {"delta.enableRowTracking": "true"}
    yield Feature("tracking", _BASE, (*_FEW, _UPDATE, _DELETE_FEW, *_AFTER), on, row_ids=True)
    yield Feature(
        "tracking_vectors",
        _BASE,
        (*_INSERTS, _UPDATE, _DELETE_MANY),
        on,
        vectors=True,
        row_ids=True,
        shapes=_MORE_SHAPES,
    )
    yield Feature(
        "tracking_backfilled",
        _BASE,
        (
            *_FEW,
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
            _UPDATE,
            *_AFTER,
        ),
        row_ids=True,
    )
    yield Feature(
        "tracking_mapped_partitioned",
        (*_BASE, _NASTY),
        (Insert(0, 60, 1), Insert(60, 100, 1), _UPDATE, _DELETE_FEW, Insert(100, 120, 1)),
        {**on, **_mapped("name")},
        layout="PARTITIONED BY (p)",
        vectors=True,
        row_ids=True,
    )
    yield Feature(
        "everything",
        (*_BASE, _NASTY, Column("n", "INT", "cast(id as int)")),
        (
            Insert(0, 60, 1),
            _UPDATE,
            _DELETE_MANY,
            "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
            "ALTER TABLE {t} RENAME COLUMN name TO title",
            Insert(60, 100, 2, {"name": None, "title": "'t'", "n": "id * 10000000000"}),
            "UPDATE {t} SET title = 'again' WHERE id % 9 = 4",
        ),
        {
            **on,
            **_mapped("name"),
            "delta.enableInCommitTimestamps": "true",
            "delta.enableTypeWidening": "true",
            "delta.enableChangeDataFeed": "true",
        },
        layout="PARTITIONED BY (p)",
        vectors=True,
        row_ids=True,
        shapes=("json", "classic", "v2parquet"),
    )


def _log_features() -> Iterator[Feature]:
    yield Feature("ict", _BASE, _FOUR, {"delta.enableInCommitTimestamps": "true"})
    yield Feature(
        "ict_later",
        _BASE,
        (
            *_FEW,
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
            Insert(80, 100),
        ),
    )
    yield Feature(
        "cdf",
        _BASE,
        (*_FEW, _UPDATE, _DELETE_MANY, *_AFTER),
        {"delta.enableChangeDataFeed": "true"},
    )
    yield Feature("append_only", _BASE, _INSERTS, {"delta.appendOnly": "true"})
    yield Feature(
        "vacuum_check",
        _BASE,
        _FOUR,
        {"delta.feature.vacuumProtocolCheck": "supported"},
    )
    yield Feature("clustered", _BASE, _FOUR, layout="CLUSTER BY (id, name)", vectors=True)
    yield Feature(
        "clustered_done",
        _BASE,
        (*_FEW, "OPTIMIZE {t}", Insert(80, 100), Insert(100, 110, 2)),
        layout="CLUSTER BY (name)",
        shapes=("classic",),
    )
    yield Feature(
        "zordered",
        _BASE,
        (*_FEW, "OPTIMIZE {t} ZORDER BY (id)", Insert(80, 100), Insert(100, 110, 2)),
        shapes=("json",),
    )
    app = "spark.databricks.delta.write.txn"
    yield Feature(
        "transactions",
        _BASE,
        tuple(
            Insert(low, low + 20, 2, {}, {f"{app}AppId": f"app {low % 3}", f"{app}Version": "4"})
            for low in (0, 20, 40)
        ),
    )


def _column_features() -> Iterator[Feature]:
    identity = (
        Column("k", "BIGINT GENERATED ALWAYS AS IDENTITY", None),
        Column("d", "BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY 3)", None),
    )
    yield Feature("identity", (*_BASE, *identity), _FOUR)
    yield Feature(
        "generated",
        (
            *_BASE,
            Column("ts", "TIMESTAMP", "timestamp'2024-01-01' + make_interval(0, 0, 0, id % 3)"),
            Column("day", "DATE GENERATED ALWAYS AS (CAST(ts AS DATE))", None),
            Column("twice", "BIGINT GENERATED ALWAYS AS (id * 2)", None),
        ),
        _FOUR,
        layout="PARTITIONED BY (day)",
    )
    yield Feature(
        "checked",
        (_ID, _NAME, Column("score", "DOUBLE NOT NULL", "id / 3")),
        (
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (score >= 0)",
            "ALTER TABLE {t} ADD CONSTRAINT named CHECK (name IS NULL OR length(name) > 2)",
            *_FOUR,
        ),
    )
    yield Feature(
        "not_null",
        (
            Column("id", "BIGINT NOT NULL", "id"),
            _NAME,
            Column("s", "STRUCT<a: INT NOT NULL, b: STRING> NOT NULL", _struct("'a', id, 'b', ''")),
        ),
        _FOUR,
    )
    yield Feature(
        "defaults",
        (*_BASE, Column("v", "INT DEFAULT 7", None), Column("w", "STRING DEFAULT 'w'", None)),
        (*_FEW, "ALTER TABLE {t} ALTER COLUMN v SET DEFAULT 8", Insert(80, 100), _UPDATE),
        {"delta.feature.allowColumnDefaults": "supported"},
    )
    yield Feature(
        "varchar",
        (
            *_BASE,
            Column("c", "CHAR(5)", "'abcde'"),
            Column("v", "VARCHAR(9)", "cast(id as string)"),
        ),
        _FOUR,
        shapes=("json",),
    )
    yield Feature(
        "evolved",
        _BASE,
        (
            *_FEW,
            "ALTER TABLE {t} ADD COLUMNS (zero DATE FIRST, mid BOOLEAN AFTER id, last BINARY)",
            Insert(
                80, 110, 3, {"zero": "date'2024-01-01'", "mid": "id % 2 = 0", "last": "X'00FF'"}
            ),
            "ALTER TABLE {t} ALTER COLUMN score FIRST",
            _UPDATE,
        ),
    )
    yield Feature("wide", (_ID, _NAME, *_wide_columns()), _FOUR)


def _struct(fields: str) -> str:
    return f"named_struct({fields})"


def _wide_columns() -> Iterator[Column]:
    kinds = ("INT", "STRING", "DOUBLE", "DATE")
    values = ("cast(id as int)", "concat('v', id)", "id / 7", "date'2024-01-01'")
    for number in range(198):
        kind = number % 4
        value = f"if(id % 7 = {number % 7}, null, {values[kind]})"
        yield Column(f"c{number:03}", kinds[kind], value)


def _widening_features() -> Iterator[Feature]:
    columns = (
        *_BASE,
        Column("b", "TINYINT", "cast(id % 100 as tinyint)"),
        Column("i", "INT", "cast(id as int)"),
        Column("d", "DATE", "date'2024-01-01' + cast(id as int)"),
        Column("dec", "DECIMAL(5,2)", "cast(id / 4 as decimal(5,2))"),
        Column("f", "FLOAT", "float(1.1)"),
        Column("n", "SMALLINT", "cast(id as smallint)"),
        Column("m", "INT", "cast(id as int)"),
        Column("s", "STRUCT<x: INT>", _struct("'x', cast(id as int)")),
        Column("l", "ARRAY<SMALLINT>", "array(cast(id as smallint), null)"),
        Column("h", "MAP<INT, INT>", "map(cast(id as int), cast(id as int))"),
    )
    types = {
        "b": "INT",
        "i": "BIGINT",
        "d": "TIMESTAMP_NTZ",
        "dec": "DECIMAL(12,4)",
        "f": "DOUBLE",
        "n": "DOUBLE",
        "m": "DECIMAL(22,2)",
        "s.x": "BIGINT",
        "l.element": "INT",
        "h.key": "BIGINT",
        "h.value": "DECIMAL(12,2)",
    }
    later: dict[str, str | None] = {
        "b": "100000",
        "i": "id * 10000000000",
        "d": "timestamp_ntz'2024-01-01 10:00:00.000001'",
        "dec": "12345678.1234BD",
        "f": "1e300D",
        "n": "0.5D",
        "m": "12345678901234567890.12BD",
        "s": _struct("'x', id * 10000000000"),
        "l": "array(100000)",
        "h": "map(id * 10000000000, 1.25BD)",
    }
    # One commit each, and all of them before the tenth version, which would be a checkpoint.
    on = {
        "delta.enableTypeWidening": "true",
        "delta.feature.timestampNtz": "supported",
        "delta.checkpointInterval": "100",
    }
    changes = tuple(f"ALTER TABLE {{t}} ALTER COLUMN {c} TYPE {t}" for c, t in types.items())
    steps: tuple[Insert | str, ...] = (
        Insert(0, 40),
        Insert(40, 60, 2),
        *changes,
        Insert(60, 90, 3, later),
    )
    yield Feature("widening", columns, steps, on)
    yield Feature("widening_mapped", columns, steps, {**on, **_mapped("name")}, shapes=("json",))
    yield Feature(
        "widening_partition",
        (*_BASE, Column("p", "INT", "cast(id % 3 as int)")),
        (
            *_FEW,
            "ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT",
            Insert(80, 100, 2, {"p": "if(id % 2 = 0, 1, 10000000000)"}),
        ),
        on,
        layout="PARTITIONED BY (p)",
    )


def _type_features() -> Iterator[Feature]:
    yield Feature(
        "primitives", (_ID, _NAME, *_PRIMITIVES), (*_FEW, _UPDATE, *_AFTER), shapes=_MORE_SHAPES
    )
    stamps = _pick(
        "timestamp'2024-01-01 10:00:00.123456'",
        "null",
        "timestamp'0001-01-01 00:00:00'",
        "timestamp'1582-10-10 12:00:00.000001'",
        "timestamp'9999-12-31 23:59:59.999999'",
        "timestamp'1969-12-31 23:59:59.999999'",
    )
    kinds = ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")
    yield Feature(
        "timestamps",
        (_ID, _NAME, Column("ts", "TIMESTAMP", stamps), Column("l", "ARRAY<TIMESTAMP>", "null")),
        tuple(
            Insert(
                low * 30,
                low * 30 + 30,
                2,
                {"l": "array(ts, null)" if low < 0 else f"array({stamps})"},
                {"spark.sql.parquet.outputTimestampType": kind},
            )
            for low, kind in enumerate(kinds)
        ),
    )
    ntz = _pick("timestamp_ntz'2024-01-01 10:00:00.123456'", "null", "timestamp_ntz'1500-01-01'")
    yield Feature(
        "timestamp_ntz",
        (*_BASE, Column("n", "TIMESTAMP_NTZ", ntz), Column("p", "TIMESTAMP_NTZ", ntz)),
        _FOUR,
        layout="PARTITIONED BY (p)",
    )
    yield Feature(
        "variant",
        (
            *_BASE,
            Column("v", "VARIANT", f"parse_json({_VARIANTS})"),
            Column("s", "STRUCT<v: VARIANT>", _struct(f"'v', parse_json({_VARIANTS})")),
            Column("l", "ARRAY<VARIANT>", "array(parse_json('1'), null)"),
        ),
        (*_FEW, _UPDATE, _DELETE_MANY),
        vectors=True,
    )
    yield Feature(
        "void",
        (_ID, Column("nothing", "VOID", None), _NAME, Column("s", "STRUCT<a: INT, v: VOID>", None)),
        (*_FEW, _UPDATE, *_AFTER),
    )
    yield Feature("nested", (_ID, _NAME, *_NESTED), _FOUR)
    yield _nested_evolved()


_VARIANTS = _pick(
    """'{"a":[1,2.5,"x",null,true],"b":{"c":12345678901}}'""", "null", "'null'", "'7'"
)

_PRIMITIVES: Final = (
    Column("bool", "BOOLEAN", _pick("true", "false", "null")),
    Column("i8", "TINYINT", _pick("-128Y", "127Y", "null", "0Y")),
    Column("i16", "SMALLINT", _pick("-32768S", "32767S", "null", "0S")),
    Column("i32", "INT", _pick("-2147483648", "2147483647", "null", "0")),
    Column("i64", "BIGINT", _pick("-9223372036854775808", "9223372036854775807", "null", "0")),
    Column("f32", "FLOAT", _pick(*(f"float('{x}')" for x in ("NaN", "-0.0", "Infinity", "1.1")))),
    Column(
        "f64",
        "DOUBLE",
        _pick(*(f"double('{x}')" for x in ("NaN", "-0.0", "-Infinity", "1e-300")), "null"),
    ),
    Column("nan", "DOUBLE", "double('NaN')"),
    Column("d5", "DECIMAL(5,2)", _pick("999.99BD", "-999.99BD", "null", "0.01BD")),
    Column("d18", "DECIMAL(18,4)", _pick("99999999999999.9999BD", "-0.0001BD", "null")),
    Column(
        "d38",
        "DECIMAL(38,10)",
        _pick(
            "cast('9999999999999999999999999999.9999999999' as decimal(38,10))",
            "cast('-0.0000000001' as decimal(38,10))",
            "null",
        ),
    ),
    Column("text", "STRING", _pick("''", "'é'", "null", "'\\n\\t\"'", "'😀 中文'")),
    Column("bin", "BINARY", _pick("X''", "X'00FF'", "null")),
    Column(
        "day", "DATE", _pick("date'0001-01-01'", "date'9999-12-31'", "null", "date'1582-10-10'")
    ),
    Column(
        "ts",
        "TIMESTAMP",
        _pick("timestamp'2024-01-01 10:00:00.123456'", "timestamp'1900-01-01'", "null"),
    ),
)

_NESTED: Final = (
    Column(
        "s",
        "STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<INT>>>",
        _pick(
            "named_struct('a', id, 'b', named_struct('c', 'x', 'd', array(1, null)))",
            "named_struct('a', null, 'b', null)",
            "null",
            "named_struct('a', 2, 'b', named_struct('c', null, 'd', array()))",
        ),
    ),
    Column(
        "l",
        "ARRAY<STRUCT<x: BIGINT, y: STRING>>",
        _pick("array(named_struct('x', id, 'y', 'a'), null)", "null", "array()"),
    ),
    Column(
        "m",
        "MAP<STRING, STRUCT<x: INT>>",
        _pick("map('k', named_struct('x', id), 'n', null)", "null", "map()"),
    ),
    Column("ml", "MAP<INT, ARRAY<STRING>>", _pick("map(1, array('a', null))", "map(2, null)")),
    Column("ll", "ARRAY<ARRAY<DECIMAL(10,2)>>", _pick("array(array(1.5BD), null)", "array()")),
)


def _nested_evolved() -> Feature:
    before = (
        Column("s", "STRUCT<a: INT>", _pick("named_struct('a', cast(id as int))", "null")),
        Column("l", "ARRAY<STRUCT<a: INT>>", "array(named_struct('a', cast(id as int)), null)"),
        Column("m", "MAP<STRING, STRUCT<a: INT>>", "map('k', named_struct('a', cast(id as int)))"),
    )
    new = "named_struct('a', cast(id as int), 'b', concat('b', id))"
    return Feature(
        "nested_evolved",
        (_ID, _NAME, *before),
        (
            *_FEW,
            "ALTER TABLE {t} ADD COLUMNS (s.b STRING, l.element.b STRING, m.value.b STRING)",
            Insert(80, 100, 2, {"s": new, "l": f"array({new}, null)", "m": f"map('k', {new})"}),
            _UPDATE,
        ),
    )


def _statistics_features() -> Iterator[Feature]:
    more = (*_BASE, Column("s", "STRUCT<a: INT, b: STRING>", _struct("'a', id, 'b', 'bee'")))
    indexed = "delta.dataSkippingNumIndexedCols"
    yield Feature("stats_two", more, _FOUR, {indexed: "2"}, shapes=("json",))
    yield Feature("stats_none", more, (*_FEW, _UPDATE, *_AFTER), {indexed: "0"})
    yield Feature(
        "stats_named",
        more,
        _FOUR,
        {"delta.dataSkippingStatsColumns": "score,s.a"},
        shapes=("json",),
    )
    long = _pick(
        "repeat('x', 50)",
        "concat(repeat('y', 31), '😀', 'tail')",
        "repeat('\\uD83D\\uDE00', 40)",
        "repeat('é', 33)",
        "null",
        "concat(repeat('a', 32), char(0), 'b')",
    )
    yield Feature(
        "stats_strings",
        (
            _ID,
            _NAME,
            Column("long", "STRING", long),
            Column("high", "STRING", "repeat('\\uFFFF', 40)"),
        ),
        _FOUR,
    )
    codec = "spark.sql.parquet.compression.codec"
    yield Feature(
        "codecs",
        _BASE,
        tuple(
            Insert(20 * n, 20 * n + 20, 2, {}, {codec: name})
            for n, name in enumerate(("zstd", "gzip", "none", "lz4_raw", "snappy", "zstd"))
        ),
        shapes=("json",),
    )


def features() -> list[Feature]:
    """All rows of the matrix, by unique name."""
    return [
        *_plain_features(),
        *_vector_features(),
        *_mapping_features(),
        *_tracking_features(),
        *_log_features(),
        *_column_features(),
        *_widening_features(),
        *_type_features(),
        *_statistics_features(),
    ]


def all_names() -> list[str]:
    """The names of all tables, ``feature-shape``."""
    return [f"{feature.name}-{shape}" for feature in features() for shape in feature.shapes]


def find_feature(name: str) -> Feature:
    """The feature of a table's name."""
    wanted = name.partition("-")[0]
    return next(feature for feature in features() if feature.name == wanted)


def table_name(path: Path) -> str:
    """A table by its path, as SQL wants it."""
    return f"delta.`{path}`"


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set the session's settings for as long as this lasts."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def insert_statement(feature: Feature, insert: Insert, low: int, high: int) -> str:
    """The statement that adds rows in the way of ``insert``."""
    values: dict[str, str | None] = {f"`{column.name}`": column.value for column in feature.columns}
    for name, value in insert.values.items():
        values[name if name.startswith("`") else f"`{name}`"] = value
    given = {name: value for name, value in values.items() if value is not None}
    names = ", ".join(given)
    # `id` is the name of the range's column, too.
    columns = ", ".join(f"{value} AS {name}" for name, value in given.items())
    return (
        f"INSERT INTO {{t}} ({names}) SELECT /*+ REPARTITION({insert.files}) */ {columns} "
        f"FROM range({low}, {high})"
    )


def later_insert(feature: Feature, low: int, high: int) -> str:
    """A statement that adds rows to the finished table."""
    last = [step for step in feature.steps if isinstance(step, Insert)][-1]
    return insert_statement(feature, last, low, high)


def build_base(spark: SparkSession, path: Path, feature: Feature, *, v2: bool = False) -> None:
    """Write the table of a feature, its log in JSON only."""
    properties = {
        "delta.enableDeletionVectors": str(feature.vectors).lower(),
        **({"delta.checkpointPolicy": "v2"} if v2 else {}),
        **feature.properties,
    }
    columns = ", ".join(f"`{column.name}` {column.type}" for column in feature.columns)
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    name = table_name(path)
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING DELTA {feature.layout} TBLPROPERTIES ({listed})"
    )
    for step in feature.steps:
        if isinstance(step, Insert):
            with settings(spark, step.settings):
                spark.sql(insert_statement(feature, step, step.low, step.high).replace("{t}", name))
        else:
            spark.sql(step.replace("{t}", name))


def shape_copy(spark: SparkSession, base: Path, path: Path, shape: Shape) -> None:
    """Copy a table and give the copy's log a shape, with a checkpoint in the middle."""
    shutil.copytree(base, path, symlinks=True)
    if shape == "json":
        return
    log = path / "_delta_log"
    versions = sorted(_commit_versions(log))
    middle = versions[len(versions) * 2 // 3]
    wanted = {
        "multipart": {"spark.databricks.delta.checkpoint.partSize": "4"},
        "v2json": {**_top_file("json"), "spark.databricks.delta.checkpoint.partSize": "4"},
        "v2parquet": {**_top_file("parquet"), "spark.databricks.delta.checkpoint.partSize": "4"},
    }
    with (
        tempfile.TemporaryDirectory(dir=path.parent) as aside,
        settings(spark, wanted.get(shape, {})),
    ):
        tail = [file for file in log.iterdir() if (_version_of(file) or 0) > middle]
        for file in tail:
            file.rename(Path(aside, file.name))
        assert spark._jvm is not None
        deltas = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        deltas.forTable(spark._jsparkSession, str(path)).checkpoint()
        for file in tail:
            Path(aside, file.name).rename(file)
    if shape == "cleaned":
        for file in list(log.iterdir()):
            version = _version_of(file)
            if version is not None and version < middle:
                file.unlink()


def _top_file(form: str) -> dict[str, str]:
    return {"spark.databricks.delta.checkpointV2.topLevelFileFormat": form}


def _version_of(file: Path) -> int | None:
    """The version of a file of the log, of its Hadoop checksum too."""
    found = re.match(r"\.?(\d{20})\.", file.name)
    return int(found[1]) if found else None


def _commit_versions(log: Path) -> list[int]:
    return [int(file.stem) for file in log.glob("*.json") if re.fullmatch(r"\d{20}", file.stem)]


def rows_as_json(frame: DataFrame, extra: Sequence[str] = ()) -> list[str]:
    """The rows of a frame as sorted JSON texts."""
    columns = ", ".join(("*", *extra))
    text = frame.selectExpr(f"to_json(struct({columns}), {_JSON_OPTIONS}) AS text")
    return sorted(row.text for row in text.collect())


def _frames_as_json(frames: Mapping[int, DataFrame]) -> dict[int, list[str]]:
    """The rows of each frame, read by one query."""
    found: dict[int, list[str]] = {number: [] for number in frames}
    texts = [
        frame.selectExpr(f"{number} AS n", f"to_json(struct(*), {_JSON_OPTIONS}) AS text")
        for number, frame in frames.items()
    ]
    for row in reduce(lambda one, other: one.unionAll(other), texts).collect():
        found[row.n].append(row.text)
    return {number: sorted(rows) for number, rows in found.items()}


def read_rows(spark: SparkSession, path: Path, version: int | None = None) -> list[str]:
    """What Spark reads, at a version or now."""
    return rows_as_json(_load(spark, path, version))


def read_row_ids(spark: SparkSession, path: Path) -> list[str]:
    """What Spark reads, each row with its id and the version that wrote it."""
    return rows_as_json(
        _load(spark, path), ("_metadata.row_id AS r", "_metadata.row_commit_version AS v")
    )


def _load(spark: SparkSession, path: Path, version: int | None = None) -> DataFrame:
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(str(path))


def capture(
    spark: SparkSession, path: Path, feature: Feature, *, every_version: bool = False
) -> Expected:
    """What Spark reads from a table; at every version, too, when that is asked for."""
    latest = max(_commit_versions(path / "_delta_log"))
    older = range(latest) if every_version else ()
    frames = {version: _load(spark, path, version) for version in older}
    frames[latest] = _load(spark, path)
    versions = _frames_as_json(frames)
    schemas = {version: frame.schema.simpleString() for version, frame in frames.items()}
    ids = read_row_ids(spark, path) if feature.row_ids else None
    return Expected(latest, schemas[latest], versions[latest], ids, versions, schemas)


class Matrix:
    """Builds tables on demand; what is common to the shapes of a feature is built once."""

    def __init__(self, spark: SparkSession, root: Path, *, every_version: bool = False) -> None:
        self._spark = spark
        self._root = root
        self._every_version = every_version
        self._bases: dict[str, tuple[Path, Expected]] = {}

    def build(self, name: str) -> MatrixTable:
        """The table of this name below the root, built unless that is done."""
        feature = find_feature(name)
        shape = next(known for known in SHAPES if name == f"{feature.name}-{known}")
        base, expected = self._base(feature, v2=shape in _V2)
        path = self._root / name
        if not path.exists():
            shape_copy(self._spark, base, path, shape)
        return MatrixTable(name, path, (feature.name, shape), expected)

    def forget_bases(self) -> None:
        """Remove what only the building needed."""
        shutil.rmtree(self._root / "_bases", ignore_errors=True)
        self._bases.clear()

    def _base(self, feature: Feature, *, v2: bool) -> tuple[Path, Expected]:
        key = f"{feature.name}-v2" if v2 else feature.name
        if key not in self._bases:
            path = self._root / "_bases" / key
            build_base(self._spark, path, feature, v2=v2)
            found = capture(self._spark, path, feature, every_version=self._every_version)
            self._bases[key] = path, found
        return self._bases[key]


def build_matrix(
    spark: SparkSession,
    root: Path,
    names: Iterable[str] | None = None,
    *,
    every_version: bool = False,
) -> list[MatrixTable]:
    """Write the tables of the matrix, or those named, below ``root``."""
    matrix = Matrix(spark, root, every_version=every_version)
    tables = []
    for name in all_names() if names is None else names:
        started = time.monotonic()
        tables.append(matrix.build(name))
        print(f"{time.monotonic() - started:6.2f} s  {name}", file=sys.stderr, flush=True)
    matrix.forget_bases()
    return tables


def main() -> None:
    """Write the matrix into a folder, and what Spark reads from it into ``expected.json``."""
    from tests.support.delta_spark import delta_session

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="of tables; all unless given")
    parser.add_argument("--every-version", action="store_true")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, delta_session(Path(scratch)) as spark:
        names = given.names or None
        tables = build_matrix(spark, folder, names, every_version=given.every_version)
    listed = [{**asdict(table), "path": table.name} for table in tables]
    (folder / "expected.json").write_text(json.dumps(listed, ensure_ascii=False, indent=1), "utf-8")
    (folder / "READY").touch()


if __name__ == "__main__":
    main()
