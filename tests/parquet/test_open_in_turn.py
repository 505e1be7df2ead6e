"""The files of a bin are opened in their order, small ones whole."""

from pathlib import Path

import pytest

from deltactl.errors import DataFileError
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.open_files import open_in_turn
from deltactl.storage.local.store import LocalStore
from tests.support.metered_store import MeteredStore, StorageUsage

SMALL, LARGE = 10, 5 << 20


def store_with(folder: Path, **sizes: int) -> tuple[MeteredStore, list[DataFile]]:
    for name, size in sizes.items():
        (folder / name).write_bytes(name[:1].encode() * size)
    return MeteredStore(LocalStore(str(folder))), [DataFile(n, s) for n, s in sizes.items()]


def test_small_files_are_read_whole_and_all_come_in_order(tmp_path: Path) -> None:
    store, files = store_with(tmp_path, a=SMALL, b=LARGE, c=SMALL, d=LARGE)
    found = [(source.size(), source.read(1)) for source in open_in_turn(store, files)]
    assert found == [(SMALL, b"a"), (LARGE, b"b"), (SMALL, b"c"), (LARGE, b"d")]
    assert store.usage == StorageUsage(reads=2, opens=2, bytes_read=2 * SMALL)


def test_nothing_is_read_before_it_is_wanted(tmp_path: Path) -> None:
    store, files = store_with(tmp_path, a=SMALL, b=SMALL)
    next(open_in_turn(store, files))
    assert store.usage.reads == 1


@pytest.mark.parametrize("size_bytes", [SMALL, LARGE])
def test_a_file_is_closed_when_its_turn_is_over(tmp_path: Path, size_bytes: int) -> None:
    store, files = store_with(tmp_path, a=size_bytes, b=size_bytes)
    opened = open_in_turn(store, files)
    first = next(opened)
    second = next(opened)
    assert (first.closed, second.closed) == (True, False)
    opened.close()
    assert second.closed


@pytest.mark.parametrize("size_bytes", [SMALL, LARGE])
def test_a_missing_file_is_named_after_those_before_it(tmp_path: Path, size_bytes: int) -> None:
    store, files = store_with(tmp_path, a=SMALL)
    opened = open_in_turn(store, [*files, DataFile("gone", size_bytes)])
    assert next(opened).read() == b"a" * SMALL
    with pytest.raises(DataFileError, match="'gone' is in the log but not in the store"):
        next(opened)


def test_a_path_out_of_the_table_stops_all(tmp_path: Path) -> None:
    store, files = store_with(tmp_path, a=SMALL)
    with pytest.raises(DataFileError, match="outside of the table"):
        next(open_in_turn(store, [*files, DataFile("../b", SMALL)]))
    assert store.usage == StorageUsage()


def test_a_size_that_the_log_does_not_tell_is_not_taken_for_small(tmp_path: Path) -> None:
    store, _ = store_with(tmp_path, a=SMALL)
    next(open_in_turn(store, [DataFile("a", 0)])).close()
    assert (store.usage.reads, store.usage.opens) == (0, 1)
