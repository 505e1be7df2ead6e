"""Reading a file takes the memory of a few row groups, not of the file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.parquet.data_file import DataFile
from deltactl.parquet.reader import RowReader
from deltactl.protocol.schema import Field, PrimitiveType, StructType
from deltactl.storage.local.store import LocalStore

ROWS, GROUPS = 1 << 20, 12  # row groups of 8 MiB
SCHEMA = StructType((Field("a", PrimitiveType("long"), True),))


def _write(path: Path) -> DataFile:
    rng = np.random.default_rng(1)
    with pq.ParquetWriter(path, pa.schema({"a": pa.int64()}), use_dictionary=False) as writer:
        for _ in range(GROUPS):
            writer.write_table(pa.table({"a": rng.integers(0, 1 << 62, ROWS)}))
    return DataFile(path.name, path.stat().st_size, {})


@pytest.mark.parametrize("batch_rows", [1 << 13, 1 << 16])
def test_row_groups_that_were_read_are_freed(tmp_path: Path, batch_rows: int) -> None:
    file = _write(tmp_path / "f.parquet")
    reader = RowReader(SCHEMA, (), "none", naming="physical")
    before = pa.total_allocated_bytes()
    most = rows = 0
    for batch in reader.read(LocalStore(str(tmp_path)), file, batch_rows=batch_rows):
        assert batch.first_row == rows
        rows += batch.num_physical_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == ROWS * GROUPS
    assert file.size_bytes > 96 << 20
    assert most < 64 << 20
