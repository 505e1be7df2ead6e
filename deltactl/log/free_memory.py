"""Give memory that is free in the heap of the C library back to the kernel.

The library keeps most of the memory that one thread freed for this thread. So when another thread
replaces large columns, the process would need the memory of both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

import pyarrow as pa


def release_free_memory() -> None:
    """Return free memory to the kernel, if the C library has a function for this."""
    trim = _find_malloc_trim()
    if trim is not None:
        trim(0)
    # With most builds of Arrow, this does nothing for the heap.
    pa.system_memory_pool().release_unused()


@cache
def _find_malloc_trim() -> Callable[[int], int] | None:
    """Return a function of the C library of Linux that Python does not offer, or ``None``."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        found = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # pragma: no cover - another C library
        return None
    found.argtypes = [ctypes.c_size_t]
    return found
