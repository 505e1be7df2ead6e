"""Every kind of store keeps every promise of the seam."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import _open_remote as open_memory
from deltactl.storage.store import Store
from tests.storage import conformance
from tests.support.stores import FaultyStore, fresh_store

_numbers = itertools.count()


def _memory(_: Path) -> Store:
    return fresh_store()


STORES: dict[str, Callable[[Path], Store]] = {
    "local": lambda folder: LocalStore(str(folder / "a %41 table" / "t")),
    "memory": _memory,
    # Not by its address, which is that of the stand-in of the tests.
    "fsspec": lambda _: open_memory(f"memory://fsspec-{next(_numbers)}/t", {}),
    "faulty": lambda folder: FaultyStore(_memory(folder)),
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("promise", conformance.PROMISES, ids=lambda promise: promise.__name__)
def test_a_store_passes_the_conformance_suite(
    promise: Callable[[Store], None], kind: str, tmp_path: Path
) -> None:
    promise(STORES[kind](tmp_path))
