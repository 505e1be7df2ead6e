import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from deltactl.errors import DataFileError
from deltactl.parquet.amend import HeldSink, amend_footer
from deltactl.parquet.facts import FactCollector
from deltactl.parquet.writer import DataFileWriter, WriteOptions
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import VARIANT_TYPE
from deltactl.protocol.schema import (
    ArrayType,
    DeltaType,
    Field,
    MapType,
    PrimitiveType,
    StructType,
    variant_groups,
)
from deltactl.protocol.stats_columns import StatsColumns
from tests.parquet.tables import tables
from tests.support.stores import MemoryStore

NAN = math.nan


def encode(table: pa.Table, row_group_size: int = 5) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=row_group_size, write_page_index=True)
    return sink.getvalue()


def write(table: pa.Table, rows: int = 2) -> bytes:
    store = MemoryStore("memory://amend")
    store.delete_many(["f"])
    options = WriteOptions(row_group_rows=rows)
    with DataFileWriter(store, "f", table.schema, options, StatsColumns()) as writer:
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()
    return store.read("f")


@given(tables())
def test_nothing_taken_out_leaves_the_bytes_as_they_are(made: tuple[Metadata, pa.Table]) -> None:
    data = encode(made[1].replace_schema_metadata({"key": "value" * 50}))
    assert amend_footer(data) == data


def test_many_columns_and_row_groups_stay_as_they_are() -> None:
    data = encode(pa.table({f"c{i}": range(100) for i in range(40)}))
    assert amend_footer(data) == data


def test_columns_lose_bounds_and_column_index_but_not_null_counts() -> None:
    table = pa.table({"a": [1.0, None], "b": [1, 2]})
    amended = amend_footer(encode(table), unbounded=frozenset({0}))
    file = pq.ParquetFile(pa.BufferReader(amended))
    assert file.read() == table
    a, b = (file.metadata.row_group(0).column(i) for i in range(2))
    assert (a.statistics.has_min_max, a.statistics.null_count) == (False, 1)
    assert (a.has_column_index, a.has_offset_index) == (False, True)
    assert (b.statistics.min, b.has_column_index) == (1, True)


def test_columns_lose_page_counts() -> None:
    table = pa.table({"a": [1.0, -0.0], "b": [1, 2]})
    data = encode(table)
    amended = amend_footer(data, opaque=frozenset({0}))
    # A list of two structs, of three short numbers each, and the field's own byte.
    assert len(data) - len(amended) == 16
    assert pq.read_table(pa.BufferReader(amended)) == table


def test_groups_become_variants_at_any_depth() -> None:
    variant = VARIANT_TYPE
    table = pa.table(
        {
            "plain": pa.array([None], variant),
            "v": pa.array([{"value": b"\0", "metadata": b"\1\0\0"}], variant),
            "s": pa.array([{"v": None}], pa.struct({"v": variant})),
            "l": pa.array([[None]], pa.list_(pa.field("element", variant))),
            "m": pa.array([[("k", None)]], pa.map_(pa.string(), variant)),
        }
    )
    delta = PrimitiveType("variant")
    fields: dict[str, DeltaType] = {
        "v": delta,
        "s": StructType((Field("v", delta),)),
        "l": ArrayType(delta),
        "m": MapType(PrimitiveType("string"), delta),
    }
    groups = variant_groups(StructType(tuple(Field(n, t) for n, t in fields.items())))
    amended = amend_footer(encode(table), variants=groups)
    file = pq.ParquetFile(pa.BufferReader(amended))
    described = str(file.schema).splitlines()
    marked = [line.split()[3] for line in described if "(Variant(1))" in line]
    assert marked == ["v", "v", "element", "value"]
    assert len([line for line in described if "group field_id=-1 plain {" in line]) == 1
    assert file.metadata.num_rows == 1


@pytest.mark.parametrize("data", [b"", b"PAR1", b"\0\0\0\0PARE", b"\x09\0\0\0PAR1"])
def test_what_is_no_footer_is_refused(data: bytes) -> None:
    with pytest.raises(DataFileError):
        amend_footer(data)


def test_unknown_thrift_is_refused() -> None:
    with pytest.raises(DataFileError, match="unknown type 14"):
        amend_footer(b"\x1e\0" + b"\2\0\0\0PAR1")


def test_nan_anywhere_takes_the_bounds_of_its_leaf() -> None:
    struct = pa.StructArray.from_arrays(
        [pa.array([1.0, 2.0, 3.0, NAN]), pa.array([1.0, 2.0, 3.0, 4.0], pa.float32())], ["x", "y"]
    )
    lists = pa.array([[NAN], [], None, [1.0]])
    table = pa.table({"l": lists, "s": struct, "f": pa.array([0.0, 1.0, None, 5.0])})
    metadata = pq.read_metadata(pa.BufferReader(write(table)))
    for group in range(2):
        found = {
            chunk.path_in_schema: chunk.statistics.has_min_max
            for chunk in (metadata.row_group(group).column(i) for i in range(4))
        }
        assert (found["s.x"], found["s.y"], found["f"]) == (False, True, True)


def test_nan_below_a_null_struct_is_not_there() -> None:
    struct = pa.StructArray.from_arrays([pa.array([1.0, NAN])], ["x"], mask=pa.array([False, True]))
    metadata = pq.read_metadata(pa.BufferReader(write(pa.table({"s": struct}))))
    assert metadata.row_group(0).column(0).statistics.has_min_max


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_negative_zero_is_seen(type_: pa.DataType) -> None:
    floats = pa.array([-0.0, 1.0, 0.0, -0.0, None, NAN], type_)
    for start, length, seen in [(0, 1, True), (1, 2, False), (1, 3, True), (4, 2, False)]:
        part = floats.slice(start, length)
        column = pa.chunked_array([part.slice(0, 1), part.slice(1), part.slice(0, 0)])
        rows = pa.table({"i": pa.nulls(length), "f": column})
        facts = FactCollector(rows.schema, StatsColumns())
        facts.collect(rows)
        assert facts.negative_zero_columns == (frozenset({1}) if seen else frozenset())
        assert facts.nan_columns == (frozenset({1}) if start == 4 else frozenset())


def test_sinks_hold_what_comes_last() -> None:
    inner = io.BytesIO()
    sink = HeldSink(inner)
    assert sink.writable()
    assert sink.write(b"abc") == 3
    assert sink.release() == b""
    sink.hold()
    assert sink.write(memoryview(b"de")) == 2
    assert (sink.release(), inner.getvalue()) == (b"de", b"abc")
