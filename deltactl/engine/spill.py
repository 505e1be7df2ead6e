"""Keep the rows of an shuffle in memory; above a limit, keep them in a file on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from deltactl.numpy_types import Integers
from deltactl.option_names import option
from deltactl.storage.local.spill import Spill

PLACE: Final = pa.field("place", pa.int64(), nullable=False)
"""The last column of shuffled rows: the place of each row at its destination."""


def spill_dir_hint() -> str:
    """Return the hint of errors about missing disk space."""
    return (
        f"Use {option('spill_dir')} to choose a directory with more space, or rerun with a larger "
        f"{option('memory_bytes')}. To optimize only some partitions, add {option('where')}."
    )


class Spool(Spill):
    """Keeps rows and their places by destination."""

    def __init__(
        self, schema: pa.Schema, destinations: int, memory_bytes: int, folder: str | None = None
    ) -> None:
        """Keep rows with the columns of ``schema``, and the column ``PLACE``.

        ``folder`` is by default the directory for temporary files.
        """
        super().__init__(
            schema.append(PLACE),
            memory_bytes,
            folder,
            hint=spill_dir_hint(),
        )
        self.rows = np.zeros(destinations, np.int64)
        """The number of rows of each destination."""

    def add(self, batch: pa.RecordBatch, destinations: Integers, within: Integers) -> None:
        """Add the rows of a batch, with a destination and a place there for each row.

        Raises:
            StorageError: the disk is full, or failed.
        """
        self.keep(list(divide(batch, destinations, within)), size_with_places(batch))

    def keep(self, pieces: Sequence[tuple[int, pa.RecordBatch]], size_bytes: int) -> None:
        """Add rows with their places, by destination; ``size_bytes`` is their total size.

        Raises:
            StorageError: the disk is full or failed.
        """
        with self._lock:
            for destination, piece in pieces:
                self.rows[destination] += piece.num_rows
        super().keep(pieces, size_bytes)


def size_with_places(batch: pa.RecordBatch) -> int:
    """Return the bytes of rows and their places. A place can be larger than its row."""
    return int(batch.nbytes + batch.num_rows * PLACE.type.byte_width)


def divide(
    batch: pa.RecordBatch, destinations: Integers, within: Integers
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each destination and its rows of the batch, in ascending order of destinations.

    The rows get a column with their places, and are in the order of ``within``. A later sort then
    reads consecutive memory, which is faster than single rows.
    """
    order = _sort(destinations, within)
    ordered = destinations[order]
    rows = batch.append_column(PLACE, pa.array(within)).take(pa.array(order))
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    for first, end in zip(firsts, [*firsts[1:], len(ordered)], strict=True):
        yield int(ordered[first]), rows.slice(first, end - first)


def _sort(destinations: Integers, within: Integers) -> Integers:
    """Return row numbers sorted by destination, then by place.

    Both are sorted by one key of 63 bits. If they do not fit, the order by place is only
    approximate.
    """
    if not len(within):
        return np.empty(0, np.int64)
    bits, room = int(within.max()).bit_length(), 63 - int(destinations.max()).bit_length()
    keys = (destinations << min(bits, room)) | (within >> max(0, bits - room))
    return np.argsort(keys)
