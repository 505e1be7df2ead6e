"""The digest of the keys of rows: batches do not matter, nor does the thread that makes it."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from deltactl.log.checkpoint.action_file import ActionFileWriter, Fingerprint, KeyDigest
from deltactl.log.checkpoint.schema import CheckpointLayout
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.storage.open import open_store

VECTOR = {
    "storage_type": "u",
    "path_or_inline_dv": "vBn[lx{q8@P<9BNH/isA",
    "offset": 1,
    "size_bytes": 36,
    "cardinality": 2,
}
COLUMNS = ("encoded_path", "deletion_vector", "size_bytes")


def make_adds(first: int, count: int) -> pa.Table:
    rows = [
        {
            "path": f"f{number}",
            "encoded_path": f"f{number}",
            "size_bytes": number,
            "modification_time_ms": 1,
            "data_change": False,
            "partition_values": {},
        }
        for number in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, schema=ADD_SCHEMA)


def open_writer(folder: Path) -> ActionFileWriter:
    layout = CheckpointLayout(stats_json=True, stats_type=None, partition_types={})
    return ActionFileWriter(open_store(str(folder)), "x.parquet", layout.sidecar_schema, layout)


def test_the_digest_is_that_of_all_batches_in_order(tmp_path: Path) -> None:
    expected = KeyDigest()
    with open_writer(tmp_path) as writer:
        for first in range(0, 3000, 100):
            writer.write_adds(make_adds(first, 100))
            (batch,) = make_adds(first, 100).to_batches()
            expected.add(batch)
        written = writer.close()
    assert written.adds == expected.finish()
    assert written.removes == KeyDigest().finish()


def test_keys_that_cannot_be_digested_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=MemoryError)
    monkeypatch.setattr(KeyDigest, "add", fail)
    with pytest.raises(MemoryError), open_writer(tmp_path) as writer:
        writer.write_adds(make_adds(0, 1))
        writer.close()
    assert list(tmp_path.iterdir()) == []


def digest(rows: list[dict[str, Any]], *ends: int) -> Fingerprint:
    table = pa.Table.from_pylist(rows, schema=pa.schema([ADD_SCHEMA.field(it) for it in COLUMNS]))
    found = KeyDigest()
    for first, end in zip([0, *ends], [*ends, len(rows)], strict=True):
        for batch in table.slice(first, end - first).to_batches():
            found.add(batch)
    return found.finish()


def make_rows(*with_vector: int) -> list[dict[str, Any]]:
    return [
        {
            "encoded_path": f"f{number}",
            "deletion_vector": VECTOR if number in with_vector else None,
            "size_bytes": number,
        }
        for number in range(6)
    ]


@pytest.mark.parametrize("vectors", [(), (3,), (0, 5), tuple(range(6))])
@pytest.mark.parametrize("ends", [(1,), (3,), (4,), (2, 4), (1, 2, 3, 4, 5)])
def test_batches_do_not_matter(vectors: tuple[int, ...], ends: tuple[int, ...]) -> None:
    assert digest(make_rows(*vectors), *ends) == digest(make_rows(*vectors))


def test_each_column_and_the_order_matter() -> None:
    rows = make_rows(3)
    others = [
        make_rows(),
        make_rows(2),
        rows[::-1],
        rows[:5],
        [*rows[:5], {**rows[5], "encoded_path": "f"}],
        [*rows[:5], {**rows[5], "size_bytes": None}],
    ]
    found = [digest(each).digest for each in (rows, *others)]
    assert len(set(found)) == len(found)
