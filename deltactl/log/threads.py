"""Choose how many threads decode parts of the log at the same time."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

# More threads need more memory, and read faster than one thread can use the results.
_MAX_THREADS: Final = 4


def count_threads() -> int:
    """Return the number of threads: one for each core, at most four."""
    cores: int = pa.cpu_count()
    return max(1, min(_MAX_THREADS, cores))
