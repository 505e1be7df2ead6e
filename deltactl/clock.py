"""The time and fresh ids, as something to be passed in.

Nothing below ``cli`` asks the machine for either: retention, commit timestamps and names of files
then repeat exactly in a test.
"""

from __future__ import annotations

import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """Where the time and fresh ids come from."""

    def now_ms(self) -> int:
        """Wall clock: milliseconds since 1970-01-01T00:00:00Z. It may step backwards."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary point, never backwards: for measuring how long a step took."""
        ...

    def new_id(self) -> str:
        """A fresh UUID in its textual form, lower case."""
        ...


class SystemClock:
    """The clock of this machine, and random (version 4) ids."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds from an arbitrary point."""
        return time.monotonic()

    def new_id(self) -> str:
        """A random UUID."""
        return str(uuid.uuid4())
