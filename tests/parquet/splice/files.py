"""Parquet files of several writers, to copy from."""

import datetime as dt
import functools
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.parquet.format import END_BYTES, MAGIC, FileMetaData, RowGroup
from deltactl.parquet.thrift import ThriftStruct, decode, encode
from deltactl.table import Table
from tests.support.run import report_of
from tests.support.table_builder import Column, array_of, map_of, struct_of

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


@functools.cache
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


def make_delta_table(
    folder: Path,
    paths: Sequence[Path],
    schema: pa.Schema = SCHEMA,
    stats: Sequence[str | None] | None = None,
) -> None:
    """Name these files in the log of a new table; without statistics, if none are given."""
    texts = stats or [None] * len(paths)
    text = json.dumps(struct_of(*(Column(f.name, _delta_type(f.type)) for f in schema)))
    lines: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "splice", "format": {"provider": "parquet", "options": {}},
                      "schemaString": text, "partitionColumns": [], "configuration": {}}},
    ]  # fmt: skip
    lines += [
        {"add": {"path": path.name, "partitionValues": {}, "size": path.stat().st_size,
                 "modificationTime": 1000 + number, "dataChange": True,
                 **({} if text is None else {"stats": text})}}
        for number, (path, text) in enumerate(zip(paths, texts, strict=True))
    ]  # fmt: skip
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))


def _delta_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return array_of(_delta_type(kind.value_type))
    if pa.types.is_map(kind):
        return map_of(_delta_type(kind.key_type), _delta_type(kind.item_type))
    if pa.types.is_struct(kind):
        return struct_of(*(Column(f.name, _delta_type(f.type)) for f in kind))
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    names = {"int64": "long", "int32": "integer", "double": "double", "date32[day]": "date",
             "timestamp[us, tz=UTC]": "timestamp", "bool": "boolean"}  # fmt: skip
    return names.get(str(kind), str(kind))


def write_files(folder: Path, writers: Sequence[str]) -> list[Path]:
    paths = []
    for number, name in enumerate(writers):
        path = folder / f"{number}.parquet"
        path.write_bytes(_written(name, number))
        paths.append(path)
    make_delta_table(folder, paths)
    return paths


@functools.cache
def _written(writer: str, number: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "written.parquet")
        WRITERS[writer](path, make_table(start=number * 10_000))
        return path.read_bytes()


def optimize(folder: Path, rewrite: str, **options: Any) -> OptimizeReport:
    chosen: Any = {"rewrite": rewrite, "verify": "full", **options}
    table = Table(str(folder), warn=pytest.fail)
    return report_of(lambda: table.optimize(OptimizeOptions(**chosen)))


def find_output(folder: Path) -> Path:
    (added,) = folder.glob("part-*.parquet")
    return added


def change_footer(path: Path, change: Callable[[ThriftStruct], None]) -> None:
    """Write a file's footer again, changed."""
    data = path.read_bytes()
    start = len(data) - END_BYTES - int.from_bytes(data[-END_BYTES:-4], "little")
    footer = decode(data[start:-END_BYTES])
    change(footer)
    text = encode(footer)
    path.write_bytes(data[:start] + text + len(text).to_bytes(4, "little") + MAGIC)


def read_footer(path: Path) -> ThriftStruct:
    """Return a file's footer as Thrift structs."""
    found: list[ThriftStruct] = []
    change_footer(path, found.append)
    return found[0]


def chunk_of(footer: ThriftStruct, group: int, column: int) -> ThriftStruct:
    """Return a column chunk, to read or change."""
    groups = footer.members(FileMetaData.ROW_GROUPS)
    found: ThriftStruct = groups[group].members(RowGroup.COLUMNS)[column]
    return found
