"""A file of ``--dump-listing`` is an inventory whatever its name."""

from pathlib import Path

import pyarrow as pa
import pytest

from deltactl.operations.stored_files import Listing
from deltactl.operations.vacuum.inventory import dump_listing, open_dump, read_inventory
from deltactl.storage.local.store import LocalStore


@pytest.mark.parametrize("name", ["l.parquet", "l.csv", "l.csv.gz", "l.json", "l.orc", "l"])
def test_a_dumped_listing_is_read(tmp_path: Path, name: str) -> None:
    root = tmp_path / "t"
    root.mkdir()
    (root / "f.parquet").write_bytes(b"")
    store, address = LocalStore(str(root)), str(tmp_path / name)
    listing = Listing(pa.chunked_array([["f.parquet"]], pa.string()))
    dump_listing(store, listing, *open_dump(address, {}))
    assert read_inventory(store, address, {}).files.to_pylist() == ["f.parquet"]
