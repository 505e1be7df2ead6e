"""Choose the allocator of Arrow for rows that move between files.

This is not part of ``memory``, because the command line imports ``memory`` before it chooses how
Arrow is loaded.
"""

from __future__ import annotations

import pyarrow as pa

_replaceable: set[str] = set()


def make_replaceable() -> None:
    """Let ``reuse_memory`` replace the present allocator, which the program chose, not its user."""
    _replaceable.add(pa.default_memory_pool().backend_name)


def reuse_memory() -> None:
    """Use Arrow's own allocator, if a command chose the allocator of the C library.

    The allocator of the C library returns large blocks to the kernel when they are freed. Then each
    page of the next block costs a page fault. For rows that move between files, this is a sixth of
    all processor time. This function does not change an allocator that a user chose, with
    ``ARROW_DEFAULT_MEMORY_POOL`` or in a program that uses the library.
    """
    has_own = "mimalloc" in pa.supported_memory_backends()
    if has_own and pa.default_memory_pool().backend_name in _replaceable:
        pa.set_memory_pool(pa.mimalloc_memory_pool())
