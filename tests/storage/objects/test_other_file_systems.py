"""Tables on file systems that only fsspec knows are read, and never changed."""

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltactl import Table
from deltactl.cli.app import run
from deltactl.errors import ObjectExistsError, SafetyError, StorageError
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.storage.open import _open_remote, open_store
from tests.support.folders import contents

ADDRESSES = ("local://{}", "simplecache::file://{}", "filecache::local://{}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        write_deltalake(tmp_path / "t", pa.table({"id": [number]}), mode="append")
    return tmp_path / "t"


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_table_is_read_and_not_changed(address: str, folder: Path) -> None:
    uri, before = address.format(folder), contents(folder)
    table = Table(uri)
    assert sorted(table.scan().read_all()["id"].to_pylist()) == [0, 1, 2]
    assert [info.name for info in open_store(uri).list_from("_delta_log", f"{1:020}")] == [
        f"_delta_log/{number:020}.json" for number in (1, 2)
    ]
    assert sum(len(names) for names in open_store(uri).walk()) == len(before)
    assert table.optimize(dry_run=True).dry_run
    assert run(["describe-history", uri]) == 0
    changes: list[Callable[[], object]] = [
        table.optimize,
        lambda: table.vacuum(VacuumOptions(retain_ms=0, force_retention=True)),
        lambda: open_store(uri).put("x", b""),
        lambda: open_store(uri).put_if_absent("x", b""),
        lambda: open_store(uri).delete_many(["x"]),
    ]
    for change in changes:
        with pytest.raises(SafetyError, match="deltactl only reads"):
            change()
    assert run(["optimize", uri]) == SafetyError.exit_code
    assert contents(folder) == before


def test_a_cache_does_not_decide_what_is_deleted(folder: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "clone", pa.table({"id": [1]}))
    for option in ("--also-keep-for", "--inventory"):
        words = [option, f"simplecache::file://{tmp_path}/clone"]
        assert run(["vacuum", str(folder), *words]) == SafetyError.exit_code


def test_a_shallow_clone_has_addresses_that_others_can_open(folder: Path, tmp_path: Path) -> None:
    words = ["clone", f"local://{folder}", str(tmp_path / "clone")]
    assert run([*words, "--shallow", "--no-note"]) == SafetyError.exit_code
    assert run([*words, "--deep"]) == 0
    assert Table(str(tmp_path / "clone")).scan().read_all().num_rows == 3


def test_a_missing_package_is_named() -> None:
    with pytest.raises(StorageError, match="needs the Python module smbclient") as caught:
        open_store("smb://host/share/t")
    assert caught.value.hint == "Run pip install smbclient."


def test_a_version_in_memory_has_one_winner() -> None:
    stores = [_open_remote("memory://race/t", {}) for _ in range(8)]
    barrier = threading.Barrier(len(stores))
    winners: list[tuple[int, bytes]] = []

    def write(number: int) -> None:
        for version in range(200):
            barrier.wait()
            try:
                stores[number].put_if_absent(f"_delta_log/{version}", str(number).encode())
            except ObjectExistsError:
                continue
            winners.append((version, str(number).encode()))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(winners) == [(n, stores[0].read(f"_delta_log/{n}")) for n in range(200)]
