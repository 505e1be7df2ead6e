"""Configure and load Arrow for a command."""

from __future__ import annotations

import os
import sys
from typing import Any, Final


class _NoPandas:
    """An import finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find no module; for pandas, raise an error instead of asking the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden for this import", name=name)


_POOL: Final = "ARROW_DEFAULT_MEMORY_POOL"
_M_ARENA_MAX: Final = -8  # of mallopt(3)


def load_arrow(*, uses_system_pool: bool = False) -> None:
    """Import Arrow, and make its first array while pandas is hidden: deltactl does not use pandas.

    pyarrow would import pandas only to check whether the values are pandas objects. That takes as
    long as all other imports together. Later imports of pandas still work; only pyarrow runs
    without it in this process.

    Args:
        uses_system_pool: take memory from the C library, which keeps fewer free pages than Arrow's
            own allocator; which one is faster depends on the command. If the
            variable ``ARROW_DEFAULT_MEMORY_POOL`` is set, it decides.
    """
    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    chooses = uses_system_pool and _POOL not in os.environ
    if chooses:
        os.environ[_POOL] = "system"  # Arrow reads it once, before its first array
        _share_free_memory()
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
        if chooses:
            del os.environ[_POOL]  # it is not meant for processes that this one starts


def _share_free_memory() -> None:
    """Let all threads allocate from one arena of the C library, if it is glibc.

    By default each thread has its own, whose free memory no other thread can use: a run that
    clusters 380 MB took 800 MB at its peak, and 490 MB with one arena, in the same time.
    """
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)
