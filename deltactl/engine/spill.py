"""Keep the rows of an exchange in memory, and above a limit in a file on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltactl.engine.memory import machine_memory_bytes
from deltactl.engine.take_rows import take_rows
from deltactl.storage.local.spill import Spill

PLACE: Final = pa.field("place", pa.int64(), nullable=False)
"""The last column of exchanged rows: the place of each row at its destination."""

# Of the memory, for rows that are not compressed: the kernel of Linux begins to write a file to the
# disk at a tenth.
_SHARE_OF_MEMORY: Final = 10

SPILL_DIR_HINT: Final = (
    "Choose a directory with more space with --spill-dir, or rerun with more --memory "
    "or with --where for a part of the table."
)
"""The hint of errors about space."""


class Spool(Spill):
    """Keeps rows and their places by destination."""

    def __init__(
        self, schema: pa.Schema, destinations: int, memory_bytes: int, folder: str | None = None
    ) -> None:
        """Take the columns of the rows; ``folder`` is by default that for temporary files.

        ``schema``: the same columns, and ``PLACE``.
        """
        super().__init__(
            schema.append(PLACE),
            memory_bytes,
            folder,
            uncompressed_bytes=machine_memory_bytes() // _SHARE_OF_MEMORY,
            hint=SPILL_DIR_HINT,
        )
        self.rows = np.zeros(destinations, np.int64)
        """The number of rows of each destination."""

    def add(
        self,
        batch: pa.RecordBatch,
        destinations: npt.NDArray[np.int64],
        within: npt.NDArray[np.int64],
    ) -> None:
        """Take the rows of a batch; for each a destination, and its place there.

        Raises:
            StorageError: the disk is full, or failed.
        """
        self.keep(list(divide(batch, destinations, within)), int(batch.nbytes))

    def keep(self, pieces: Sequence[tuple[int, pa.RecordBatch]], size_bytes: int) -> None:
        """Take rows with their places by destination; ``size_bytes`` is their total size.

        Raises:
            StorageError: the disk is full or failed.
        """
        with self._lock:
            for destination, piece in pieces:
                self.rows[destination] += piece.num_rows
        super().keep(pieces, size_bytes)


def divide(
    batch: pa.RecordBatch,
    destinations: npt.NDArray[np.int64],
    within: npt.NDArray[np.int64],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a batch and their places by destination, in ascending order of these.

    Rows of a destination are in the order of ``within``: a later sort then reads consecutive
    memory, which is faster than single rows.
    """
    order = _sort(destinations, within)
    ordered = destinations[order]
    rows = take_rows(batch.append_column(PLACE, pa.array(within)), order)
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    for first, end in zip(firsts, [*firsts[1:], len(ordered)], strict=True):
        yield int(ordered[first]), rows.slice(first, end - first)


def _sort(
    destinations: npt.NDArray[np.int64], within: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the rows by destination, and about by place: what both have room for in 63 bits."""
    if not len(within):
        return np.empty(0, np.int64)
    bits, room = int(within.max()).bit_length(), 63 - int(destinations.max()).bit_length()
    keys = (destinations << min(bits, room)) | (within >> max(0, bits - room))
    return np.argsort(keys)
