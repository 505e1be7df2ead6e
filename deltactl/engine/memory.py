"""Find the memory limits of this process."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# The address space that Python, NumPy and Arrow use before the first row is read (measured).
_CODE_BYTES = 320 << 20


def machine_memory_bytes() -> int:
    """Return the bytes that this process may use: the limit of its cgroup or address space."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    space = limit_of_address_space()
    if space is not None:
        physical = min(physical, max(space - _CODE_BYTES, space // 8))
    for path in _CGROUP_LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return min(physical, int(text))
    return physical


def limit_of_address_space() -> int | None:
    """Return the bytes that this process may map (``ulimit -v``); ``None`` if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
