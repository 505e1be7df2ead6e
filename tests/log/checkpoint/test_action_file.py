"""The keys of rows are digested in another thread."""

from pathlib import Path

import pyarrow as pa
import pytest

from deltactl.log.checkpoint.action_file import ActionFileWriter, KeyDigest
from deltactl.log.checkpoint.schema import CheckpointLayout
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.storage.open import open_store


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
    def fail(self: KeyDigest, rows: pa.Table) -> None:
        raise MemoryError

    monkeypatch.setattr(KeyDigest, "add", fail)
    with pytest.raises(MemoryError), open_writer(tmp_path) as writer:
        writer.write_adds(make_adds(0, 1))
        writer.close()
    assert list(tmp_path.iterdir()) == []
