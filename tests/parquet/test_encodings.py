from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given

from deltactl.parquet.encodings import choose_dictionary_columns, choose_levels
from deltactl.protocol.actions import Metadata
from tests.parquet.tables import tables

ROWS = 200_000


def ints(count: int) -> pa.Array:
    return pa.array(np.random.default_rng(1).integers(0, count, ROWS))


def test_dictionaries_are_for_values_that_repeat() -> None:
    table = pa.table(
        {
            "few": ints(10),
            "some": ints(30_000),
            "unique": pa.array(np.arange(ROWS)),
            "random": ints(2**60),
            "words": pa.array([f"word {i}" for i in range(100)]).take(ints(100)),
            "texts": pa.array([f"{i:040}" for i in range(ROWS)]),
            "wide": pa.array(["x" * 2000 + str(i) for i in range(1000)]).take(ints(1000)),
            "flags": ints(2).cast(pa.bool_()),
            "constant": pa.array([1] * ROWS),
            "null": pa.array([None] * ROWS, pa.string()),
        }
    )
    assert choose_dictionary_columns(table) == ["few", "some", "words", "constant", "null"]


def test_nested_leaves_are_judged_alike() -> None:
    offsets = pa.array(np.arange(ROWS + 1, dtype=np.int32))
    members = [ints(10), pa.array(np.arange(ROWS))]
    struct = pa.StructArray.from_arrays(members, ["x", "y"])
    table = pa.table(
        {
            "l": pa.ListArray.from_arrays(offsets, struct),
            "m": pa.MapArray.from_arrays(offsets, members[1], members[0]),
        }
    )
    assert choose_dictionary_columns(table) == ["l.list.element.x", "m.key_value.value"]


def test_leaves_with_one_path_are_judged_alike() -> None:
    """A column ``a.b`` beside a struct ``a`` with a field ``b``, of another type."""
    few, unique = ints(10), pa.array(np.arange(ROWS)).cast(pa.string())
    for dotted, inner, expected in ((few, unique, []), (few, few.cast(pa.string()), ["a.b"])):
        struct = pa.StructArray.from_arrays([inner], ["b"])
        assert choose_dictionary_columns(pa.table({"a.b": dotted, "a": struct})) == expected
        assert choose_dictionary_columns(pa.table({"a": struct, "a.b": dotted})) == expected


def test_few_rows_are_left_to_arrow() -> None:
    assert choose_dictionary_columns(pa.table({"a": range(100)})) == ["a"]
    assert choose_dictionary_columns(pa.table({"a": pa.array([], pa.int8())})) == []


@given(tables())
def test_paths_are_those_of_parquet(made: tuple[Metadata, pa.Table]) -> None:
    _, table = made
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False)
    schema = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    stored = [schema.column(i) for i in range(len(schema))]
    expected = [column.path for column in stored if column.physical_type != "BOOLEAN"]
    if len(table):
        assert choose_dictionary_columns(table) == expected


def compress(rows: pa.Table, level: int) -> dict[str, int]:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", compression_level=level, use_dictionary=False)
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    return {name: group.column(i).total_compressed_size for i, name in enumerate(rows.schema.names)}


def test_noise_gets_no_effort() -> None:
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "noise": pa.array(rng.integers(-(2**63), 2**63 - 1, ROWS)),
            "steps": pa.array(np.arange(ROWS) * 250_000 + rng.integers(0, 250_000, ROWS)),
        }
    )
    assert choose_levels(table, 9, compress) == {"noise": 1, "steps": 9}


def test_the_fastest_level_and_few_rows_are_not_tried() -> None:
    never = Mock(side_effect=AssertionError("tried"))
    table = pa.table({"a": ints(10)})
    assert choose_levels(table, 1, never) == 1
    assert choose_levels(table, -5, never) == -5
    assert choose_levels(table.slice(0, 10_000), 9, never) == 9
