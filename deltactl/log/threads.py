"""Decode parts of the log in other threads, and choose how many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa

# More threads need more memory, and read faster than one thread can use the results.
_MAX_THREADS: Final = 4
_MOST_AHEAD: Final = 5
_AHEAD_BYTES: Final = 96 << 20


def count_threads() -> int:
    """Return the number of threads: one for each core, at most four."""
    cores: int = pa.cpu_count()
    return max(1, min(_MAX_THREADS, cores))


def read_ahead(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield batches, while another thread reads a few of the next batches, of bounded size.

    One batch would be too few: to encode a row group takes as long as to read several batches.
    """
    iterator = iter(batches)
    pool = ThreadPoolExecutor(1, thread_name_prefix="deltactl-read")
    try:
        pending = deque([pool.submit(next, iterator, None)])
        while (batch := pending.popleft().result()) is not None:
            most = max(1, min(_MOST_AHEAD, _AHEAD_BYTES // max(batch.nbytes, 1)))
            while len(pending) < most:
                pending.append(pool.submit(next, iterator, None))
            yield batch
    finally:
        # Also if the caller does not take all batches.
        pool.shutdown(cancel_futures=True)
