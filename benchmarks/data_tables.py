"""A table with data: many small files of twenty mixed columns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64

from benchmarks.adds import VECTOR, to_struct
from benchmarks.columns import chosen, decimals, join, texts, uuids, with_nulls
from benchmarks.log_tables import write_commit
from benchmarks.shapes import (
    NESTED_COLUMNS,
    START_MS,
    Shape,
    Tree,
    commit_info,
    first_actions,
    type_of,
)
from deltactl.parquet.footer import RowFacts, read_file_stats
from deltactl.protocol.deletion_vectors import encode_bitmap, encode_file
from deltactl.protocol.schema import parse_schema
from deltactl.protocol.stats_columns import StatsColumns, list_leaves
from deltactl.protocol.stats_encoding import encode_stats

_SEED = 731

_COUNTRIES = [f"{a}{b}" for a in "ABCDEF" for b in "EILRT"]
_CATEGORIES = [f"category {n:03}" for n in range(200)]
_PRODUCTS = [f"product-{n * 7919 % 100_000:05}" for n in range(5_000)]
_WORDS = ["late", "early", "again", "paid", "full", "call", "back", "gift", "wrong", "size"]

DELTA_COLUMNS = {
    "id": "long",
    "user_id": "long",
    "quantity": "integer",
    "store": "integer",
    "price": "double",
    "weight": "double",
    "latitude": "double",
    "score": "double",
    "country": "string",
    "category": "string",
    "product": "string",
    "email": "string",
    "note": "string",
    "token": "string",
    "created_at": "timestamp",
    "updated_at": "timestamp",
    "amount": "decimal(12,2)",
    "tax": "decimal(8,4)",
    "active": "boolean",
    "day": "date",
}


_MEASURES = [f"measure_{n:02}" for n in range(20)]
SPARK_COLUMNS: Tree = {
    **DELTA_COLUMNS,
    **NESTED_COLUMNS,
    **dict.fromkeys(_MEASURES, "double"),
    "comment": "string",
}


def make_rows(file: int, num_rows: int) -> pa.Table:
    """The rows of one file."""
    rng = np.random.default_rng((_SEED, file))
    first = file * num_rows
    ids = np.arange(first, first + num_rows, dtype=np.int64)
    users = rng.integers(0, 10_000_000, num_rows)
    created = START_MS * 1000 + ids * 250_000 + rng.integers(0, 250_000, num_rows)
    instant = pa.timestamp("us", "UTC")
    day = pa.array(created // 86_400_000_000, pa.int32()).cast(pa.date32())
    updated = pa.array(created + rng.integers(0, 10**9, num_rows)).cast(instant)
    words = [chosen(rng, num_rows, _WORDS) for _ in range(4)]
    note = join(words[0], " ", words[1], " ", words[2], " ", words[3])
    columns = {
        "id": pa.array(ids),
        "user_id": pa.array(users),
        "quantity": pa.array(rng.integers(1, 20, num_rows), pa.int32()),
        "store": with_nulls(rng, pa.array(rng.integers(0, 900, num_rows), pa.int32()), 0.01),
        "price": pa.array((rng.random(num_rows) * 500).round(2)),
        "weight": pa.array(rng.gamma(2.0, 3.0, num_rows)),
        "latitude": pa.array(rng.random(num_rows) * 180 - 90),
        "score": with_nulls(rng, pa.array(rng.normal(0, 1, num_rows)), 0.1),
        "country": chosen(rng, num_rows, _COUNTRIES),
        "category": chosen(rng, num_rows, _CATEGORIES),
        "product": chosen(rng, num_rows, _PRODUCTS),
        "email": join("user", pa.array(users), "@example.org"),
        "note": with_nulls(rng, note, 0.5),
        "token": uuids(rng, num_rows),
        "created_at": pa.array(created).cast(instant),
        "updated_at": with_nulls(rng, updated, 0.2),
        "amount": decimals(rng.integers(-10_000, 5_000_000, num_rows), 12, 2),
        "tax": decimals(rng.integers(0, 2_500, num_rows) * 100, 8, 4),
        "active": pc.greater(pa.array(rng.random(num_rows)), 0.3),
        "day": day,
    }
    return pa.table({name: columns[name] for name in DELTA_COLUMNS})


def make_spark_rows(file: int, num_rows: int) -> pa.Table:
    """The same rows with texts of many lengths, nested columns, and many columns."""
    rng = np.random.default_rng((_SEED, file, 1))
    rows = make_rows(file, num_rows)
    numbers = {"lat": pa.array(rng.random(num_rows)), "lon": pa.array(rng.random(num_rows))}
    city = chosen(rng, num_rows, _COUNTRIES)
    address = {"street": texts(rng, num_rows, 60), "city": city, "geo": numbers}
    event = {
        "kind": with_nulls(rng, texts(rng, num_rows, 8), 0.9),
        "at": rows["created_at"].combine_chunks(),
    }
    for name, tree in (("address", address), ("event", event)):
        rows = rows.append_column(name, to_struct(tree))
    for name in _MEASURES:
        values = pa.array(rng.integers(0, 1000, num_rows) / 8)
        rows = rows.append_column(name, with_nulls(rng, values, rng.random()))
    return rows.append_column("comment", with_nulls(rng, texts(rng, num_rows, 200), 0.5))


def write_data_table(table: Path, rows_per_file: Iterable[int], shape: Shape) -> None:
    """Files written one by one with snappy, as streaming writers leave them.

    delta-rs commits each. In those of Spark, a tenth of the files has deleted rows.
    """
    if shape == Shape.DELTA_RS:
        _append_with_delta_rs(table, map(make_rows, count(), rows_per_file))
        return
    log = table / "_delta_log"
    log.mkdir(parents=True)
    columns = DELTA_COLUMNS if shape == Shape.PLAIN else SPARK_COLUMNS
    first = first_actions(shape, columns, [])
    lines = [commit_info(0, "WRITE", shape), *map(json.dumps, first)]
    leaves = list_leaves(parse_schema(json.dumps(type_of(columns))))[:32]
    stats = StatsColumns(leaves, tight_bounds=shape == Shape.SPARK)
    facts = RowFacts(frozenset(leaf.path for leaf in leaves if leaf.kind == "float"))
    for number, num_rows in enumerate(rows_per_file):
        name = f"part-{number:05}-{UUID(int=number)}-c000.snappy.parquet"
        _write_file(table / name, number, num_rows, shape)
        found = read_file_stats(pq.read_metadata(table / name), stats, facts)
        add = {
            "path": name,
            "partitionValues": {},
            "size": (table / name).stat().st_size,
            "modificationTime": START_MS + number * 1000,
            "dataChange": True,
            "stats": encode_stats(found, stats),
        }
        if shape == Shape.SPARK and number % 10 == 3:
            add["deletionVector"] = _delete_rows(table, number)
        lines.append(json.dumps({"add": add}))
    write_commit(log, 0, lines)


def _append_with_delta_rs(table: Path, parts: Iterable[pa.Table]) -> None:
    target: DeltaTable | Path = table
    for rows in parts:
        write_deltalake(target, rows, mode="append")
        target = DeltaTable(table) if target == table else target


def _write_file(path: Path, number: int, num_rows: int, shape: Shape) -> None:
    spark = shape == Shape.SPARK
    pq.write_table(
        make_spark_rows(number, num_rows) if spark else make_rows(number, num_rows),
        path,
        compression="snappy",
        store_schema=False,
        store_decimal_as_integer=True,
        use_deprecated_int96_timestamps=spark,
    )


def _delete_rows(table: Path, number: int) -> Tree:
    """Delete ten rows of a file; return the descriptor of their vector."""
    payload = encode_bitmap(BitMap64(range(0, 50, 5)))
    vector, content = encode_file(payload, 10, UUID(int=number), "")
    (table / str(vector.file_name)).write_bytes(content)
    values = (vector.storage_type, vector.path_or_inline_dv, vector.offset, vector.size_bytes, 10)
    return dict(zip(VECTOR.names, values, strict=True))


def write_parquet_directory(folder: Path, num_files: int, rows_per_file: int, shape: Shape) -> None:
    """Files of twenty columns or more and no log: what a convert begins with."""
    if shape == Shape.DELTA_RS:
        # The time of an append grows with the table.
        for first in range(0, num_files, 100):
            numbers = range(first, min(first + 100, num_files))
            _append_with_delta_rs(folder / "part", (make_rows(n, rows_per_file) for n in numbers))
            for file in (folder / "part").glob("*.parquet"):
                file.rename(folder / file.name)
            shutil.rmtree(folder / "part")
        return
    folder.mkdir(parents=True)
    for number in range(num_files):
        _write_file(folder / f"part-{number:05}.parquet", number, rows_per_file, shape)
