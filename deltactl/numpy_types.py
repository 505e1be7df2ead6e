"""Types of NumPy arrays, one name for each type of element."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array of any type."""
Flags: TypeAlias = npt.NDArray[np.bool_]
"""A mask."""
Integers: TypeAlias = npt.NDArray[np.int64]
"""Numbers, sizes, versions, indexes of rows, or counts."""
Floats: TypeAlias = npt.NDArray[np.float64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Hashes: TypeAlias = npt.NDArray[np.uint64]
WideHashes: TypeAlias = npt.NDArray[np.bytes_]
"""Hashes of 16 bytes."""
