"""A place where commits would not be safe is refused before any work, not after it."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from deltactl.errors import SafetyError
from deltactl.operations.convert.run import ConvertOptions, convert_directory
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from tests.support.folders import contents
from tests.support.forwarding import ForwardingStore
from tests.support.run import run_on

MONTH_SECONDS = 30 * 24 * 3600


class UnsafeStore(ForwardingStore):
    """A store that does not keep put-if-absent, and counts how often it was asked."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.asked = 0

    def ensure_put_if_absent(self) -> None:
        self.asked += 1
        raise SafetyError("no commit is safe here")


def optimize(store: Store, dry_run: bool) -> None:
    run_on(store, optimize_table, OptimizeOptions(), dry_run=dry_run)


def vacuum(store: Store, dry_run: bool) -> None:
    options = VacuumOptions(mode="full")
    run_on(store, partial(vacuum_table, orphans="named"), options, dry_run=dry_run)


def convert(store: Store, dry_run: bool) -> None:
    run_on(store, convert_directory, ConvertOptions(), dry_run=dry_run)


def build_table(folder: Path) -> None:
    """Three small files, and one that no commit names."""
    for number in range(3):
        write_deltalake(str(folder), pa.table({"id": [number]}), mode="append")
    orphan = folder / "part-00000-7a3c1f0e-5d5c-4a57-9d5e-0123456789ab-c000.snappy.parquet"
    pq.write_table(pa.table({"id": [9]}), orphan)
    then = orphan.stat().st_mtime - MONTH_SECONDS
    os.utime(orphan, (then, then))


def build_directory(folder: Path) -> None:
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "1.parquet")


CASES: dict[str, tuple[Callable[[Path], None], Callable[[Store, bool], None]]] = {
    "optimize": (build_table, optimize),
    "vacuum": (build_table, vacuum),
    "convert": (build_directory, convert),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_before_anything_is_written(case: str, tmp_path: Path) -> None:
    build, run = CASES[case]
    folder = tmp_path / "t"
    build(folder)
    before = contents(folder)
    store = UnsafeStore(LocalStore(str(folder)))
    run(store, True)
    assert store.asked == 0
    with pytest.raises(SafetyError, match="no commit is safe here"):
        run(store, False)
    assert store.asked == 1
    assert contents(folder) == before
    # The case would have done something.
    run(LocalStore(str(folder)), False)
    assert contents(folder) != before
