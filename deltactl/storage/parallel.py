"""Send requests in parallel, because object stores are fast only in this way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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
    """Yield the result of ``work`` for each item, in order.

    Up to ``at_once`` items are in progress, or finished before the caller needs their results.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    # No threads for one item.
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
            # After an error, or if the caller stops: no further request is sent.
            for future in waiting:
                future.cancel()


def pages_in_parallel(pages_of: Callable[[A], Iterator[R]], items: Iterable[A]) -> Generator[R]:
    """Yield the pages of each item: those of one item in order, those of all items unordered.

    The next page of up to 16 items is requested before the caller needs it.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    # No threads for one item.
    if len(first) <= 1:
        yield from chain.from_iterable(map(pages_of, first))
        return
    waiting: dict[Future[R | None], Iterator[R]] = {}
    with ThreadPoolExecutor(PARALLEL_REQUESTS, thread_name_prefix="deltactl-ask") as pool:

        def ask(pages: Iterator[R]) -> None:
            waiting[pool.submit(next, pages, None)] = pages

        try:
            rest = chain(first, rest)
            for item in islice(rest, PARALLEL_REQUESTS):
                ask(pages_of(item))
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    pages, page = waiting.pop(future), future.result()
                    if page is not None:
                        ask(pages)
                        yield page
                        continue
                    for item in islice(rest, 1):
                        ask(pages_of(item))
        finally:
            for future in waiting:
                future.cancel()


def map_requests(
    store: Store, ask: Callable[[A], R], items: Iterable[A], *, at_once: int = PARALLEL_REQUESTS
) -> Iterator[R]:
    """Yield the result of ``ask`` for each item, in order.

    On object stores, requests run in parallel; on local file systems, one after the other.
    """
    if is_local_uri(store.uri):
        yield from map(ask, items)
        return
    yield from each_in_parallel(ask, items, at_once=at_once)
