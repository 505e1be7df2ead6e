"""Columns of ``add`` actions in each shape: names, statistics, deletion vectors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.columns import chosen, decimals, join, padded, texts, uuids
from benchmarks.shapes import INDEXED_COLUMNS, START_MS, Shape, Tree
from deltactl.protocol.deletion_vectors import encode_file

_NAMES = tuple(
    f"{first}{rest}" for first in "ABCDEFGHKLMNPRST" for rest in ("dams", "rown", "oyle")
)
_ORDERS = 16
_PREFIXES = [a + b for a in "aBcDeFgHiJkLmNoPqRsT" for b in "0123456789uVwXyZ"]
_PARSED = {
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def make_paths(
    rng: np.random.Generator, shape: Shape, date: pa.Array, places: npt.NDArray[np.int64]
) -> pa.Array:
    """Names of files, of which those of Spark are in folders of random names."""
    count = len(places)
    if shape == Shape.DELTA_RS:
        return join("date=", date, "/part-00000-", uuids(rng, count), "-c000.snappy.parquet")
    if shape == Shape.SPARK:
        task = padded(rng.integers(0, 200, count), 5)
        folder = chosen(rng, count, _PREFIXES)
        return join(folder, "/part-", task, "-", uuids(rng, count), ".c000.snappy.parquet")
    task, thread = rng.integers(0, 200, count), rng.integers(10**18, 9 * 10**18, count)
    return join(
        *("date=", date, "/part-", padded(task, 5), "-tid-", pa.array(thread), "-"),
        *(uuids(rng, count), "-", pa.array(places), "-1.c000.snappy.parquet"),
    )


def make_stats(
    rng: np.random.Generator, shape: Shape, date: pa.Array, places: npt.NDArray[np.int64]
) -> Tree:
    """The statistics of so many files, as a tree of columns."""
    count = len(places)
    rows = rng.integers(1_000, 90_000, count)
    if shape == Shape.SPARK:
        low, high, nulls = _random_stats(rng, INDEXED_COLUMNS, rows)
        tight: Tree = {"tightBounds": pa.repeat(pa.scalar(True), count)}
    else:
        ids, value = places * 90_000, rng.random(count).round(6)
        low = _plain_bounds(rng, ids, join(date, "T00:00:07.000Z"), value)
        high = _plain_bounds(rng, ids + rows, join(date, "T23:59:58.000Z"), value + 1000)
        zero = pa.repeat(pa.scalar(0), count)
        nulls = {"id": zero, "ts": zero, "name": pa.array(rows // 97), "value": zero}
        tight = {}
    head = {"numRecords": pa.array(rows), "minValues": low, "maxValues": high}
    return {**head, "nullCount": nulls, **tight}


def _plain_bounds(
    rng: np.random.Generator, ids: npt.NDArray[np.int64], time: pa.Array,
    value: npt.NDArray[np.float64],
) -> Tree:  # fmt: skip
    names = chosen(rng, len(ids), _NAMES)
    return {"id": pa.array(ids), "ts": time, "name": names, "value": pa.array(value.round(6))}


def _random_stats(
    rng: np.random.Generator, kind: Any, rows: npt.NDArray[np.int64]
) -> tuple[Any, Any, Any]:
    """Least and greatest values and null counts; some files have only nulls in a column."""
    if isinstance(kind, dict):
        found = {name: _random_stats(rng, each, rows) for name, each in kind.items()}
        low, high, nulls = ({n: stats[i] for n, stats in found.items()} for i in range(3))
        return low, high, nulls
    count = len(rows)
    what = rng.random(count)
    nulls = pa.array(np.where(what < 0.05, rows, np.where(what < 0.5, rows // 97, 0)))
    numbers = rng.integers(0, 2**40, count)
    if kind == "string":
        two = texts(rng, count, 32), texts(rng, count, 32)
        bounds = [pc.min_element_wise(*two), pc.max_element_wise(*two)]
    elif kind == "double":
        bounds = [pa.array(rng.random(count)), pa.array(rng.random(count) + 1000)]
    elif kind.startswith("decimal"):
        bounds = [decimals(numbers % 10**6, 12, 2), decimals(numbers % 10**6 + 10**6, 12, 2)]
    else:
        first = START_MS * 1000 if kind == "timestamp" else 0
        steps = (1000, 1_000_000)  # no part of a millisecond: statistics have none
        bounds = [pa.array(first + numbers // 1000 * step).cast(_PARSED[kind]) for step in steps]
    known = pa.array(what >= 0.05)
    return *(pc.if_else(known, bound, None) for bound in bounds), nulls


def to_json(stats: Tree, shape: Shape, rng: np.random.Generator) -> pa.Array:
    """The statistics as texts; delta-rs writes members in another order in each file."""
    if shape != Shape.DELTA_RS:
        return _as_text(stats)
    count = len(stats["numRecords"])
    groups = [pa.array(np.arange(k, count, _ORDERS)) for k in range(min(_ORDERS, count))]
    parts = [_as_text(_shuffled(rng, _take(stats, rows))) for rows in groups]
    return pa.concat_arrays(parts).take(pc.array_sort_indices(pa.concat_arrays(groups)))


def _take(stats: Tree, rows: pa.Array) -> Tree:
    return {
        name: _take(each, rows) if isinstance(each, dict) else each.take(rows)
        for name, each in stats.items()
    }


def _shuffled(rng: np.random.Generator, stats: Tree) -> Tree:
    """The members in another order, but for those of the outermost object."""
    return {
        name: {key: each[key] for key in rng.permutation(list(each))}
        if isinstance(each, dict)
        else each
        for name, each in stats.items()
    }


def _as_text(tree: Any) -> pa.Array:
    """JSON of the rows; members that are null are left out."""
    if not isinstance(tree, dict):
        return _value_text(tree)
    members = [join(f',"{name}":', _as_text(tree[name])) for name in tree]
    # To skip nulls, Arrow would also omit a row of which all are null.
    joined = pc.binary_join_element_wise(*members, "", null_handling="replace")
    return join("{", pc.utf8_ltrim(joined, ","), "}")


def _value_text(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        return join('"', array, '"')
    if not pa.types.is_timestamp(array.type):
        return array.cast(pa.string())
    time = array.cast(pa.timestamp("ms")).cast(pa.string())
    return join('"', pc.replace_substring(time, " ", "T"), 'Z"')


def to_struct(tree: Any) -> pa.Array:
    """The rows as structs: ``stats_parsed``."""
    if not isinstance(tree, dict):
        return tree
    return pa.StructArray.from_arrays([to_struct(each) for each in tree.values()], list(tree))


VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_PACKED = [
    encode_file(b"", 0, UUID(int=0x5A1C7A520000400080000000 << 32 | n), "")[0] for n in range(8)
]


def make_vectors(rng: np.random.Generator, count: int, share: float) -> pa.StructArray:
    """Deletion vectors of a share of so many files, in a few files at the top of the table."""
    names = chosen(rng, count, [vector.path_or_inline_dv for vector in _PACKED])
    numbers = [
        pa.array(rng.integers(1, 4000, count), kind)
        for kind in (pa.int32(), pa.int32(), pa.int64())
    ]
    arrays = [pa.repeat(pa.scalar("u"), count), names, *numbers]
    return pa.StructArray.from_arrays(
        arrays, fields=list(VECTOR), mask=pa.array(rng.random(count) >= share)
    )


def vector_files(shape: Shape) -> list[str]:
    """The names of their files."""
    if shape != Shape.SPARK:
        return []
    return [vector.file_name for vector in _PACKED if vector.file_name]


def end_of_add(shape: Shape, files: pa.RecordBatch) -> pa.Array:
    """What follows the statistics in a line of the log."""
    if shape == Shape.PLAIN:
        return pa.repeat(pa.scalar("}}"), files.num_rows)
    if shape == Shape.DELTA_RS:
        names = ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")
        nulls = "".join(f',"{name}":null' for name in names)
        return pa.repeat(pa.scalar(nulls + "}}"), files.num_rows)
    vector = dict(zip(VECTOR.names, files["deletionVector"].flatten(), strict=True))
    tags = join(',"tags":{"INSERTION_TIME":"', files["modificationTime"], '000"}')
    text = join(',"deletionVector":', _as_text(vector))
    return join(tags, pc.if_else(files["deletionVector"].is_valid(), text, ""), "}}")
