"""What the user hands over: predicates, durations, configuration, inventories; and data files."""

import io
import json
import tomllib  # noqa: F401 - loaded late by the program: here it is watched from the start
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from deltactl.catalog.hive import HiveCatalog
from deltactl.catalog.names import parse_name
from deltactl.catalog.thrift import Kind, Typed, encode, read_reply
from deltactl.cli.settings.file import load_config_file
from deltactl.errors import DataFileError, DeltactlError, UsageError
from deltactl.operations.optimize.copy_rule import CopyRule, open_source, plan_steps
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.operations.predicate.parse import parse_predicate
from deltactl.operations.vacuum.inventory import read_inventory
from deltactl.parquet.broken_footers import find_broken_footers
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.file_schema import read_file_schema
from deltactl.parquet.footer import read_file_stats
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.null_counts import read_null_counts
from deltactl.parquet.splice.copy_conditions import OutputSchema
from deltactl.parquet.splice.writer import read_stored_columns
from deltactl.parquet.writer import WriteOptions
from deltactl.protocol.arrow_schemas import arrow_schema
from deltactl.protocol.schema import Field, PrimitiveType, parse_schema
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf, list_leaves
from deltactl.units import (
    format_duration,
    format_size,
    format_timestamp,
    parse_duration,
    parse_size,
    parse_timestamp,
)
from tests.fuzz.target import STORE, Target, as_text, stored
from tests.support.footers import read_valid_footer
from tests.support.stores import MemoryStore
from tests.support.table_builder import Column, array_of, struct_of

# -- units --------------------------------------------------------------------------------------


def run_units(data: bytes) -> None:
    """One text as a duration, a size and an instant; a duration is read back as it is shown."""
    text = as_text(data)
    for parse, render in ((parse_size, format_size), (parse_timestamp, format_timestamp)):
        try:
            render(parse(text))
        except UsageError:
            continue
    duration = parse_duration(text)
    assert parse_duration(format_duration(duration)) == duration


_TEXTS = (
    "7d",
    "1h30m",
    "interval 1 week 2 days",
    "PT1H30M",
    "1.5GiB",
    "128 MB",
    "2024-01-31T12:00:00.123+02:00",
    "2024-01-31",
    "9223372036854775807ms",
)

# -- predicates ---------------------------------------------------------------------------------

_FIELDS = tuple(
    Field(name, PrimitiveType(type_))
    for name, type_ in (
        ("p", "string"),
        ("n", "integer"),
        ("d", "date"),
        ("t", "timestamp"),
        ("x", "double"),
        ("q", "decimal(10,2)"),
        ("b", "boolean"),
    )
)


@cache
def _partition_values() -> pa.Array:
    rows = [
        [("p", "a"), ("n", "7"), ("d", "2024-01-31"), ("t", "2024-01-31 12:00:00"), ("x", "NaN"),
            ("q", "1.25"), ("b", "true")],
        [(field.name, None) for field in _FIELDS],
    ]  # fmt: skip
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def run_predicate(data: bytes) -> None:
    """A predicate over partition columns; its normal form means the same."""
    found = parse_predicate(as_text(data), _FIELDS)
    answer = found.evaluate(_partition_values())
    again = parse_predicate(found.sql, _FIELDS)
    assert again.evaluate(_partition_values()).equals(answer), found.sql


_PREDICATES = (
    "p = 'a' AND n >= 3",
    "d BETWEEN '2024-01-01' AND DATE '2024-12-31' OR x IS NOT NULL",
    "NOT (p LIKE 'a%_' OR `n` IN (1, 2.0, 1e1)) AND t < TIMESTAMP '2024-01-31 12:00:00'",
    "q <=> 1.25 AND b != true",
)
_SQL = (
    "AND", "OR", "NOT", "LIKE", "IN", "BETWEEN",
    "IS NULL",
    "<=>", "CAST(",
    "DATE '",
    "\\'", "1e999", "--", "/*", "`", "CASE", "X'", "INTERVAL", "::", "ESCAPE", "RLIKE", "EXISTS(",
)  # fmt: skip

# -- configuration ------------------------------------------------------------------------------


@cache
def _config_path() -> Path:
    return Path(mkdtemp(prefix="deltactl-fuzz-")) / "deltactl.toml"


_KEYS = ("output", "target-size", "engine", "jobs", "memory", "verify")
_COMMANDS = ("optimize", "vacuum", "checkpoint")


def run_config(data: bytes) -> None:
    """``deltactl.toml``: checked, then asked for every setting."""
    path = _config_path()
    path.write_bytes(data)
    found = load_config_file(path, _COMMANDS)
    for command in _COMMANDS:
        found.check(command, _KEYS, lambda: _KEYS)
    for key in _KEYS:
        replace(found, command="optimize", table="/data/small/x").find(key)


_TOML = b"""output = "json"
[optimize]
target-size = "256MiB"
[profiles.small]
tables = ["/data/small/*", "s3://lake/staging/*"]
engine = "local"
[profiles.small.optimize]
target-size = "64MiB"
jobs = 3
"""

# -- inventories --------------------------------------------------------------------------------

_ROOT = MemoryStore("memory://fuzz/t")


def _run_inventory(ending: str, data: bytes) -> None:
    stored(f"inventory.{ending}", data)
    read_inventory(_ROOT, f"{STORE.uri}/inventory.{ending}", {})


def run_inventory_csv(data: bytes) -> None:
    _run_inventory("csv", data)


def run_inventory_parquet(data: bytes) -> None:
    _run_inventory("parquet", data)


def run_inventory_orc(data: bytes) -> None:
    _run_inventory("orc", data)


def run_inventory_manifest(data: bytes) -> None:
    """The manifest of an inventory, which names a CSV that is there."""
    stored("shard.csv", b"path,length,isDir,modificationTime\nmemory://fuzz/t/x,3,false,1\n")
    _run_inventory("json", data)


def _listing() -> pa.Table:
    return pa.table(
        {
            "path": ["memory://fuzz/t/x.parquet", "memory://fuzz/t/p=1/"],
            "length": [3, 0],
            "isDir": [False, True],
            "modificationTime": [1, 2],
        }
    )


def _csvs() -> list[bytes]:
    s3 = b'"bucket","key","is_latest","is_delete_marker"\n"b","t/x%20y.parquet","true","false"\n'
    ours = b"path,length,isDir,modificationTime\nmemory://fuzz/t/x,3,false,1\n"
    return [s3, ours, b"bucket,name\nb,t/x\n"]


def _manifests() -> list[bytes]:
    s3 = {
        "fileSchema": "path, length, isDir, modificationTime",
        "fileFormat": "CSV",
        "files": [{"key": "shard.csv"}],
    }
    return [json.dumps(s3).encode(), b'{"report_shards_file_names":["shard.csv"]}']


def _parquet(table: pa.Table) -> list[bytes]:
    found = []
    for compression, version in (("none", "1.0"), ("snappy", "2.0")):
        sink = io.BytesIO()
        pq.write_table(table, sink, compression=compression, data_page_version=version)
        found.append(sink.getvalue())
    return found


def _orcs() -> list[bytes]:
    sink = io.BytesIO()
    orc.write_table(_listing(), sink)
    return [sink.getvalue()]


# -- data files ---------------------------------------------------------------------------------


def run_footer(data: bytes) -> None:
    """A data file's footer, alone and among others: schema, statistics, null counts."""
    info = stored("x.parquet", data)
    twin = parse_footer(STORE, info.name, info.size_bytes)
    assert len(find_broken_footers([twin, twin])) in (0, 2)
    footer = read_valid_footer(STORE, info.name, info.size_bytes)
    schema = read_file_schema(footer.schema).struct
    read_file_stats(footer, StatsColumns(list_leaves(schema)))
    read_null_counts(footer)


def run_splice(data: bytes) -> None:
    """The footer, indexes and page headers of a file whose row groups may be copied."""
    info = stored("x.parquet", data)
    leaves = list_leaves(_SPLICED)
    by_column: dict[str, list[StatsLeaf]] = {}
    for leaf in leaves:
        by_column.setdefault(leaf.path[0], []).append(leaf)
    columns = read_stored_columns(arrow_schema(_SPLICED, "physical"), WriteOptions())
    rule = CopyRule(OutputSchema(columns, StatsColumns(leaves), by_column=by_column), 0)
    try:
        source = open_source(STORE, DataFile(info.name, info.size_bytes))
    except DataFileError:
        return
    for is_local in (True, False):
        plan_steps(STORE, rule, source, None, counts=RewriteCounts(), is_local=is_local, room=9)


def _spliced_files() -> list[bytes]:
    rows = pa.table({"a": pa.array([1, None, 3], pa.int32()), "l": [["x"], None, []]})
    sink = io.BytesIO()
    pq.write_table(
        rows,
        sink,
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(0)],
        bloom_filter_options={"a": True},
    )
    return [*_parquet(rows), sink.getvalue()]


_SPLICED = parse_schema(
    json.dumps(struct_of(Column("a", "integer"), Column("l", array_of("string"))))
)


def _data_files() -> list[bytes]:
    return _parquet(
        pa.table(
            {
                "a": pa.array([1, None, 3], pa.int32()),
                "s": [{"x": "a", "y": [1.5]}, None, {"x": None, "y": []}],
                "q": pa.array([Decimal("1.5"), Decimal(2), None], pa.decimal128(20, 2)),
                "t": pa.array([1, None, 3], pa.timestamp("us", "UTC")),
                "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            }
        )
    )


# -- answers of a Hive metastore ----------------------------------------------------------------


class _Metastore(HiveCatalog):
    """Answers each call with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        super().__init__([("localhost", 9083)])
        self._answer = answer

    def _call(self, method: str, *arguments: Typed) -> Any:
        return read_reply(io.BytesIO(self._answer), method)


def run_thrift(data: bytes) -> None:
    """An answer to the look-up of a table, and to all calls of a listing."""
    metastore, name = _Metastore(data), parse_name("hive://sales.orders")
    for ask in (lambda: metastore.find(name), lambda: list(metastore.list(name))):
        with suppress(DeltactlError):
            ask()


def _answers() -> list[bytes]:
    column = {1: (Kind.STRING, "id"), 2: (Kind.STRING, "bigint")}
    marks = (Kind.STRING, Kind.STRING, [("spark.sql.sources.provider", "delta"), ("path", "/t")])
    storage = {1: (Kind.LIST, (Kind.STRUCT, [column])), 2: (Kind.STRING, "file:/t"),
               7: (Kind.STRUCT, {3: (Kind.MAP, marks)})}  # fmt: skip
    table = {1: (Kind.STRING, "orders"), 4: (Kind.I32, 7), 7: (Kind.STRUCT, storage),
             9: (Kind.MAP, marks), 14: (Kind.BOOL, True)}  # fmt: skip
    results = (
        {0: (Kind.STRUCT, {1: (Kind.STRUCT, table)})},
        {0: (Kind.STRUCT, {1: (Kind.LIST, (Kind.STRUCT, [table]))})},
        {0: (Kind.LIST, (Kind.STRING, ["orders", "sales"]))},
        {2: (Kind.STRUCT, {1: (Kind.STRING, "there is none")})},
    )
    begin = b"\x80\x01\x00\x02" + encode(Kind.STRING, "m") + encode(Kind.I32, 1)
    return [begin + encode(Kind.STRUCT, result) for result in results]


TARGETS = (
    Target("units", run_units, lambda: [text.encode() for text in _TEXTS], 1_200_000, "text",
        ("interval", "days", "h", "PT", "ms", "GiB", "+02:00", "1e9", "month"), 256),
    Target("predicate", run_predicate, lambda: [text.encode() for text in _PREDICATES], 100_000,
        "text", _SQL, 1024),
    Target("config", run_config, lambda: [_TOML], 100_000, "text",
        ("[profiles.", "tables = [", '"""', "'''", "[[", "0x", "2024-01-31", "engine", "{"), 1024),
    Target("inventory-csv", run_inventory_csv, _csvs, 100_000, "text",
        ("bucket", "key", "isDir", "path", '"', "%2F", "true", "memory://fuzz/t/"), by_arrow=True),
    Target("inventory-parquet", run_inventory_parquet, lambda: _parquet(_listing()), 100_000,
        "parquet", max_length=16384, by_arrow=True),
    Target("inventory-orc", run_inventory_orc, _orcs, 100_000, "bytes", max_length=16384,
        by_arrow=True),
    Target("inventory-manifest", run_inventory_manifest, _manifests, 150_000, "json",
        ("fileSchema", "files", "key", "report_shards_file_names", ".."), by_arrow=True),
    Target("thrift", run_thrift, _answers, 500_000, "bytes"),
    Target("footer", run_footer, _data_files, 100_000, "parquet", max_length=16384, by_arrow=True),
    Target("splice", run_splice, _spliced_files, 100_000, "parquet", max_length=16384,
        by_arrow=True),
)  # fmt: skip
