"""Digests of stored rows are those of the rows."""

from functools import reduce
from operator import add
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.operations.row_proofs import FileDigester
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.digest import RowDigester
from deltactl.parquet.reader import RowReader
from deltactl.protocol.schema import Field, PrimitiveType, StructType
from deltactl.storage.open import open_store

TYPES = {"n": "long", "few": "string", "many": "string", "sparse": "string", "never": "string"}
FIELDS = tuple(Field(name, PrimitiveType(kind)) for name, kind in TYPES.items())


def test_stored_rows_have_the_digest_of_the_rows(tmp_path: Path) -> None:
    """They are in several batches, and numbers are stored in a narrower type."""
    reader = RowReader(StructType(FIELDS), (), "none", naming="physical")
    count = range(150_000)
    rows = pa.table(
        {
            "n": pa.array(count, pa.int32()),
            "few": [f"value {n * 7 % 9}" for n in count],
            "many": [f"a longer text {n}" for n in count],
            "sparse": [None if n % 3 else f"s{n % 7}" for n in count],
            "never": pa.nulls(150_000, pa.string()),
        }
    )
    path = tmp_path / "f.parquet"
    pq.write_table(rows, path, row_group_size=90_000, store_schema=False)
    file = DataFile(path.name, path.stat().st_size, {})
    found = FileDigester(reader).digest_file(open_store(str(tmp_path)), file)
    batches = rows.cast(reader.schema).to_batches(max_chunksize=1000)
    assert found == reduce(add, map(RowDigester(reader.schema).digest, batches))
