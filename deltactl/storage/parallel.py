"""Send requests in parallel, which makes object stores fast."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Final, TypeVar

from deltactl.storage.names import is_local_uri
from deltactl.storage.store import Store

A = TypeVar("A")
R = TypeVar("R")

PARALLEL_REQUESTS: Final = 16


def each_in_parallel(
    work: Callable[[A], R], items: Iterable[A], *, at_once: int = PARALLEL_REQUESTS
) -> Generator[R]:
    """Yield the result of ``work`` for each item, in order; up to ``at_once`` run in advance."""
    rest = iter(items)
    first = list(islice(rest, 2))
    if len(first) <= 1:
        yield from map(work, first)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(at_once, thread_name_prefix="deltactl-ask") as pool:
        try:
            for item in chain(first, rest):
                waiting.append(pool.submit(work, item))
                if len(waiting) >= at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


T = TypeVar("T")


def map_requests(
    store: Store, ask: Callable[[T], R], items: Iterable[T], *, at_once: int = PARALLEL_REQUESTS
) -> Iterator[R]:
    """Yield the result of ``ask`` for each item, in order.

    Not in parallel on local file systems.
    """
    if is_local_uri(store.uri):
        yield from map(ask, items)
        return
    yield from each_in_parallel(ask, items, at_once=at_once)
