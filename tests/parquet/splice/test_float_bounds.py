"""Floats that are copied without being read: no reader skips the output where it read an input."""

import itertools
import json
import math
import operator
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.parquet.splice import float_bounds
from deltactl.table import Table
from tests.parquet.splice.files import WRITERS, make_delta_table, optimize

_NAN: Final = math.nan
_INF: Final = math.inf
Value = float | None
_SCHEMA: Final = pa.schema(
    [("x", pa.float64()), ("f", pa.float32()), ("s", pa.struct([("y", pa.float64())]))]
)
_LEAVES: Final = (("x",), ("f",), ("s", "y"))


def _rows(values: Sequence[Value]) -> pa.Table:
    return pa.table(
        {"x": values, "f": values, "s": [None if v is None else {"y": v} for v in values]}, _SCHEMA
    )


# -- writers and their statistics ---------------------------------------------------------------


def _pyarrow(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, row_group_size=3)


def _pyarrow_indexed(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, row_group_size=3, write_page_index=True, use_dictionary=False)


_WRITERS: Final = {
    "pyarrow": _pyarrow,
    "pyarrow with indexes": _pyarrow_indexed,
    "DuckDB": WRITERS["DuckDB"],
    "delta-rs": WRITERS["delta-rs"],
}


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


def test_a_rule_that_does_not_look_for_nan_loses_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof that the property finds it."""

    monkeypatch.setattr(float_bounds, "_may_have_nan", lambda source, chunk: False)
    rows = _rows([1.5, _NAN])
    inputs = [("pyarrow", rows, None)] * 2
    output = _optimized(tmp_path, inputs)
    lost = _find_lost([(rows, stats) for _, rows, stats in inputs], output)
    assert (("x",), ">", 2.0) in lost


def test_a_column_of_nulls_is_not_read(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "x": pa.array([None, None], pa.float64())})
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path in paths:
        pq.write_table(rows, path)
    make_delta_table(tmp_path, paths, rows.schema)
    optimize(tmp_path, "copy")
    assert json.loads(_added_stats(tmp_path))["nullCount"] == {"id": 0, "x": 4}
