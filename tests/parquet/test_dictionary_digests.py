"""Digests of stored rows whose strings are read as dictionaries are those of the plain values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError
from deltactl.operations.row_proofs import FileDigester
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.digest import RowDigest, RowDigester
from deltactl.parquet.encodings import find_dictionary_columns
from deltactl.parquet.hashes import hash_values
from deltactl.parquet.reader import LiveBatch, RowReader
from deltactl.parquet.word_sums import FIRST
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


def test_strings_in_dictionaries_are_read_as_such(tmp_path: Path) -> None:
    rows = make_rows()
    file, store = write(tmp_path, rows), open_store(str(tmp_path))
    assert find_dictionary_columns(pq.read_metadata(tmp_path / file.path)) == [
        "few",
        "sparse",
        "never",
    ]
    reader = FileDigester(READER)._stored
    batches = [live.columns for live in reader.read(store, file, batch_rows=1000)]
    is_dictionary = [pa.types.is_dictionary(kind) for kind in batches[0].schema.types]
    assert is_dictionary == [False, True, False, True, True]
    assert FileDigester(READER).digest_file(store, file) == digest_plainly(rows)


@pytest.mark.parametrize("change", ["few", "sparse", "many"])
def test_a_changed_value_is_found(tmp_path: Path, change: str) -> None:
    rows = make_rows()
    values = rows[change].to_pylist()
    values[4990] = "other"
    changed = rows.set_column(rows.schema.names.index(change), change, pa.array(values))
    found = FileDigester(READER).digest_file(open_store(str(tmp_path)), write(tmp_path, changed))
    assert digest_plainly(rows).find_difference(found) == f"values of {change!r} differ"


def test_columns_that_are_converted_are_decoded(tmp_path: Path) -> None:
    rows = make_rows()
    narrow = rows.set_column(0, "n", rows["n"].cast(pa.int32()))
    found = FileDigester(READER).digest_file(open_store(str(tmp_path)), write(tmp_path, narrow))
    assert found == digest_plainly(rows)


@pytest.mark.parametrize("index", [2, -1])
def test_a_value_outside_of_its_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    broken = pa.DictionaryArray.from_arrays(
        pa.array([0, index], pa.int32()), pa.array(["a", "b"]), safe=False
    )
    with pytest.raises(IndexError):
        hash_values(broken)

    def read(*_: object, **__: object) -> Iterator[LiveBatch]:
        nulls = [pa.nulls(2, kind) for kind in READER.schema.types]
        arrays = [nulls[0], broken, *nulls[2:]]
        yield LiveBatch(pa.RecordBatch.from_arrays(arrays, READER.schema.names), 0, 2)

    monkeypatch.setattr(RowReader, "read", read)
    with pytest.raises(DataFileError, match=r"'f\.parquet' has values that are not in their"):
        FileDigester(READER).digest_file(open_store(str(tmp_path)), DataFile("f.parquet", 1, {}))


def test_a_value_of_an_empty_dictionary() -> None:
    indices, none = pa.array([None, 0], pa.int32()), pa.array([], pa.string())
    broken = pa.DictionaryArray.from_arrays(indices, none, safe=False)
    with pytest.raises(IndexError):
        hash_values(broken)
    assert (hash_values(broken[:1]) == hash_values(pa.nulls(1, pa.string()))).all()


def test_a_dictionary_has_the_hashes_of_its_values() -> None:
    values = pa.array(["a", None, "b", "", "a", None])
    encoded = values.dictionary_encode()
    assert (hash_values(encoded, FIRST) == hash_values(values, FIRST)).all()
    assert (hash_values(encoded[2:], FIRST) == hash_values(values[2:], FIRST)).all()
    nulls = pa.nulls(3, pa.string())
    assert (hash_values(nulls.dictionary_encode()) == hash_values(nulls)).all()
