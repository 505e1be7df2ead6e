"""Memory of footers that nobody holds any more.

Arrow's footer holds its schema, once that was asked for, and the schema its footer: only Python's
collector of cycles frees them. It counts objects, not bytes, so that of a wide table gigabytes
would wait for it; and the program lets it run seldom (``cli/app.py``).
"""

from __future__ import annotations

import gc
import threading
from typing import Final

import pyarrow.parquet as pq

MAX_WAITING_BYTES: Final = 8 << 20
"""Of footers as they are stored; in memory they take some ten times as much."""


class _Waiting:
    """How many bytes of footers may be waiting for the collector."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0

    def add(self, size_bytes: int) -> bool:
        """Whether that is enough; then it begins anew."""
        with self._lock:
            self._bytes += size_bytes
            if self._bytes < MAX_WAITING_BYTES:
                return False
            self._bytes = 0
            return True


_waiting = _Waiting()


def count_footer(footer: pq.FileMetaData) -> None:
    """Take note of a footer whose schema will be asked for; now and then, free those before it."""
    if _waiting.add(footer.serialized_size):
        gc.collect()
