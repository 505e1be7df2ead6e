"""Many small requests of one worker: side by side where each waits for a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from deltactl.storage.open import is_local_uri
from deltactl.storage.store import Store

T = TypeVar("T")
R = TypeVar("R")

_REMOTE_REQUESTS: Final = 16


def map_requests(
    store: Store, ask: Callable[[T], R], items: Iterable[T], *, at_once: int = _REMOTE_REQUESTS
) -> Iterator[R]:
    """``ask`` for each item, results in order; on local disks one after another."""
    if is_local_uri(store.uri):
        yield from map(ask, items)
        return
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(ask, items)
