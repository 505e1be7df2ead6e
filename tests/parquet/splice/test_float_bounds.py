"""Floats that are copied without being read: no reader skips the output where it read an input."""

from __future__ import annotations

import itertools
import json
import math
import operator
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.operations.optimize import copy_groups
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.parquet.format import ColumnChunk, ColumnMetaData, Statistics
from deltactl.parquet.splice.copy_conditions import GroupChoice
from deltactl.parquet.splice.source import Source
from deltactl.parquet.stored_columns import LeafPath
from deltactl.table import Table
from tests.parquet.splice.files import (
    chunk_of,
    find_output,
    make_delta_table,
    optimize,
    read_footer,
)
from tests.support.stores import MemoryStore
from tests.support.table_builder import CHECKPOINT_SCHEMA, Column, TableBuilder

_NAN: Final = math.nan
_INF: Final = math.inf
Value = float | None
_SCHEMA: Final = pa.schema(
    [("x", pa.float64()), ("f", pa.float32()), ("s", pa.struct([("y", pa.float64())]))]
)
_LEAVES: Final = (("x",), ("f",), ("s", "y"))


def _rows(values: Sequence[Value]) -> pa.Table:
    return pa.table(
        {"x": values, "f": values, "s": [None if v is None else {"y": v} for v in values]},
        _SCHEMA,
    )


# -- writers and their statistics ---------------------------------------------------------------


def _pyarrow(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, row_group_size=3)


def _pyarrow_indexed(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, row_group_size=3, write_page_index=True, use_dictionary=False)


def _duckdb(path: Path, rows: pa.Table) -> None:
    duckdb.from_arrow(rows).write_parquet(str(path))


def _delta_rs(path: Path, rows: pa.Table) -> None:
    folder = path.parent / f"{path.stem}-delta"
    write_deltalake(folder, rows)
    (written,) = folder.glob("*.parquet")
    written.rename(path)


_WRITERS: Final = {f.__name__: f for f in (_pyarrow, _pyarrow_indexed, _duckdb, _delta_rs)}


def _stats(rows: pa.Table, form: str) -> str | None:
    """Statistics as some writer may have them."""
    if form == "none":
        return None
    found: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {},
                             "nullCount": {}}  # fmt: skip
    for path in _LEAVES:
        values = _values(rows, path)
        known = [v for v in values if v is not None and not math.isnan(v)]
        nans = len(known) < sum(v is not None for v in values)
        lower, upper = (min(known), max(known)) if known else (None, None)
        if form == "NaN is the maximum" and nans:
            upper = _NAN
        if form == "wide" and known:
            lower, upper = min(known) - 1, max(known) + 1
        if form == "narrow" and known:
            lower = upper = sorted(known)[len(known) // 2]
        if form == "without maxima":
            upper = None
        _put(found["minValues"], path, lower)
        _put(found["maxValues"], path, upper)
        _put(found["nullCount"], path, values.count(None))
    if form == "not tight":
        found["tightBounds"] = False
    if form == "without counts":
        del found["nullCount"], found["numRecords"]
    return json.dumps(found)


_FORMS: Final = (
    "exact", "none", "NaN is the maximum", "wide", "narrow", "without maxima", "not tight",
    "without counts",
)  # fmt: skip


def _put(node: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        node = node.setdefault(name, {})
    if isinstance(value, float) and not math.isfinite(value):
        value = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is not None:
        node[path[-1]] = value


def _values(rows: pa.Table, path: tuple[str, ...]) -> list[Value]:
    column = rows[path[0]]
    values: list[Value] = [
        row if len(path) == 1 or row is None else row[path[1]] for row in column.to_pylist()
    ]
    return values


# -- a reader that skips by statistics ----------------------------------------------------------

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
}  # fmt: skip


def _is_skipped(stats: str | None, path: tuple[str, ...], sign: str, value: float) -> bool:
    """Whether a reader skips a file for ``column <sign> value``; zeros are equal, NaN largest."""
    node = json.loads(stats or "{}")
    lower, upper = (_find(node.get(name), path) for name in ("minValues", "maxValues"))
    at_least = lower is not None and _order(value) < _order(lower)
    at_most = upper is not None and _order(upper) < _order(value)
    match sign:
        case ">":
            return upper is not None and not _order(value) < _order(upper)
        case ">=":
            return at_most
        case "<":
            return lower is not None and not _order(lower) < _order(value)
        case "<=":
            return at_least
        case _:
            return at_least or at_most


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value + 0.0)


def _find(node: Any, path: tuple[str, ...]) -> float | None:
    for name in path:
        node = (node or {}).get(name)
    return None if node is None else float(node)


def _matches(value: Value, sign: str, wanted: float) -> bool:
    """Whether a row matches for some reader: with NaN as the largest value, or by IEEE 754."""
    if value is None:
        return False
    by_order = _OPERATORS[sign](_order(value), _order(wanted))  # type: ignore[arg-type]
    return by_order or _OPERATORS[sign](value, wanted)


def _find_lost(
    inputs: Sequence[tuple[pa.Table, str | None]], output: str | None
) -> list[tuple[Any, ...]]:
    """Lookups by which a reader skips the output, but did not skip an input with such a row."""
    wanted = {v for rows, _ in inputs for v in _values(rows, ("x",)) if v is not None}
    wanted |= {v + step for v in wanted for step in (-0.5, 0.5)} | {_NAN, _INF}
    return [
        (path, sign, value)
        for path, sign, value in itertools.product(_LEAVES, _OPERATORS, wanted)
        if _is_skipped(output, path, sign, value)
        and any(
            not _is_skipped(stats, path, sign, value)
            and any(_matches(v, sign, value) for v in _values(rows, path))
            for rows, stats in inputs
        )
    ]


def _added_stats(folder: Path) -> str:
    (text,) = Table(str(folder)).snapshot().files["stats"].to_pylist()
    return str(text)


def _optimized(folder: Path, inputs: Sequence[tuple[str, pa.Table, str | None]]) -> str:
    """Write files of a table and optimize it; return the statistics of the output."""
    paths = [folder / f"{number}.parquet" for number in range(len(inputs))]
    for path, (writer, rows, _) in zip(paths, inputs, strict=True):
        _WRITERS[writer](path, rows)
    make_delta_table(folder, paths, _SCHEMA, [stats for *_, stats in inputs])
    optimize(folder, "copy")
    return _added_stats(folder)


_VALUES: Final = st.lists(
    st.sampled_from([None, _NAN, 0.0, -0.0, _INF, -_INF, 1.5, 2.0, -3.25, 7.0]),
    min_size=1,
    max_size=7,
)
_INPUTS: Final = st.lists(
    st.tuples(st.sampled_from(sorted(_WRITERS)), _VALUES, st.sampled_from(_FORMS)),
    min_size=2,
    max_size=3,
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(_INPUTS)
def test_a_lookup_that_reads_an_input_reads_the_output(
    drawn: list[tuple[str, list[Value], str]],
) -> None:
    inputs = [
        (writer, _rows(values), _stats(_rows(values), form)) for writer, values, form in drawn
    ]
    inputs *= 2  # a file that outweighs all others is left alone
    with tempfile.TemporaryDirectory() as folder:
        output = _optimized(Path(folder), inputs)
    assert _find_lost([(rows, stats) for _, rows, stats in inputs], output) == []
    # Bounds are never looser than by encoding: those of all values, if there are any.
    for path in _LEAVES:
        known = [v for _, rows, _ in inputs for v in _values(rows, path) if v is not None]
        known = [v for v in known if not math.isnan(v)]
        lower = _find(json.loads(output)["minValues"], path)
        upper = _find(json.loads(output)["maxValues"], path)
        assert lower is None or lower == min(known)
        assert upper is None or upper == max(known)
        if not any(math.isnan(v) for _, rows, _ in inputs for v in _values(rows, path) if v):
            assert (lower is None) == (not known)


def test_a_rule_that_does_not_ask_for_bounds_in_the_log_loses_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof that the property finds it."""

    def find_all(
        source: Source, choices: Sequence[GroupChoice], logged: object
    ) -> frozenset[LeafPath]:
        return frozenset(leaf for column in source.columns.values() for leaf in column.leaves)

    monkeypatch.setattr(copy_groups, "find_skipped_by", find_all)
    rows = _rows([1.5, _NAN])
    inputs = [("_pyarrow", rows, None)] * 2
    output = _optimized(tmp_path, inputs)
    lost = _find_lost([(rows, stats) for _, rows, stats in inputs], output)
    assert (("x",), ">", 2.0) in lost


# -- which files are read -----------------------------------------------------------------------


def _are_footer_bounds_kept(path: Path, group: int = 0) -> bool:
    """Whether the NaN in the column was not seen: then its rows were not read."""
    metadata = chunk_of(read_footer(path), group, 0).struct(ColumnChunk.META_DATA)
    bound = metadata.struct(ColumnMetaData.STATISTICS).get(Statistics.MAX_VALUE)
    return bound is not None


_EXACT: Final[Mapping[str, Any]] = {
    "numRecords": 4, "minValues": {"x": -1.5}, "maxValues": {"x": 7}, "nullCount": {"x": 1},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({}, True),
        ({"maxValues": {"x": 7.0}}, True),
        ({"tightBounds": True}, True),
        ({"maxValues": {"x": 5.0}}, True),  # too narrow: the output gets those of the footer
        ({"tightBounds": False}, False),
        ({"minValues": {}}, False),
        ({"maxValues": {}}, False),
        ({"maxValues": {"x": None}}, False),
        ({"maxValues": {"x": "NaN"}}, False),
        ({"minValues": {"x": "-Infinity"}}, False),
        ({"maxValues": {"x": "seven"}}, False),
        ({"maxValues": {"x": "7.0"}}, False),
        ({"maxValues": {"x": True}}, False),
        ({"maxValues": {"x": 7.5}}, False),  # a reader found rows in 7.0 .. 7.5
        ({"minValues": {"x": -2}}, False),
        ({"maxValues": {"X": 7.0}}, False),
        ({"numRecords": 5}, False),
        ({"numRecords": None}, False),
        ({"nullCount": {"x": 0}}, False),
        ({"nullCount": {}}, False),
        ({"minValues": None}, False),
        ({"maxValues": 7.0}, False),
    ],
)
def test_bounds_are_reused_if_they_are_in_the_log(
    tmp_path: Path, changes: Mapping[str, Any], is_kept: bool
) -> None:
    rows = pa.table({"x": [-1.5, _NAN, None, 7.0], "id": range(4)})
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path in paths:
        pq.write_table(rows, path)
    stats = json.dumps({**_EXACT, **changes})
    make_delta_table(tmp_path, paths, rows.schema, [stats] * 2)
    _ensure_bounds(tmp_path, is_kept)


def _ensure_bounds(folder: Path, is_kept: bool) -> None:
    """Optimize by copies; log and footer both keep the bounds of ``x``, or both leave them out."""
    report = optimize(folder, "copy")
    assert report.rewritten is not None
    assert (report.rewritten.groups_copied, report.rewritten.reasons) == (2, {})
    found = json.loads(_added_stats(folder))
    bounds = (found["minValues"].get("x"), found["maxValues"].get("x"))
    assert bounds == ((-1.5, 7.0) if is_kept else (None, None))
    assert _are_footer_bounds_kept(find_output(folder)) == is_kept


_PARSED: Final[Mapping[str, Any]] = {
    "numRecords": 4, "minValues": {"x": -1.5}, "maxValues": {"x": 7.0}, "nullCount": {"x": 1},
}  # fmt: skip


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({}, True),
        ({"tightBounds": True}, True),
        ({"maxValues": {"x": 5.0}}, True),  # too narrow: the output gets those of the footer
        ({"tightBounds": False}, False),
        ({"minValues": None}, False),
        ({"maxValues": {"x": None}}, False),
        ({"maxValues": {"x": _NAN}}, False),
        ({"minValues": {"x": -_INF}}, False),
        ({"maxValues": {"x": 7.5}}, False),
        ({"numRecords": None}, False),
        ({"numRecords": 5}, False),
        ({"nullCount": None}, False),
        ({"nullCount": {"x": 0}}, False),
    ],
)
def test_bounds_are_reused_if_a_checkpoint_has_them_as_structs_only(
    tmp_path: Path, changes: Mapping[str, Any], is_kept: bool, kind: pa.DataType
) -> None:
    rows = pa.table({"x": pa.array([-1.5, _NAN, None, 7.0], kind), "id": range(4)})
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path in paths:
        pq.write_table(rows, path)
    make_delta_table(tmp_path, paths, rows.schema)
    _write_parsed_checkpoint(tmp_path, {**_PARSED, **changes}, kind)
    assert json.loads(Table(str(tmp_path)).snapshot().files["stats"][0].as_py())
    _ensure_bounds(tmp_path, is_kept)


def _write_parsed_checkpoint(folder: Path, stats: Mapping[str, Any], kind: pa.DataType) -> None:
    """Write a checkpoint of version 0, with these statistics of each file as a struct only."""
    log = folder / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    for line in lines:
        if "add" in line:
            assert "stats" not in line["add"]
            line["add"] = {**line["add"], "partitionValues": [], "stats_parsed": stats}
        if "metaData" in line:
            line["metaData"] |= {"configuration": []}
            line["metaData"]["format"] = {"provider": "parquet", "options": []}
    bounds = pa.struct([("x", kind)])
    parsed = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", pa.struct([("x", pa.int64())])),
            ("tightBounds", pa.bool_()),
        ]
    )
    add = [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats_parsed", parsed),
    ]
    schema = pa.schema(
        [
            CHECKPOINT_SCHEMA.field("protocol"),
            CHECKPOINT_SCHEMA.field("metaData"),
            ("add", pa.struct(add)),
        ]
    )
    rows = pa.Table.from_pylist(lines, schema)
    pq.write_table(rows, log / f"{0:020d}.checkpoint.parquet")


@pytest.mark.parametrize("lower", [0.0, -0.0])
def test_both_zeros_are_in_bounds_of_zero(tmp_path: Path, lower: float) -> None:
    rows = pa.table({"x": [0.0, _NAN]})
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    stats = {"numRecords": 2, "minValues": {"x": lower}, "maxValues": {"x": -lower},
             "nullCount": {"x": 0}}  # fmt: skip
    for path in paths:
        pq.write_table(rows, path)
    make_delta_table(tmp_path, paths, rows.schema, [json.dumps(stats)] * 2)
    optimize(tmp_path, "copy")
    assert '"minValues":{"x":-0.0},"maxValues":{"x":0.0}' in _added_stats(tmp_path)


@pytest.mark.parametrize(
    ("lower", "upper", "is_kept"),
    [
        (pa.scalar(1.1, pa.float32()).as_py(), pa.scalar(2.2, pa.float32()).as_py(), True),
        (1.1, 2.2, False),  # as doubles, these are outside of 1.1f and 2.2f
    ],
)
def test_bounds_of_32_bits_are_compared_as_doubles(
    tmp_path: Path, lower: float, upper: float, is_kept: bool
) -> None:
    rows = pa.table({"x": pa.array([1.1, _NAN, 2.2], pa.float32())})
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    stats = {"numRecords": 3, "minValues": {"x": lower}, "maxValues": {"x": upper},
             "nullCount": {"x": 0}}  # fmt: skip
    for path in paths:
        pq.write_table(rows, path)
    make_delta_table(tmp_path, paths, rows.schema, [json.dumps(stats)] * 2)
    optimize(tmp_path, "copy")
    assert _are_footer_bounds_kept(find_output(tmp_path)) == is_kept


def test_a_file_of_which_a_row_group_is_encoded_is_read(tmp_path: Path) -> None:
    """The bounds in the log are of all of its rows: another row group may have had them."""
    schema = pa.schema([("x", pa.float64()), ("text", pa.string())])
    large = pa.table(
        {"x": [1.0, _NAN] * 500, "text": [f"{n} {n * n}" for n in range(1000)]}, schema
    )
    small = pa.table({"x": [2.0], "text": ["small"]}, schema)
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    stats = []
    for path, groups in zip(paths, ([large, small], [large], [large]), strict=True):
        with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for group in groups:
                writer.write_table(group)
        found = {"numRecords": sum(map(len, groups)), "minValues": {"x": 1.0},
                 "maxValues": {"x": float(len(groups))}, "nullCount": {"x": 0}}  # fmt: skip
        stats.append(json.dumps(found))
    make_delta_table(tmp_path, paths, schema, stats)
    report = optimize(tmp_path, "auto", min_row_group_bytes=5000)
    assert report.rewritten is not None
    assert (report.rewritten.groups_copied, report.rewritten.groups_encoded) == (3, 1)
    assert "x" not in json.loads(_added_stats(tmp_path))["maxValues"]
    made = find_output(tmp_path)
    kept = [_are_footer_bounds_kept(made, group=group) for group in (0, 2, 3)]
    assert kept == [False, True, True]


def test_a_file_with_deleted_rows_is_read() -> None:
    """Its bounds are of deleted rows too: a reader may have found NaN by them."""
    builder = TableBuilder(
        MemoryStore("memory://float-bounds-1/t"),
        [Column("id"), Column("x", "double")],
        features=["deletionVectors"],
    )
    stats = {"numRecords": 4, "minValues": {"x": 1.0}, "maxValues": {"x": 9.0},
             "nullCount": {"x": 0}, "tightBounds": True}  # fmt: skip
    rows = [{"id": n, "x": x} for n, x in enumerate([1.0, _NAN, 9.0, 2.0])]
    paths = builder.append(rows, rows, stats=json.dumps(stats), row_group_rows=2)
    builder.delete_rows(paths[0], [2, 3])
    table = Table(builder.store.uri, store=builder.store)
    report = table.optimize(OptimizeOptions(rewrite="copy", verify="full"))
    assert report.rewritten is not None
    assert report.rewritten.groups_copied == 3
    (text,) = table.snapshot().files["stats"].to_pylist()
    assert "x" not in json.loads(text)["maxValues"]


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_statistics_have_physical_names(mapping: str) -> None:
    builder = TableBuilder(
        MemoryStore(f"memory://float-bounds-{mapping}/t"),
        [Column("id"), Column("x", "double")],
        mapping=mapping,
    )
    physical = builder.columns[1].physical
    assert physical != "x"
    stats = {"numRecords": 2, "minValues": {physical: 1.0}, "maxValues": {physical: 1.0},
             "nullCount": {physical: 0}}  # fmt: skip
    rows = [{"id": 0, "x": 1.0}, {"id": 1, "x": _NAN}]
    builder.append(rows, rows, stats=json.dumps(stats))
    table = Table(builder.store.uri, store=builder.store)
    table.optimize(OptimizeOptions(rewrite="copy", verify="full"))
    (text,) = table.snapshot().files["stats"].to_pylist()
    assert json.loads(text)["maxValues"][physical] == 1.0


def test_a_column_of_nulls_is_not_read(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "x": pa.array([None, None], pa.float64())})
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path in paths:
        pq.write_table(rows, path)
    make_delta_table(tmp_path, paths, rows.schema)
    optimize(tmp_path, "copy")
    assert json.loads(_added_stats(tmp_path))["nullCount"] == {"id": 0, "x": 4}
