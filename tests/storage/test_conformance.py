"""Every kind of store keeps every promise of the seam."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deltactl.storage.local.store import LocalStore
from deltactl.storage.objects.services import CommonService
from deltactl.storage.objects.store import FsspecStore
from deltactl.storage.store import Store
from tests.storage import conformance
from tests.support.metered_store import MeteredStore
from tests.support.stores import CountingStore, FaultyStore, MemoryStore

_numbers = itertools.count()

# The library's own exclusive create looks, then writes; and what is opened for writing is empty at
# once, where object stores keep the old content until the new one is whole.
NOT_FOR_FSSPEC_MEMORY = {conformance.one_thread_wins, conformance.replaces_whole_or_not_at_all}


def _memory(_: Path) -> Store:
    return MemoryStore(f"memory://conformance-{next(_numbers)}")


def _fsspec(_: Path) -> Store:
    root = f"/root-{next(_numbers)}"
    file_system: Any = MemoryFileSystem(use_listings_cache=False, skip_instance_cache=True)
    return FsspecStore(
        f"memory:/{root}",
        CommonService(file_system),
        root,
        exclusive_create=True,
        schemes=frozenset({"memory"}),
    )


STORES: dict[str, Callable[[Path], Store]] = {
    "local": lambda folder: LocalStore(str(folder / "a %41 table" / "t")),
    "memory": _memory,
    "fsspec": _fsspec,
    "metered": lambda folder: MeteredStore(LocalStore(str(folder))),
    "faulty": lambda folder: FaultyStore(_memory(folder)),
    "counting": lambda folder: CountingStore(_memory(folder)),
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("promise", conformance.PROMISES, ids=lambda promise: promise.__name__)
def test_a_store_passes_the_conformance_suite(
    promise: Callable[[Store], None], kind: str, tmp_path: Path
) -> None:
    if kind == "fsspec" and promise in NOT_FOR_FSSPEC_MEMORY:
        pytest.skip("fsspec's memory file system does not promise this itself")
    promise(STORES[kind](tmp_path))
