"""Digests of stored rows are those of the rows."""

from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.operations.row_proofs import FileDigester
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.digest import RowDigest, RowDigester
from deltactl.parquet.reader import RowReader
from deltactl.protocol.schema import Field, PrimitiveType, StructType
from deltactl.storage.open import open_store

ROWS = 5000
TYPES = {"n": "long", "few": "string", "many": "string", "sparse": "string", "never": "string"}
READER = RowReader(
    StructType(tuple(Field(name, PrimitiveType(kind)) for name, kind in TYPES.items())),
    (),
    "none",
    naming="physical",
)


def make_rows() -> pa.Table:
    rng = np.random.default_rng(3)
    sparse = [None if n % 3 else f"s{n % 7}" for n in range(ROWS)]
    return pa.table(
        {
            "n": pa.array(range(ROWS)),
            "few": pa.array([f"value {n}" for n in rng.integers(0, 9, ROWS)]),
            "many": pa.array([f"a longer text {n}" for n in range(ROWS)]),
            "sparse": pa.array(sparse, pa.string()),
            "never": pa.nulls(ROWS, pa.string()),
        }
    )


def write(folder: Path, rows: pa.Table) -> DataFile:
    path = folder / "f.parquet"
    pq.write_table(rows, path, row_group_size=1800, store_schema=False)
    return DataFile(path.name, path.stat().st_size, {})


def digest_plainly(rows: pa.Table) -> RowDigest:
    digester = RowDigester(READER.schema)
    return reduce(add, map(digester.digest, rows.cast(READER.schema).to_batches()))


def test_stored_rows_have_the_digest_of_the_rows(tmp_path: Path) -> None:
    rows = make_rows()
    found = FileDigester(READER).digest_file(open_store(str(tmp_path)), write(tmp_path, rows))
    assert found == digest_plainly(rows)


@pytest.mark.parametrize("change", ["few", "sparse", "many"])
def test_a_changed_value_is_found(tmp_path: Path, change: str) -> None:
    rows = make_rows()
    values = rows[change].to_pylist()
    values[4990] = "other"
    changed = rows.set_column(rows.schema.names.index(change), change, pa.array(values))
    found = FileDigester(READER).digest_file(open_store(str(tmp_path)), write(tmp_path, changed))
    assert digest_plainly(rows).find_difference(found) == f"values of {change!r} differ"


def test_columns_that_are_converted(tmp_path: Path) -> None:
    rows = make_rows()
    narrow = rows.set_column(0, "n", rows["n"].cast(pa.int32()))
    found = FileDigester(READER).digest_file(open_store(str(tmp_path)), write(tmp_path, narrow))
    assert found == digest_plainly(rows)
