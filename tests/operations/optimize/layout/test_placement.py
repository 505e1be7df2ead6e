"""Ranks, curves, tiles: pure functions over columns."""

import datetime as dt
import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.operations.optimize.layout.placement import (
    choose_slices,
    cut_tiles,
    encode_hilbert,
    encode_z_order,
    learn_placement,
)
from deltactl.operations.optimize.layout.plan import count_outputs, divide_clusters
from deltactl.operations.optimize.layout.ranks import MAX_RANK, ColumnRanks, divide_ranks
from deltactl.operations.optimize.layout.sample import choose_probes

LAYOUTS: Any = ["tile", "hilbert", "zorder", "linear"]


@pytest.mark.parametrize(
    "values",
    [
        [None, -5, 0, 3, 2**62],
        [None, -math.inf, -1.5, 0.0, 2.5, math.inf, math.nan],
        [None, "", "a", "ab", "b", "\u00e9", "\u6f22"],
        [None, b"", b"\x01", b"\x7f", b"\xff"],
        [None, False, True],
        [None, Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")],
        [None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 1, 1)],
        [None, dt.datetime(1901, 1, 1), dt.datetime(2024, 1, 1)],
    ],
)
def test_ranks_are_in_order_with_nulls_first(values: list[Any]) -> None:
    array = pa.array(values)
    ranks = ColumnRanks.of(array).rank(array)
    assert ranks[0] == 0
    assert (np.diff(ranks) > 0).all()


@given(st.lists(st.integers(-50, 50)), st.lists(st.integers(-50, 50), min_size=1))
def test_values_beside_the_sample_are_between(sample: list[int], values: list[int]) -> None:
    columns = ColumnRanks.of(pa.array(sample, pa.int64()))
    ranks = columns.rank(pa.array(values, pa.int64())).tolist()
    assert ranks == [
        2 * sum(s < v for s in set(sample)) + (2 if v in sample else 1) for v in values
    ]
    assert max(ranks) < MAX_RANK


@given(st.lists(st.none() | st.integers(0, 40)), st.integers(1, 3), st.booleans())
def test_ranges_follow_the_order_and_are_about_equal(
    sample: list[int | None], bits: int, is_double: bool
) -> None:
    array = pa.array(sample, pa.float64() if is_double else pa.int64())
    column = ColumnRanks.of(array)
    ranks = column.rank(array)
    found = divide_ranks(column, ranks, bits)[ranks].tolist()
    pairs = list(zip(sample, found, strict=True))
    present = sorted((value, number) for value, number in pairs if value is not None)
    numbers = [number for _, number in present]
    assert numbers == sorted(numbers)
    assert all(number == 0 for value, number in pairs if value is None)
    before = sample.count(None)
    for value, number in present:
        less = before + sum(other < value for other, _ in present)
        assert number == min((less << bits) // len(sample), (1 << bits) - 1)


@pytest.mark.parametrize(("columns", "bits"), [(1, 4), (2, 3), (3, 2), (4, 2)])
def test_a_hilbert_curve_visits_each_point_and_moves_by_one(columns: int, bits: int) -> None:
    points = np.array(list(itertools.product(range(1 << bits), repeat=columns)))
    codes = encode_hilbert(list(points.T), bits)
    assert sorted(codes.tolist()) == list(range(len(points)))
    steps = np.abs(np.diff(points[np.argsort(codes)], axis=0)).sum(axis=1)
    assert set(steps.tolist()) == {1}


def test_z_order_interleaves_bits_the_first_column_highest() -> None:
    points = np.array([[0b10, 0b01], [0b11, 0b00], [0b00, 0b11]])
    assert encode_z_order(list(points.T), 2).tolist() == [0b1001, 0b1010, 0b0101]


@pytest.mark.parametrize(
    ("files", "most", "slices"),
    [
        (100, [1000] * 4, [4, 3, 3, 3]),
        (600, [1000] * 2, [25, 24]),
        (7, [2, 1000], [2, 4]),
        (1, [5, 5], [1, 1]),
        (50, [1, 1000], [1, 50]),
        (8, [2, 2, 2], [2, 2, 2]),
        (100, [2, 2], [2, 2]),
    ],
)
def test_files_are_cut_into_slices_of_a_limited_size(
    files: float, most: list[int], slices: list[int]
) -> None:
    assert choose_slices(files, most) == slices


def test_strings_are_compared_by_at_least_as_many_characters_as_statistics_have() -> None:
    for letter in ("x", "\u6f22", "\U0001f600"):
        texts = [letter * 31 + "a", letter * 31 + "b", letter * 32 + "a", letter * 32 + "b"]
        array = pa.array(texts)
        ranks = ColumnRanks.of(array).rank(array).tolist()
        assert len({ranks[0], ranks[1], ranks[2]}) == 3
        assert letter != "x" or ranks[2] == ranks[3]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_strings_with_equal_beginnings_are_shared_out(layout: Any) -> None:
    """No query skips files by them, but the files are of equal size, and others skip."""
    numbers = pa.array(np.random.default_rng(3).permutation(4000))
    columns = [pa.array([f"{'x' * 40}{n}" for n in range(4000)]), numbers]
    placement = learn_placement(layout, columns, 8)
    destinations = placement.assign(columns)
    assert np.bincount(destinations).tolist() == [500] * 8
    widths = [np.ptp(np.asarray(numbers)[destinations == n]) for n in range(8)]
    assert max(widths) < 4000 / 7


def test_tiles_hold_equal_row_counts() -> None:
    ranks = np.random.default_rng(1).integers(0, MAX_RANK, (100_000, 4))
    tiles = cut_tiles(ranks, 100, MAX_RANK)
    counts = np.bincount(tiles.assign(ranks), minlength=tiles.num_destinations)
    assert len(counts) == 108
    assert counts.min() > 0.95 * counts.max()


def test_a_heavy_value_has_files_of_its_own() -> None:
    generator = np.random.default_rng(1)
    ranks = generator.integers(0, 1000, (10_000, 1)) * 2
    ranks[generator.permutation(10_000)[:5_000]] = 1001
    tiles = cut_tiles(ranks, 10, MAX_RANK)
    destinations = tiles.assign(ranks)
    heavy = set(destinations[ranks[:, 0] == 1001].tolist())
    others = set(destinations[ranks[:, 0] != 1001].tolist())
    assert len(heavy) == 5
    assert not heavy & others


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "columns",
    [
        [pa.array([7] * 500)],
        [pa.array([None] * 500, pa.int64()), pa.array(range(500))],
        [pa.array(["x", None] * 250), pa.array([1.0] * 500)],
        [pa.array([], pa.string())],
        [pa.array([True, False] * 250)],
    ],
)
def test_degenerate_columns(layout: Any, columns: list[pa.Array]) -> None:
    placement = learn_placement(layout, columns, 10)
    destinations = placement.assign(columns)
    assert len(destinations) == len(columns[0])
    if len(destinations):
        assert 0 <= destinations.min() <= destinations.max() < placement.num_destinations
        assert np.bincount(destinations).max() <= 120
    _, places = placement.place(columns)
    assert sorted(placement.order(columns, places).tolist()) == list(range(len(columns[0])))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(
    sample=st.lists(st.none() | st.text(max_size=3)),
    rows=st.lists(st.none() | st.text(max_size=3)),
    files=st.integers(1, 9),
)
def test_rows_unlike_the_sample_have_a_destination(
    layout: Any, sample: list[str | None], rows: list[str | None], files: int
) -> None:
    def twice(values: list[str | None]) -> list[pa.Array]:
        return [pa.array(values, pa.string()), pa.array(values[::-1], pa.string())]

    placement = learn_placement(layout, twice(sample), files)
    destinations = placement.assign(twice(rows), 3).tolist()
    assert all(0 <= number < placement.num_destinations for number in destinations)
    _, places = placement.place(twice(rows))
    assert sorted(placement.order(twice(rows), places).tolist()) == list(range(len(rows)))


@pytest.mark.parametrize("layout", ["tile", "hilbert", "zorder"])
def test_boxes_are_small_in_all_columns(layout: Any) -> None:
    generator = np.random.default_rng(2)
    columns = [pa.array(generator.integers(0, 10**9, 50_000)) for _ in range(2)]
    placement = learn_placement(layout, columns, 16)
    destinations = placement.assign(columns)
    for column in columns:
        values = np.asarray(column)
        widths = [
            np.ptp(values[destinations == number]) / 10**9
            for number in range(placement.num_destinations)
        ]
        assert np.mean(widths) < 0.55


def test_probes_are_spread_over_the_bytes() -> None:
    probes = dict(choose_probes([1, 98, 0, 1], 100))
    assert 90 < len(probes[1]) <= 100
    assert all(0 <= place < 1 for places in probes.values() for place in places)
    assert probes[1] == sorted(probes[1])


def test_clusters_of_a_partition() -> None:
    sizes = np.array([40, 40, 40, 40])
    assert divide_clusters(sizes, 1000).tolist() == [0, 0, 0, 0]
    assert divide_clusters(sizes, 80).tolist() == [0, 0, 1, 1]
    assert divide_clusters(np.array([0, 0])).tolist() == [0, 0]
    assert count_outputs(np.array([0, 10, 149, 150, 1000]), 100).tolist() == [1, 1, 1, 2, 10]
