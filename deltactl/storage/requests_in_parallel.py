"""Many small requests of one worker: side by side where each waits for a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from deltactl.storage.open import is_local_uri
from deltactl.storage.parallel import PARALLEL_REQUESTS, each_in_parallel
from deltactl.storage.store import Store

T = TypeVar("T")
R = TypeVar("R")


def map_requests(
    store: Store, ask: Callable[[T], R], items: Iterable[T], *, at_once: int = PARALLEL_REQUESTS
) -> Iterator[R]:
    """``ask`` for each item, results in order; on local disks one after another."""
    if is_local_uri(store.uri):
        yield from map(ask, items)
        return
    yield from each_in_parallel(ask, items, at_once=at_once)
