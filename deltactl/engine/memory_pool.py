"""Choose the allocator of Arrow for rows that move between files.

Not in ``memory``, which the command line imports before it chooses how Arrow is loaded.
"""

from __future__ import annotations

import os

import pyarrow as pa


def reuse_memory() -> None:
    """Let Arrow take memory from its own allocator, where the program chose that of the C library.

    That of the C library returns large blocks to the kernel when they are freed, and each page of
    the next block costs a page fault: for rows that move between files, a sixth of all processor
    time. An allocator that ``ARROW_DEFAULT_MEMORY_POOL`` names stays.
    """
    pool, is_named = pa.default_memory_pool(), "ARROW_DEFAULT_MEMORY_POOL" in os.environ
    has_own = "mimalloc" in pa.supported_memory_backends()
    if pool.backend_name == "system" and has_own and not is_named:
        pa.set_memory_pool(pa.mimalloc_memory_pool())
