"""Give the time and new ids, as an object that callers pass.

Code below ``cli`` never reads the system clock and never creates random ids itself, so that a test
can repeat retention, commit timestamps and file names exactly.
"""

from __future__ import annotations

import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """The source of the time and of new ids."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z; the clock may go backwards."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary point, which never decrease: to measure durations."""
        ...

    def new_id(self) -> str:
        """Return a new UUID as a lower-case string."""
        ...


class SystemClock:
    """The clock of this machine, and random (version 4) ids."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds from an arbitrary point."""
        return time.monotonic()

    def new_id(self) -> str:
        """Return a random UUID."""
        return str(uuid.uuid4())
