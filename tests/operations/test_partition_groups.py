"""Numbering partitions by a table of codes, and by sorting where the table would be too large."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.operations.partition_groups import group_partitions
from deltactl.protocol.partitions import build_map
from deltactl.protocol.schema import Field, PrimitiveType

VALUES = st.lists(st.tuples(*[st.sampled_from(["", "a", "b", "c", "d e", None])] * 3), max_size=30)
FIELDS = [Field(name, PrimitiveType("string"), True) for name in "xyz"]


@given(VALUES)
def test_groups_are_those_of_the_texts_in_the_order_they_first_come(
    rows: list[tuple[str | None, ...]],
) -> None:
    columns = {
        f.name: pa.array([row[at] for row in rows], pa.string()) for at, f in enumerate(FIELDS)
    }
    values = pa.chunked_array([build_map(columns, num_rows=len(rows))])
    groups = group_partitions(values, FIELDS, by_text=True)
    keys = [tuple(value or None for value in row) for row in rows]
    firsts = [keys.index(key) for key in dict.fromkeys(keys)]
    assert sorted(groups.first_rows.tolist()) == firsts
    assert [keys[groups.first_rows[group]] for group in groups.ids] == keys
    assert groups.labels() == [groups.label(group) for group in range(groups.num_groups)]


def test_a_sparse_numbering_is_the_same_as_a_dense_one() -> None:
    from deltactl.operations.partition_groups import _number_groups

    codes = np.array([5, 3, 5, 9, 0, 3])
    for spread in (1, 1_000_000):
        ids, firsts = _number_groups(codes * spread)
        assert (ids.tolist(), firsts.tolist()) == ([2, 1, 2, 3, 0, 1], [4, 1, 0, 3])


@pytest.mark.parametrize(
    ("kind", "groups"), [("timestamp", [0, 0, 1, 1, 2, 3]), ("timestamp_ntz", [0, 0, 0, 0, 1, 2])]
)
def test_a_time_with_a_zone_is_not_that_without(kind: str, groups: list[int]) -> None:
    """A session of Spark takes its own zone for a text that has none."""
    texts = [
        "2024-01-01 00:00:00",
        "2024-01-01 00:00:00.0",
        "2024-01-01T00:00:00.000000Z",
        "2024-01-01T00:00:00Z",
        "2024-01-02 00:00:00",
        None,
    ]
    fields = [Field("t", PrimitiveType(kind), True)]
    column = {"t": pa.array(texts, pa.string())}
    values = pa.chunked_array([build_map(column, num_rows=len(texts))])
    found = group_partitions(values, fields).ids.tolist()
    firsts = list(dict.fromkeys(found))
    assert [firsts.index(group) for group in found] == groups
