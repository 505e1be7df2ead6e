"""Which tables may have vectors written, and where rows of inputs are in an output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from deltactl.log.writing.concurrent_deletes import may_write_vectors, shift_positions
from deltactl.protocol.actions import Metadata, Protocol


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 1 << 40))
def test_rows_are_found_where_they_went(old: set[int], more: set[int], first: int) -> None:
    live = [row for row in range(61) if row not in old]
    shifted = shift_positions(BitMap64(old), BitMap64(old | more), first)
    assert [live[place - first] for place in shifted] == sorted(more - old)


@pytest.mark.parametrize(
    ("further", "features", "may"),
    [
        ({}, {"deletionVectors"}, True),
        ({}, {"columnMapping"}, False),
        ({"delta.enableDeletionVectors": "false"}, {"deletionVectors"}, False),
        ({"delta.universalFormat.enabledFormats": "iceberg"}, {"deletionVectors"}, False),
        ({"delta.universalFormat.enabledFormats": " "}, {"deletionVectors"}, True),
        ({"delta.enableIcebergCompatV1": "true"}, {"deletionVectors"}, False),
        ({"delta.enableIcebergWriterCompatV1": "TRUE"}, {"deletionVectors"}, False),
        ({"delta.enableIcebergCompatV3": "false"}, {"deletionVectors"}, True),
    ],
)
def test_tables_that_may_have_vectors_written(
    further: dict[str, str], features: set[str], may: bool
) -> None:
    protocol = Protocol(3, 7, frozenset(features), frozenset(features))
    metadata = Metadata("id", "{}", (), {"delta.enableDeletionVectors": "true", **further})
    assert may_write_vectors(protocol, metadata) is may
