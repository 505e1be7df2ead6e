"""What each Parquet type becomes in Delta, or why it cannot."""

import datetime as dt
import io
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.parquet.file_schema import FileSchema, read_file_schema
from deltactl.protocol.schema import render_type


def schema_of(table: pa.Table, **options: Any) -> FileSchema:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return read_file_schema(pq.read_metadata(io.BytesIO(sink.getvalue())).schema)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1], pa.int8()), "byte"),
        (pa.array([1], pa.int16()), "short"),
        (pa.array([1], pa.int32()), "integer"),
        (pa.array([1], pa.int64()), "long"),
        (pa.array([1], pa.uint8()), "short"),
        (pa.array([1], pa.uint16()), "integer"),
        (pa.array([1], pa.uint32()), "long"),
        (pa.array([1], pa.uint64()), "decimal(20,0)"),
        (pa.array([1.5], pa.float32()), "float"),
        (pa.array([1.5]), "double"),
        (pa.array([True]), "boolean"),
        (pa.array(["a"]), "string"),
        (pa.array(["a"], pa.large_string()), "string"),
        (pa.array(["a"], pa.string_view()), "string"),
        (pa.array(["a"]).dictionary_encode(), "string"),
        (pa.array([b"a"]), "binary"),
        (pa.array([b"ab"], pa.binary(2)), "binary"),
        (pa.array([dt.date(2024, 1, 1)]), "date"),
        (pa.array([dt.date(2024, 1, 1)], pa.date64()), "date"),
        (pa.array([1], pa.timestamp("s")), "timestamp_ntz"),
        (pa.array([1], pa.timestamp("ms", "Europe/Berlin")), "timestamp"),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp"),
        (pa.array([1], pa.duration("ms")), "long"),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 2)), "decimal(9,2)"),
        (pa.array([[1]], pa.list_(pa.int8())), "array<byte>"),
        (pa.array([[1]], pa.large_list(pa.int8())), "array<byte>"),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), "array<byte>"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), "map<string,integer>"),
        (pa.array([{"a": 1, "b": {"c": "x"}}]), "struct<a:long,b:struct<c:string>>"),
        (pa.nulls(1), "void"),
        (pa.array([[None]], pa.list_(pa.null())), "array<void>"),
    ],
)
def test_an_arrow_type_becomes_a_delta_type(array: pa.Array, expected: str) -> None:
    found = schema_of(pa.table({"before": [1], "it": array, "after": [["x"]]}))
    assert not found.unusable
    assert [(f.name, render_type(f.type)) for f in found.struct.fields] == [
        ("before", "long"),
        ("it", expected),
        ("after", "array<string>"),
    ]


def test_nanoseconds_are_reported() -> None:
    nanos = pa.array([1], pa.timestamp("ns"))
    assert schema_of(
        pa.table({"a": nanos, "s": pa.array([[1]], pa.list_(nanos.type))})
    ).nanoseconds == ("a", "s.element")


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (pa.array([dt.time(1)]), "time64"),
        (pa.array(np.array([1.5], np.float16)), "halffloat"),
        (pa.array([Decimal(1)], pa.decimal256(50, 0)), "38 digits"),
        (
            pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([uuid.uuid4().bytes], pa.binary(16))
            ),
            "arrow.uuid",
        ),
    ],
)
def test_types_without_a_place_are_named_and_the_rest_goes_on(array: pa.Array, told: str) -> None:
    found = schema_of(pa.table({"bad": array, "good": pa.array([b"x"], pa.binary(1))}))
    ((column, why),) = found.unusable
    assert column == "bad" and told in why
    assert [(f.name, render_type(f.type)) for f in found.struct.fields] == [("good", "binary")]


@pytest.mark.parametrize(
    "form", ["{0}", "[{0}]", "map{{'k':{0}}}", "map{{{0}:1}}", "{{'m':[{0}]}}"]
)
@pytest.mark.parametrize(("value", "told"), [("uuid()", "UUID"), ("interval 1 day", "INTERVAL")])
def test_annotations_that_arrow_ignores_have_no_place(
    tmp_path: Path, value: str, told: str, form: str
) -> None:
    path = str(tmp_path / "a.parquet")
    duckdb.sql(f"copy (select {form.format(value)} as bad, 'x'::blob as good) to '{path}'")
    found = read_file_schema(pq.read_metadata(path).schema)
    assert found.unusable == (("bad", f"type {told} of Parquet is not a type of Delta"),)
    assert [(f.name, render_type(f.type)) for f in found.struct.fields] == [("good", "binary")]


def test_names_that_differ_by_case_alone_are_named() -> None:
    inner = pa.array([{"x": 1, "X": 2}], pa.struct({"x": pa.int64(), "X": pa.int64()}))
    found = schema_of(pa.table({"a": [1], "A": [2], "s": inner}))
    assert [column for column, _ in found.unusable] == ["A", "s.X"]


def test_variants_are_recognized_by_their_shape() -> None:
    required = [pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")]
    variant = pa.array([{"metadata": b"\x01\0\0", "value": b"\0"}], pa.struct(required))
    found = schema_of(pa.table({"v": variant, "after": [1]}))
    assert [(f.name, render_type(f.type)) for f in found.struct.fields] == [
        ("v", "variant"),
        ("after", "long"),
    ]
    shredded = pa.struct([*required, ("typed_value", pa.int64())])
    row = {"metadata": b"", "value": b"", "typed_value": 1}
    found = schema_of(pa.table({"v": pa.array([row], shredded)}))
    assert [column for column, _ in found.unusable] == ["v"]
