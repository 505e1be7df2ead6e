"""Rows are taken as Arrow takes them, strings of one length included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltactl.engine.take_rows import _fix_width, take_in_parts, take_rows

texts = st.one_of(
    st.lists(st.text(st.sampled_from("abc"), min_size=3, max_size=3), max_size=20),
    st.lists(st.sampled_from(["", "a", "bc", "€"]), max_size=20),
    st.lists(st.one_of(st.none(), st.just("abcd")), max_size=20),
    st.lists(st.just(""), max_size=20),
)


@given(texts, st.sampled_from([pa.string(), pa.binary(), pa.large_string()]), st.data())
def test_rows_are_those_that_arrow_takes(
    values: list[str | None], kind: pa.DataType, data: st.DataObject
) -> None:
    columns = [pa.array(values, pa.string()).cast(kind), pa.array(range(len(values)))]
    schema = pa.schema([pa.field("t", kind, metadata={"id": "1"}), ("n", pa.int64())])
    start = data.draw(st.integers(0, len(values)))
    batch = pa.RecordBatch.from_arrays(columns, schema=schema).slice(start)
    numbers = data.draw(st.permutations(range(batch.num_rows)))
    order = np.array(numbers, np.int64)
    wanted = batch.take(pa.array(order))
    taken = take_rows(batch, order)
    taken.validate(full=True)
    assert taken.equals(wanted)
    assert taken.schema.equals(batch.schema, check_metadata=True)
    parts = list(take_in_parts(batch, order, 3))
    assert all(part.num_rows <= 3 for part in parts)
    assert pa.Table.from_batches(parts, schema).equals(pa.Table.from_batches([wanted]))


def test_strings_of_one_length_have_a_fixed_width() -> None:
    assert _fix_width(pa.array(["ab", "cd", "ef"]).slice(1)).type == pa.binary(2)
    assert _fix_width(pa.array(["a", "bcd", "ef"])).type == pa.string()
    assert _fix_width(pa.array(["ab", None])).type == pa.string()
