"""Small tables by five axes: the shape of the log, features, layout, properties, the version."""

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from deltactl.storage.store import Store
from tests.support.stores import MemoryStore
from tests.support.table_builder import Column, Row, TableBuilder, array_of, map_of, struct_of

Shape = Callable[[TableBuilder], None]


def _half(builder: TableBuilder) -> int:
    return builder.version // 2


def _compacted(builder: TableBuilder) -> None:
    last = builder.version
    builder.compact(1, last // 2)
    builder.compact(last // 2 + 1, last)


def _misleading_hint(builder: TableBuilder) -> None:
    builder.checkpoint(_half(builder))
    builder.hint(builder.version)


def _forgotten(builder: TableBuilder) -> None:
    builder.checkpoint(_half(builder))
    builder.forget_commits(_half(builder))
    builder.hint(_half(builder))


def _with_tail_compacted(builder: TableBuilder) -> None:
    builder.checkpoint(1)
    builder.compact(2, builder.version)


SHAPES: dict[str, Shape] = {
    "commits": lambda builder: None,
    "classic": lambda b: b.checkpoint(_half(b)),
    "classic-at-end": lambda b: b.checkpoint(),
    "multipart": lambda b: b.checkpoint(_half(b), "multipart", 3),
    "v2-json": lambda b: b.checkpoint(_half(b), "v2-json"),
    "v2-parquet": lambda b: b.checkpoint(_half(b), "v2-parquet"),
    "v2-inline": lambda b: b.checkpoint(_half(b), "v2-inline"),
    "v2-classic": lambda b: b.checkpoint(_half(b), "v2-classic"),
    "compacted": _compacted,
    "checkpoint-and-compacted": _with_tail_compacted,
    "misleading-hint": _misleading_hint,
    "cleaned-up": _forgotten,
}

FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "deletion-vectors": {"features": ["deletionVectors"]},
    "mapped-by-name": {"mapping": "name"},
    "mapped-by-id": {"mapping": "id", "features": ["deletionVectors"]},
    "row-tracking": {"features": ["rowTracking", "deletionVectors"]},
    "in-commit-timestamps": {"features": ["inCommitTimestamp"]},
    "type-widening": {"features": ["typeWidening"]},
    "v2-checkpoint": {"features": ["v2Checkpoint"]},
}

LAYOUTS: dict[str, tuple[str, ...]] = {
    "unpartitioned": (),
    "partitioned": ("p",),
    "partitioned-twice": ("p", "d"),
}

COLUMNS = (
    Column("id", "long"),
    Column("name", "string"),
    Column("x", "double"),
    Column("p", "string"),
    Column("d", "date"),
    Column("s", struct_of(Column("a", "integer"), Column("b", array_of("string")))),
    Column("m", map_of("string", "long")),
)
_PARTITIONS = ("a", None, "x/y =%", "ü ")


def sample_row(number: int, p: str | None = "a", day: int = 1) -> Row:
    """A row of `COLUMNS`; nulls come and go."""
    return {
        "id": number,
        "name": None if number % 5 == 0 else f"name {number}",
        "x": (None, math.nan, -0.0, number / 3)[number % 4],
        "p": p,
        "d": dt.date(2024, 1, day),
        "s": None if number % 7 == 0 else {"a": number, "b": [None, "b"][: number % 3]},
        "m": None if number % 6 == 0 else [(f"k{i}", i or None) for i in range(number % 4)],
    }


def build_sample(
    store: Store,
    *,
    shape: str = "commits",
    features: str = "plain",
    layout: str = "unpartitioned",
    properties: Mapping[str, str] | None = None,
) -> TableBuilder:
    """A small table of a dozen files with what the axes say, in nine versions or more."""
    key = features, layout, tuple(sorted((properties or {}).items()))
    if key not in _built:
        template = MemoryStore(f"memory://templates/{len(_built)}")
        _built[key] = _build_commits(template, features, layout, properties)
    builder = _built[key].copy_to(store)
    SHAPES[shape](builder)
    return builder


_built: dict[tuple[Any, ...], TableBuilder] = {}


def _build_commits(
    store: Store, features: str, layout: str, properties: Mapping[str, str] | None
) -> TableBuilder:
    options = FEATURES[features]
    builder = TableBuilder(
        store, COLUMNS, partition_by=LAYOUTS[layout], properties=properties, **options
    )
    paths: list[str] = []
    for batch in range(4):
        files = []
        for index, p in enumerate(_PARTITIONS[: 3 if batch % 2 else 4]):
            first = 100 * batch + 10 * index
            files.append([sample_row(first + i, p, 1 + index % 2) for i in range(8)])
        paths += builder.append(*files)
    if "deletionVectors" in options.get("features", ()):
        for path, kind in zip(paths, "upiu", strict=False):
            builder.delete_rows(path, [0, 3], kind)
        builder.delete_rows(paths[1], [5], "i")
    builder.remove(paths[4])
    columns = [*builder.columns, Column("added", "string")]
    if features == "type-widening":
        changes = {"delta.typeChanges": [{"fromType": "long", "toType": "decimal(20,0)"}]}
        columns[0] = replace(columns[0], type="decimal(20,0)", metadata=changes)
    if options.get("mapping"):
        columns = [replace(c, name="renamed") if c.name == "name" else c for c in columns]
        columns = [c for c in columns if c.name != "x"]
    builder.change_metadata(columns=columns)
    for index, p in enumerate(_PARTITIONS):
        row = {**sample_row(1000 + index, p), "added": "new", "renamed": "r"}
        builder.append([row, {**row, "id": 2000 + index, "added": None}])
    return builder
