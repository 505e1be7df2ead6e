"""Walks over nested types see the leaves that Parquet stores, in its order."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from deltactl.parquet.nested import walk_arrays, walk_leaves, walk_types
from deltactl.protocol.actions import Metadata
from tests.parquet.tables import tables

MAPS = pa.map_(pa.string(), pa.list_(pa.struct({"x": pa.int8(), "y": pa.float32()})))


@settings(max_examples=40)
@given(tables())
def test_leaves_have_the_paths_and_order_of_parquet(made: tuple[Metadata, pa.Table]) -> None:
    table = made[1]
    sink = io.BytesIO()
    pq.write_table(table, sink)
    schema = pq.read_metadata(sink).schema
    stored = [schema.column(i).path for i in range(len(schema))]
    leaves = [leaf for field in table.schema for leaf in walk_leaves(field.type, (field.name,))]
    assert [".".join(leaf.path) for leaf in leaves] == stored
    assert [leaf.repeated for leaf in leaves] == [
        schema.column(i).max_repetition_level > 0 for i in range(len(schema))
    ]
    for batch in table.to_batches():
        columns = zip(batch.schema, batch.columns, strict=True)
        found = [leaf for field, column in columns for leaf in walk_arrays(column, (field.name,))]
        assert [(path, leaf.type) for path, leaf in found] == [leaf[:2] for leaf in leaves]


def test_each_type_comes_before_those_below_it() -> None:
    assert [".".join(node.path) for node in walk_types(MAPS, ("m",))] == [
        "m",
        "m.key_value.key",
        "m.key_value.value",
        "m.key_value.value.list.element",
        "m.key_value.value.list.element.x",
        "m.key_value.value.list.element.y",
    ]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 1)]
)
def test_hidden_values_of_null_lists_are_left_out(kind: pa.DataType) -> None:
    lists = pa.array([[1], None, [3]], kind)
    ((path, leaf),) = walk_arrays(lists.slice(1))
    assert (path, leaf.to_pylist()) == (("list", "element"), [3])


def test_values_of_null_structs_are_null() -> None:
    structs = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([True, False]))
    assert [leaf.to_pylist() for _, leaf in walk_arrays(structs)] == [[None, 2]]


def test_sliced_and_empty_maps_have_the_entries_of_their_rows() -> None:
    maps = pa.array([[("a", [])], [("b", [{"x": 1, "y": 2.0}])]], MAPS)
    keys = {0: ["a", "b"], 1: ["b"], 2: []}
    for start, found in keys.items():
        assert next(walk_arrays(maps.slice(start)))[1].to_pylist() == found
    assert next(walk_arrays(pa.array([], MAPS)))[1].to_pylist() == []


def test_types_without_members_have_no_leaf() -> None:
    assert list(walk_leaves(pa.struct([]))) == []
