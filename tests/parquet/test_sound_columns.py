"""Footers that would end the process are refused before anyone asks for their columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError, DeltactlError
from deltactl.operations.convert import convert
from deltactl.parquet import fixed_bounds
from deltactl.parquet.footer_bytes import read_footer
from deltactl.parquet.sound_columns import ensure_sound_columns
from tests.support.stores import MemoryStore

FINDS = Path(__file__).parents[1] / "fuzz" / "finds" / "footer"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("histogram-of-another-length", "Definition level histogram"),
        ("type-of-another-column", "column 0 is declared as INT32 and stored as BOOLEAN"),
        ("bound-shorter-than-its-column", "a bound of column 3 has 9 of 24 bytes"),
    ],
)
def test_what_would_end_the_process_is_an_error(name: str, message: str) -> None:
    """Without the look before, Arrow ends it at ``column(i)`` or its ``statistics``."""
    data = (FINDS / name).read_bytes()
    with pytest.raises(OSError, match=message):
        ensure_sound_columns([pq.read_metadata(io.BytesIO(data))], len(data))
    store = MemoryStore("memory://sound-columns")
    store.put("x.parquet", data)
    with pytest.raises(DataFileError, match=f"is broken: {message}"):
        read_footer(store, "x.parquet", len(data))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "row_group_size": 1},
        {"compression": "lz4", "data_page_version": "2.0", "use_dictionary": False},
        {"write_statistics": False, "column_encoding": "PLAIN", "use_dictionary": False},
    ],
)
@pytest.mark.parametrize("rows", [0, 3])
def test_sound_files_are_let_be(rows: int, options: dict[str, Any]) -> None:
    table = pa.table({"a": [1, 2, 3], "s": [{"x": [1.5], "y": None}] * 3, "m": ["a", None, ""]})
    sink = io.BytesIO()
    pq.write_table(table.slice(0, rows), sink, **options)
    footer = pq.read_metadata(sink)
    ensure_sound_columns([footer], sink.tell())
    ensure_sound_columns([footer] * 3, sink.tell())
    assert footer.num_row_groups == pq.read_metadata(sink).num_row_groups


@pytest.mark.parametrize("name", ["histogram-of-another-length", "type-of-another-column"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_that_is_broken_is_found_among_others(name: str, place: int) -> None:
    data = (FINDS / name).read_bytes()
    broken = pq.read_metadata(io.BytesIO(data))
    sink = io.BytesIO()
    pq.write_table(_rows_of(broken), sink)
    with pytest.raises(OSError, match="column|histogram"):
        ensure_sound_columns([broken] * 3, len(data))
    footers = [pq.read_metadata(sink)] * 2
    ensure_sound_columns(footers, max(len(data), sink.tell()))
    footers.insert(place, broken)
    with pytest.raises(OSError, match="column|histogram"):
        ensure_sound_columns(footers, max(len(data), sink.tell()))


@pytest.mark.parametrize("name", ["histogram-of-another-length", "type-of-another-column"])
def test_a_convert_names_just_the_broken_file(name: str, tmp_path: Path) -> None:
    data = (FINDS / name).read_bytes()
    for sound in ("a", "c"):
        pq.write_table(_rows_of(pq.read_metadata(io.BytesIO(data))), tmp_path / f"{sound}.parquet")
    (tmp_path / "b.parquet").write_bytes(data)
    with pytest.raises(DeltactlError) as caught:
        convert(str(tmp_path))
    assert "b.parquet" in str(caught.value)
    assert not {"a.parquet", "c.parquet"} & set(str(caught.value).split())
    assert not (tmp_path / "_delta_log").exists()


def _rows_of(footer: pq.FileMetaData) -> pa.Table:
    """Two rows of next to nothing in the schema of a file."""
    schema = footer.schema.to_arrow_schema()
    columns = [
        pa.nulls(2, field.type) if field.nullable else pa.array([0, 0], field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


@pytest.mark.parametrize("precision", range(1, 77))
def test_usual_lengths_are_those_that_arrow_writes(precision: int) -> None:
    """Only footers with other lengths are worth the time of reading them here."""
    column = pa.nulls(1, pa.decimal256(precision, 0))
    sink = io.BytesIO()
    pq.write_table(pa.table({"d": column}), sink)
    assert not fixed_bounds._unusual_lengths(pq.read_metadata(sink).schema)


def test_bounds_of_any_length_are_found_in_a_footer() -> None:
    table = pa.table(
        {
            "text": ["a", "long" * 50, None],
            "three": pa.array([b"abc", b"def", None], pa.binary(3)),
            "half": pa.array([1.5, -2.5, None], pa.float16()),
            "list": [[1.5], [], None],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1)
    footer = pq.read_metadata(sink)
    fixed_bounds.ensure_fixed_bounds([footer] * 2)
    lengths = [
        [len(column.get(5, b"")) for column in columns]
        for columns in fixed_bounds._read_statistics(footer)
    ]
    assert lengths == [[1, 3, 2, 8], [200, 3, 2, 0], [0, 0, 0, 0]]
