import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.operations.skipping.lookups import (
    LEAST_WIDTH,
    ROUNDS,
    FileBounds,
    Lookups,
    RewrittenSets,
    bytes_matrix,
)

Bounds = tuple[int, int] | None

FILES = st.lists(
    st.tuples(
        st.none() | st.tuples(st.integers(-50, 50), st.integers(0, 40)),
        st.integers(1, 1000),
        st.booleans(),
    ),
    max_size=12,
)


def bounds_of(
    files: list[tuple[Any, Any]], kind: pa.DataType, rows: list[int] | None = None
) -> FileBounds:
    lower, upper = (pa.array([pair[side] for pair in files], kind) for side in (0, 1))
    counts = np.array(rows or [1] * len(files), np.float64)
    return FileBounds(lower, upper, counts, np.ones(len(files), np.bool_))


def expect_naively(files: list[tuple[Bounds, int, bool]], *, whole: bool) -> float | None:
    """The definition of the documentation, file by file and cell by cell."""
    known = [(pair, rows) for pair, rows, has_values in files if pair and has_values]
    points = sorted({value for pair, _ in known for value in pair})
    cells: list[tuple[float, float]] = []
    for index, point in enumerate(points):
        if index:
            cells.append((points[index - 1] + 0.25, point - 0.25))
        cells.append((point, point))
    widths = [
        (1.0 if whole else 0.0) if low == high else high - low + 0.5 - (1.0 if whole else 0.0)
        for low, high in cells
    ]
    widest = max(widths, default=0.0)
    mass = [max(w, widest * LEAST_WIDTH) if widest else 1.0 for w in widths]
    if not cells:
        return None

    def inside(pair: tuple[int, int]) -> list[int]:
        return [n for n, (low, high) in enumerate(cells) if pair[0] <= low and high <= pair[1]]

    for _ in range(ROUNDS):
        spread = [0.0] * len(cells)
        for pair, rows in known:
            members = inside(pair)
            total = sum(mass[n] for n in members)
            for n in members:
                spread[n] += rows * mass[n] / total
        mass = spread
    unknown = sum(1 for pair, _, has_values in files if has_values and not pair)
    opened = [unknown + sum(n in inside(pair) for pair, _ in known) for n in range(len(cells))]
    mean = sum(m * o for m, o in zip(mass, opened, strict=True)) / sum(mass)
    return 1 - mean / len(files)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.decimal128(38, 2)])
@given(FILES)
def test_the_expectation_is_that_of_the_definition(
    kind: pa.DataType, files: list[tuple[Any, int, bool]]
) -> None:
    pairs = [(f[0] and (f[0][0], f[0][0] + f[0][1]), f[1], f[2]) for f in files]
    lower, upper = (pa.array([p[0] and p[0][side] for p in pairs], pa.int32()) for side in (0, 1))
    bounds = FileBounds(
        lower.cast(kind),
        upper.cast(kind),
        np.array([p[1] for p in pairs], np.float64),
        np.array([p[2] for p in pairs], np.bool_),
    )
    whole = pa.types.is_integer(kind) or pa.types.is_date(kind)
    found, wanted = Lookups.of(bounds).expect_skipped(), expect_naively(pairs, whole=whole)
    assert (found is None) == (wanted is None)
    if found is not None:
        assert found == pytest.approx(wanted, abs=1e-6)


DAY = dt.date(2024, 1, 1)


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (pa.int8(), (0, 63), (64, 127)),
        (pa.float32(), (0.5, 1.0), (2.0, 2.5)),
        (pa.float64(), (-float("inf"), -1e308), (1e308, float("inf"))),
        (pa.bool_(), (False, False), (True, True)),
        (pa.date32(), (DAY, DAY), (DAY + dt.timedelta(1), DAY + dt.timedelta(1))),
        (pa.timestamp("us", "UTC"), (0, 5), (6, 9)),
        (pa.timestamp("us"), (0, 5), (6, 9)),
        (pa.decimal128(38, 2), (Decimal("1e34"), Decimal("1e34")), (Decimal("2e34"),) * 2),
        (pa.string(), ("a" * 32, "a" * 32 + "\x7f"), ("b", "b")),
        (pa.string(), ("", "\ud7ff"), ("\ue000", "\U0010ffff")),
    ],
)
def test_files_apart_in_any_type(kind: pa.DataType, first: Any, second: Any) -> None:
    assert Lookups.of(bounds_of([first, second], kind)).expect_skipped() == pytest.approx(0.5)
    assert Lookups.of(bounds_of([first, first], kind)).expect_skipped() == pytest.approx(0.0)


def test_a_file_without_values_is_skipped_and_one_without_bounds_is_not() -> None:
    bounds = bounds_of([(1, 2), (None, None), (None, None), (5, 4)], pa.int64())
    bounds.has_values[1] = False
    column = Lookups.of(bounds)
    assert column.is_always_read.tolist() == [False, False, True, True]
    assert column.expect_skipped() == pytest.approx(0.25)


def test_nothing_is_expected_of_no_bounds() -> None:
    assert Lookups.of(bounds_of([(None, None)], pa.int64())).expect_skipped() is None
    assert Lookups.of(bounds_of([], pa.string())).expect_skipped() is None


def test_rows_count_not_files() -> None:
    files = [(0, 9), (0, 9), (20, 29)]
    column = Lookups.of(bounds_of(files, pa.int64(), [1, 1, 98]))
    assert column.expect_skipped() == pytest.approx(1 - (0.02 * 2 + 0.98) / 3)


@pytest.mark.parametrize("shape", ["even", "skewed", "text"])
def test_rows_in_any_order_and_sorted_ones(shape: str) -> None:
    random = np.random.default_rng(5)
    values: Any = random.random(40_000) if shape == "even" else random.lognormal(0, 1.5, 40_000)
    if shape == "text":
        values = np.array([f"user-{value:014.6f}" for value in values])
    for ordered, wanted in ((values, 0.0), (np.sort(values), 0.98)):
        parts = np.split(ordered, 50)
        pairs = [(min(part.tolist()), max(part.tolist())) for part in parts]
        bounds = bounds_of(pairs, pa.array(values).type)
        assert Lookups.of(bounds).expect_skipped() == pytest.approx(wanted, abs=0.05)


def test_sets_of_files_that_are_rewritten() -> None:
    # Two partitions of four files each over all values, and one file that stays, without bounds.
    files: list[Any] = [(0, 99)] * 4 + [(100, 199)] * 4 + [(None, None)]
    column = Lookups.of(bounds_of(files, pa.int64()))
    sets = RewrittenSets(np.array([0] * 4 + [1] * 4 + [-1]), np.array([10, 10]))
    assert column.expect_skipped() == pytest.approx(1 - 5 / 9)
    # A lookup opens one of the ten in one partition, and the file without bounds.
    opened = np.array([0.1, 0.1])
    assert sets.expect_skipped(column, opened) == pytest.approx(1 - 2 / 21)
    assert sets.count_values(column).tolist() == [100.0, 100.0]


def test_a_set_without_bounds_may_have_any_value() -> None:
    column = Lookups.of(bounds_of([(0, 9), (None, None)], pa.int64()))
    sets = RewrittenSets(np.array([0, 1]), np.array([1, 4]))
    assert sets.expect_skipped(column, np.array([1.0, 0.5])) == pytest.approx(1 - 3 / 5)


def test_bytes_of_short_strings_are_padded_with_zeros() -> None:
    found = bytes_matrix(pa.array([b"abc", b"", b"abcdefg"])[1:], 2, 3)
    assert found.tolist() == [[0, 0, 0], [99, 100, 101]]
