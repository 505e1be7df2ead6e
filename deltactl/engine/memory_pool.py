"""Choose the allocator of Arrow for rows that move between files.

This is not part of ``memory``, because the command line imports ``memory`` before it chooses how
Arrow is loaded.
"""

from __future__ import annotations

import os

import pyarrow as pa


def reuse_memory() -> None:
    """Use Arrow's own allocator, if the program chose the allocator of the C library.

    The allocator of the C library returns large blocks to the kernel when they are freed. Then each
    page of the next block costs a page fault. For rows that move between files, this is a sixth of
    all processor time. If ``ARROW_DEFAULT_MEMORY_POOL`` names an allocator, this function does not
    change it.
    """
    pool, is_named = pa.default_memory_pool(), "ARROW_DEFAULT_MEMORY_POOL" in os.environ
    has_own = "mimalloc" in pa.supported_memory_backends()
    if pool.backend_name == "system" and has_own and not is_named:
        pa.set_memory_pool(pa.mimalloc_memory_pool())
