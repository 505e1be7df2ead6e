"""Imports that a command can do without."""

from __future__ import annotations

import sys
from typing import Any


class _NoPandas:
    """A finder that says that there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find nothing, and let nobody else look for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is kept out", name=name)


def keep_pandas_out() -> None:
    """Let pyarrow make its first array without pandas, which nothing here uses.

    It would import pandas just to ask whether the values are one of its kinds, and that takes as
    long as all other imports together. Who imports pandas later still can; pyarrow alone does
    without it in this process.
    """
    import pyarrow as pa

    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
