"""The sample of the layout columns: its memory is bounded if strings are long or rows are wide."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.operations.optimize.layout.ranks import ColumnRanks, cut
from deltactl.operations.optimize.layout.sample import choose_batch_rows, read_sample
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.reader import DEFAULT_BATCH_ROWS, RowReader
from deltactl.protocol.schema import Field, PrimitiveType, StructType
from deltactl.storage.open import open_store

ROWS = 3000


def write(folder: Path, texts: list[str | None], **options: Any) -> DataFile:
    path = folder / "f.parquet"
    members = pa.StructArray.from_arrays(
        [pa.array(texts, pa.string()), pa.array(range(len(texts)), pa.int64())], ["t", "n"]
    )
    pq.write_table(pa.table({"s": members}), path, store_schema=False, **options)
    return DataFile(path.name, path.stat().st_size, {})


def test_a_sample_has_prefixes_of_the_columns_only(tmp_path: Path) -> None:
    texts = [None if n % 7 == 0 else f"{n:05}" + "é" * 3000 for n in range(ROWS)]
    members = StructType((Field("t", PrimitiveType("string")), Field("n", PrimitiveType("long"))))
    reader = RowReader(StructType((Field("s", members),)), (), "none", naming="physical")
    file, store = write(tmp_path, texts, row_group_size=1000), open_store(str(tmp_path))
    found, numbers = read_sample(store, reader, [file], [("s", "t"), ("s", "n")])
    assert numbers.to_pylist() == list(range(ROWS))
    assert found.type == pa.string()
    assert found.nbytes < 200 * ROWS
    whole = pa.array(texts)
    ranks = ColumnRanks.of(found).rank(whole)
    assert ranks.tolist() == ColumnRanks.of(whole).rank(whole).tolist()
    (none,) = read_sample(store, reader, [write(tmp_path, [])], [("s", "n")])
    assert none.equals(pa.array([], pa.int64()))


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_values_that_are_cut(kind: pa.DataType) -> None:
    values = pa.array([None, "", "€" * 50, "a" * 129, "b"], pa.string()).cast(kind)
    assert [value.as_buffer().size for value in cut(values.slice(1))] == [0, 128, 128, 1]
    assert cut(values).is_null().to_pylist() == [True, False, False, False, False]
    numbers = pa.array([1, 2])
    assert cut(numbers) is numbers


def test_wide_rows_are_read_in_small_batches(tmp_path: Path) -> None:
    def choose(text: str) -> int:
        write(tmp_path, [f"{n}{text}" for n in range(ROWS)], use_dictionary=False)
        return choose_batch_rows(pq.read_metadata(tmp_path / "f.parquet"), 1 << 20)

    assert choose("x") > 30_000
    assert 500 < choose("x" * 2000) < 530
    assert choose("x" * 20_000) == 256
    write(tmp_path, [])
    footer = pq.read_metadata(tmp_path / "f.parquet")
    assert choose_batch_rows(footer, 1 << 30) == DEFAULT_BATCH_ROWS
