"""Footers that are decoded together say what Arrow reads from each of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.parquet.alike_footers import Matched, Shape, match_footers
from deltactl.parquet.file_schema import read_file_schema
from deltactl.parquet.footer_bytes import Footer, parse_footer_bytes, read_footer_bytes
from deltactl.parquet.footer_columns import read_alike_columns, read_leaf_columns
from deltactl.parquet.format import END_BYTES
from deltactl.protocol.stats_columns import StatsColumns, list_leaves
from deltactl.protocol.stats_encoding import encode_stats_of_files
from tests.parquet.test_footer_columns import ROW, SCHEMA
from tests.support.stores import MemoryStore


def file_of(rows: Sequence[dict[str, Any]], schema: pa.Schema = SCHEMA, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), sink, **options)
    return sink.getvalue()


def footer_of(data: bytes) -> Footer:
    return parse_footer_bytes(stored(data), len(data))


def stored(data: bytes) -> bytes:
    return read_footer_bytes(MemoryStore("memory://alike"), "x", len(data), data)


def match(files: Sequence[bytes]) -> Matched:
    shape = Shape.of(footer_of(files[0]))
    assert shape is not None
    return match_footers(shape, [stored(data) for data in files], [len(data) for data in files])


def texts_of(leaves: Any, num_rows: Sequence[int], columns: StatsColumns) -> list[str]:
    found: list[str] = encode_stats_of_files(
        pa.array(num_rows, pa.int64()), leaves, columns
    ).to_pylist()
    return found


@settings(max_examples=60)
@given(st.lists(st.lists(ROW, min_size=1, max_size=5), min_size=2, max_size=6))
def test_the_same_statistics_as_from_arrow(rows: list[list[dict[str, Any]]]) -> None:
    # The first row is in all files, so that columns are seldom null throughout.
    files = [file_of([*rows[0], *more]) for more in rows]
    found = match(files)
    assert found.chosen[0] == 0
    footers = [footer_of(files[index]).metadata for index in found.chosen]
    columns = StatsColumns(list_leaves(read_file_schema(footers[0]).struct))
    leaves = read_alike_columns(found.footers, {0: footers[0]}, columns)
    assert leaves is not None
    num_rows = [footer.num_rows for footer in footers]
    assert found.footers.num_rows.tolist() == num_rows
    expected = read_leaf_columns(footers, columns)
    assert texts_of(leaves, num_rows, columns) == texts_of(expected, num_rows, columns)


def test_numbers_and_bounds_of_any_length_are_alike() -> None:
    schema = pa.schema(
        [("i", pa.int64()), ("s", pa.string()), ("u", pa.uint32()), ("d", pa.decimal128(20, 3))]
    )
    files = [
        file_of([{"i": i, "s": "é" * n, "u": n, "d": Decimal(i).scaleb(-3)}] * n, schema)
        for n, i in ((1, 0), (2, -1), (100, 2**62), (1500, -(2**63)), (3, 127), (4, 128))
    ]
    assert list(match(files).chosen) == list(range(len(files)))


def test_another_column_name_type_or_codec_is_not_alike() -> None:
    files = [
        file_of([{"a": 1, "b": "x"}], pa.schema([("a", pa.int64()), (name, pa.string())]), **more)
        for name, more in (
            ("b", {}), ("c", {}), ("b", {"compression": "zstd"}),
            ("b", {"write_statistics": False}),
            ("b", {"use_dictionary": False}),
        )
    ]  # fmt: skip
    files.append(file_of([{"a": 1, "b": "x"}], pa.schema([("a", pa.int32()), ("b", pa.string())])))
    files.append(file_of([{"a": 1, "b": "x"}] * 2, SCHEMA_OF_TWO, row_group_size=1))
    files.append(file_of([{"a": 1, "b": "x"}], SCHEMA_OF_TWO))
    assert list(match(files).chosen) == [0, len(files) - 1]


SCHEMA_OF_TWO = pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_a_file_of_several_row_groups_is_no_shape() -> None:
    data = file_of([{"a": 1, "b": "x"}] * 2, SCHEMA_OF_TWO, row_group_size=1)
    assert Shape.of(footer_of(data)) is None


@pytest.mark.parametrize(
    ("writer", "is_shape"),
    [
        (b"parquet-mr version 1.8.3", False),
        (b"parquet-mr version 1.13.1", True),
        (b"parquet-cpp version 1.2.9", False),
        (b"Parquet-MR", False),
        (b"parquet-cpp-arrow version 9.0.0", True),
        (b"parquet-rs version 4.0.0", True),
    ],
)
def test_writers_whose_bounds_arrow_may_distrust_are_no_shape(
    writer: bytes, is_shape: bool
) -> None:
    data = stored(file_of([{"a": 1, "b": "x"}], SCHEMA_OF_TWO))
    start = data.index(b"parquet-cpp-arrow")
    length = data[start - 1]
    text = writer.ljust(length)[:length]
    changed = data[:start] + text + data[start + length :]
    assert (Shape.of(parse_footer_bytes(changed, 10_000)) is not None) == is_shape


def test_a_chunk_beyond_the_end_of_its_file_is_left_to_arrow() -> None:
    files = [file_of([{"a": n, "b": "x"}], SCHEMA_OF_TWO) for n in range(3)]
    shape = Shape.of(footer_of(files[0]))
    assert shape is not None
    sizes = [len(files[0]), 20, len(files[2])]
    assert list(match_footers(shape, [stored(f) for f in files], sizes).chosen) == [0, 2]


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_a_truncated_or_longer_footer_is_not_alike(cut: int) -> None:
    files = [file_of([{"a": n, "b": "x"}], SCHEMA_OF_TWO) for n in range(3)]
    data = [stored(f) for f in files]
    end = data[1][-END_BYTES:]
    data[1] = data[1][: -END_BYTES - cut] + end
    data[2] = data[2][:-END_BYTES] + b"\0" * cut + end
    shape = Shape.of(footer_of(files[0]))
    assert shape is not None
    assert list(match_footers(shape, data, [len(f) for f in files]).chosen) == [0]
