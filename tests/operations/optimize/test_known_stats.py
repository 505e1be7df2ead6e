"""Null counts of lists and maps are merged only if those of all inputs are known."""

from typing import Any

import pytest

from deltactl.operations.optimize.known_stats import merge_known_stats
from deltactl.protocol.stats import LeafStats
from deltactl.protocol.stats_columns import StatsLeaf

_LEAF = StatsLeaf(("s", "l"), "nested")


def _stats(rows: int | None, nulls: int | None, tight: bool | None = None) -> dict[str, Any]:
    return {"numRecords": rows, "nullCount": {"s": {"l": nulls}}, "tightBounds": tight}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([_stats(3, 2), _stats(4, 0, True)], 2),
        ([_stats(3, 2), None], None),
        ([_stats(3, 2), _stats(4, None)], None),
        ([_stats(3, 2), {"numRecords": 4, "nullCount": None, "tightBounds": None}], None),
        ([_stats(3, 2), _stats(None, 1)], None),
        ([_stats(3, 2), _stats(4, 5)], None),
        ([_stats(3, 2), _stats(4, -1)], None),
        ([_stats(3, 2), _stats(4, 1, False)], None),
        ([], None),
    ],
)
def test_null_counts(inputs: list[dict[str, Any] | None], expected: int | None) -> None:
    known = {} if expected is None else {_LEAF.path: LeafStats(expected)}
    assert merge_known_stats((_LEAF,), inputs) == known
