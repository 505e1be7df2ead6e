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

BROKEN = Path(__file__).parents[1] / "fuzz" / "finds" / "footer" / "histogram-of-another-length"


def test_a_histogram_of_another_length_is_an_error() -> None:
    """Without the look before, Arrow ends the process at ``row_group(0).column(i)``."""
    data = BROKEN.read_bytes()
    metadata = pq.read_metadata(io.BytesIO(data))
    with pytest.raises(OSError, match="histogram"):
        ensure_sound_columns(metadata, len(data))
    store = MemoryStore("memory://sound-columns")
    store.put("x.parquet", data)
    with pytest.raises(DataFileError, match="is broken: Definition level histogram"):
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
