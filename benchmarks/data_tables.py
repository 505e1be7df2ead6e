"""A table with data: many small files of twenty mixed columns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.columns import chosen, decimals, join, uuids, with_nulls
from benchmarks.log_tables import PROTOCOL, commit_info, metadata_of, write_commit
from deltactl.parquet.footer import RowFacts, read_file_stats
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.stats_encoding import encode_stats

_SEED = 731
_START_MS = 1_704_067_200_000

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


_KINDS = {"long": "integer", "double": "float"}
_STATS = StatsColumns(
    tuple(
        StatsLeaf((name,), _KINDS.get(kind, kind.partition("(")[0]))
        for name, kind in DELTA_COLUMNS.items()
    )
)
_FLOATS = frozenset(leaf.path for leaf in _STATS.leaves if leaf.kind == "float")


def make_rows(file: int, num_rows: int) -> pa.Table:
    """The rows of one file."""
    rng = np.random.default_rng((_SEED, file))
    first = file * num_rows
    ids = np.arange(first, first + num_rows, dtype=np.int64)
    users = rng.integers(0, 10_000_000, num_rows)
    created = _START_MS * 1000 + ids * 250_000 + rng.integers(0, 250_000, num_rows)
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


def write_data_table(table: Path, rows_per_file: Iterable[int]) -> None:
    """Files written one by one with snappy, as streaming writers leave them, in one commit."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    lines = [commit_info(0, "WRITE"), json.dumps({"protocol": PROTOCOL})]
    lines.append(json.dumps({"metaData": metadata_of(DELTA_COLUMNS, [])}))
    for number, num_rows in enumerate(rows_per_file):
        name = f"part-{number:05}-{'0' * 8}-c000.snappy.parquet"
        pq.write_table(
            make_rows(number, num_rows),
            table / name,
            compression="snappy",
            store_schema=False,
            store_decimal_as_integer=True,
        )
        add = {
            "path": name,
            "partitionValues": {},
            "size": (table / name).stat().st_size,
            "modificationTime": _START_MS + number * 1000,
            "dataChange": True,
            "stats": encode_stats(
                read_file_stats(pq.read_metadata(table / name), _STATS, RowFacts(_FLOATS)), _STATS
            ),
        }
        lines.append(json.dumps({"add": add}))
    write_commit(log, 0, lines)


def write_parquet_directory(folder: Path, num_files: int, rows_per_file: int) -> None:
    """Files of twenty columns and no log: what a convert begins with."""
    folder.mkdir(parents=True)
    for number in range(num_files):
        rows = make_rows(number, rows_per_file)
        pq.write_table(rows, folder / f"part-{number:05}.parquet", compression="snappy")
