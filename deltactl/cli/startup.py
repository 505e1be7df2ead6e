"""Load Arrow without pandas, which deltactl does not use."""

from __future__ import annotations

import sys
from typing import Any


class _NoPandas:
    """An import finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find no module; for pandas, raise an error instead of asking the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden for this import", name=name)


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
