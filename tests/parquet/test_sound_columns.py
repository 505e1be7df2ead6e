"""Footers that would end the process are refused before anyone asks for their columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError
from deltactl.parquet.footer_bytes import read_footer
from deltactl.parquet.sound_columns import ensure_sound_columns
from tests.support.stores import MemoryStore

FINDS = Path(__file__).parents[1] / "fuzz" / "finds" / "footer"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("histogram-of-another-length", "Definition level histogram"),
        ("type-of-another-column", "column 0 is declared as INT32 and stored as BOOLEAN"),
    ],
)
def test_what_would_end_the_process_is_an_error(name: str, message: str) -> None:
    """Without the look before, Arrow ends it at ``column(i)`` or its ``statistics``."""
    data = (FINDS / name).read_bytes()
    with pytest.raises(OSError, match=message):
        ensure_sound_columns(pq.read_metadata(io.BytesIO(data)), len(data))
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
    ensure_sound_columns(pq.read_metadata(sink), sink.tell())
