"""Keep the start short, and configure the process before Arrow is loaded."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

_M_ARENA_MAX: Final = -8  # of mallopt(3)


class _NoPandas:
    """An import finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find no module; for pandas, raise an error instead of asking the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden for this import", name=name)


class _AsTyped:
    """The conversion of a parameter's value: none."""

    @staticmethod
    def coerce(value: Any, param: Any, ctx: Any) -> Any:
        """Return the value; an empty tuple for a repeated parameter without values."""
        is_repeated = param.multiple or param.nargs == -1
        return () if value is None and is_repeated else value


def take_as_typed(params: list[Any]) -> list[Any]:
    """Return the parameters, for which Typer now passes values on as they are typed.

    ``Declared.convert`` reads the texts. Typer would import pydantic to convert texts to texts,
    which takes a quarter of the start. Another version of Typer may ignore this.
    """
    for param in params:
        param._runtime_param = _AsTyped
    return params


def load_arrow() -> None:
    """Import Arrow, and make its first array while pandas is hidden.

    pyarrow would import pandas only to check whether the values are pandas objects. That takes as
    long as all other imports together. Later imports of pandas still work; only pyarrow runs
    without it in this process.
    """
    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


def share_free_memory() -> None:
    """Let all threads allocate from one arena of the C library, if the address space is limited.

    Otherwise glibc reserves 64 MiB of address space for each thread, and mimalloc 1 GiB: under
    `ulimit -v`, the process would abort although most of this memory is never used.
    """
    import ctypes

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)
