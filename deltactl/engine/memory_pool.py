"""Choose the allocator of Arrow for rows that move between files.

Not in ``memory``, which the command line imports before it chooses how Arrow is loaded.
"""

from __future__ import annotations

import pyarrow as pa

_replaceable: set[str] = set()


def make_replaceable() -> None:
    """Let ``reuse_memory`` replace the present allocator, which the program chose, not its user."""
    _replaceable.add(pa.default_memory_pool().backend_name)


def reuse_memory() -> None:
    """Let Arrow take memory from its own allocator, where a command chose that of the C library.

    That of the C library returns large blocks to the kernel when they are freed, and each page of
    the next block costs a page fault: for rows that move between files, a sixth of all processor
    time. The choice of a user stays: ``ARROW_DEFAULT_MEMORY_POOL``, or that of a program that uses
    the library.
    """
    has_own = "mimalloc" in pa.supported_memory_backends()
    if has_own and pa.default_memory_pool().backend_name in _replaceable:
        pa.set_memory_pool(pa.mimalloc_memory_pool())
