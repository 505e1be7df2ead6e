"""Rows of files: each file is read by its own schema, in the memory of a few row groups."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.reader import RowReader
from deltactl.protocol.schema import Field, PrimitiveType, StructType
from deltactl.storage.local.store import LocalStore

SCHEMA = StructType(
    (Field("a", PrimitiveType("long"), True), Field("b", PrimitiveType("string"), True))
)
ROWS: list[dict[str, object]] = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]


def _file(folder: Path, name: str, table: pa.Table) -> DataFile:
    pq.write_table(table, folder / name, store_schema=False)
    return DataFile(name, (folder / name).stat().st_size, {})


def test_files_of_other_schemas_are_read_in_turn(tmp_path: Path) -> None:
    """A reader keeps what it found in the latest file."""
    numbers, texts = pa.array([1, None]), pa.array(["x", "y"])
    files = [
        _file(tmp_path, "equal", pa.table({"a": numbers, "b": texts})),
        _file(tmp_path, "swapped", pa.table({"b": texts, "a": numbers})),
        _file(tmp_path, "narrow", pa.table({"a": numbers.cast(pa.int32()), "b": texts})),
        _file(tmp_path, "case", pa.table({"B": texts, "A": numbers})),
        _file(tmp_path, "more", pa.table({"c": texts, "a": numbers, "b": texts})),
    ]
    without = _file(tmp_path, "fewer", pa.table({"a": numbers}))
    reader, store = RowReader(SCHEMA, (), "none", for_rewrite=True), LocalStore(str(tmp_path))
    for file in (*files, *reversed(files), without, *files):
        (live,) = reader.read(store, file)
        assert live.columns.schema.equals(reader.schema, check_metadata=True), file.path
        expected = [{**row, "b": None} for row in ROWS] if file is without else ROWS
        assert live.columns.to_pylist() == expected, file.path


def test_a_file_with_ambiguous_columns_is_refused_each_time(tmp_path: Path) -> None:
    numbers = pa.array([1])
    good = _file(tmp_path, "good", pa.table({"a": numbers, "b": pa.array(["x"])}))
    bad = _file(tmp_path, "bad", pa.Table.from_arrays([numbers, numbers], ["A", "A"]))
    reader, store = RowReader(SCHEMA, (), "none"), LocalStore(str(tmp_path))
    for _ in range(2):
        assert len(list(reader.read(store, good))) == 1
        with pytest.raises(DataFileError, match="two columns with the name"):
            list(reader.read(store, bad))


GROUP_ROWS, GROUPS = 1 << 20, 12  # row groups of 8 MiB
NUMBERS = StructType((Field("a", PrimitiveType("long"), True),))


def _write_numbers(path: Path) -> DataFile:
    rng = np.random.default_rng(1)
    with pq.ParquetWriter(path, pa.schema({"a": pa.int64()}), use_dictionary=False) as writer:
        for _ in range(GROUPS):
            writer.write_table(pa.table({"a": rng.integers(0, 1 << 62, GROUP_ROWS)}))
    return DataFile(path.name, path.stat().st_size, {})


@pytest.mark.parametrize("batch_rows", [1 << 13, 1 << 16])
def test_row_groups_that_were_read_are_freed(tmp_path: Path, batch_rows: int) -> None:
    file = _write_numbers(tmp_path / "f.parquet")
    reader = RowReader(NUMBERS, (), "none", naming="physical")
    before = pa.total_allocated_bytes()
    most = rows = 0
    for batch in reader.read(LocalStore(str(tmp_path)), file, batch_rows=batch_rows):
        assert batch.first_row == rows
        rows += batch.num_physical_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == GROUP_ROWS * GROUPS
    assert file.size_bytes > 96 << 20
    assert most < 64 << 20
