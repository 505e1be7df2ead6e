"""Read parts of an object in any order, with few requests.

``open`` reads the end of the object. In Parquet the footer is at the end, and a small file is read
completely in this way. Other reads request more bytes than the caller needs, because readers
usually continue with the next bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Final

from fsspec.utils import merge_offset_ranges

TAIL_BYTES: Final = 4 << 20
_FIRST_WINDOW_BYTES: Final = 8 << 20
_LARGEST_WINDOW_BYTES: Final = 32 << 20
_WINDOWS: Final = 2

ReadRange = Callable[[int, int], bytes]
"""``read_range(offset, length)`` returns exactly these bytes of the object, or raises an error."""


class RangedFile(io.RawIOBase):
    """An object whose last bytes are in memory, with at most two windows of other bytes."""

    def __init__(self, tail: bytes, size_bytes: int, read_range: ReadRange) -> None:
        """Read bytes before ``tail`` with ``read_range``."""
        super().__init__()
        self._tail, self._size = tail, size_bytes
        self._tail_start = size_bytes - len(tail)
        self._read_range = read_range
        self._position = 0
        self._windows: list[tuple[int, bytes]] = []
        self._ahead = _FIRST_WINDOW_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to ``size`` bytes from the current position on."""
        start = min(self._position, self._size)
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        data = self._read_between(start, end)
        self._position = end
        return data

    def _read_between(self, start: int, end: int) -> bytes:
        if start >= self._tail_start:
            return self._tail[start - self._tail_start : end - self._tail_start]
        before = min(end, self._tail_start)
        data = self._read_before_tail(start, before)
        return data if before == end else data + self._tail[: end - self._tail_start]

    def _read_before_tail(self, start: int, end: int) -> bytes:
        for first, window in self._windows:
            if first <= start and end <= first + len(window):
                return window[start - first : end - first]
        length = min(max(end - start, self._ahead), self._tail_start - start)
        window = self._read_range(start, length)
        if len(window) != length:
            raise EOFError(f"got {len(window)} of {length} bytes at {start}")
        self._ahead = min(2 * self._ahead, _LARGEST_WINDOW_BYTES)
        # It is not kept: it needs more memory than a window may have.
        if length > _LARGEST_WINDOW_BYTES:
            return window[: end - start]
        self._windows = [*self._windows[1 - _WINDOWS :], (start, window)]
        return window[: end - start]


def coalesce(
    ranges: list[tuple[int, int]], largest_gap: int, largest_bytes: int
) -> list[tuple[int, int]]:
    """Return ranges (offset, length) that cover all of ``ranges``, by increasing offset.

    Two ranges are merged if at most ``largest_gap`` bytes are between them and the merged range has
    at most ``largest_bytes``. Empty ranges are omitted.
    """
    # fsspec drops a range that is given twice.
    wanted = sorted({(offset, offset + length) for offset, length in ranges if length})
    starts, ends = [start for start, _ in wanted], [end for _, end in wanted]
    _, starts, ends = merge_offset_ranges(
        [""] * len(wanted), starts, ends, largest_gap, largest_bytes
    )
    return [(start, end - start) for start, end in zip(starts, ends, strict=True)]
