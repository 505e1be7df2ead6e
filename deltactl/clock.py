"""The time and fresh ids, as something to be passed in.

Nothing below ``cli`` asks the machine for either: retention, commit timestamps and names of files
then repeat exactly in a test.
"""

from __future__ import annotations

import itertools
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


class FixedClock:
    """A clock that moves only when told, and ids that count from 1.

    ``step_ms`` is added at each ``now_ms`` after the first, for what must see time pass.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000, *, step_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._step_ms = step_ms
        self._elapsed_ms = 0
        self._ids = itertools.count(1)

    def now_ms(self) -> int:
        """The set time, then a step later at each call."""
        now = self._now_ms
        self.advance(self._step_ms)
        return now

    def monotonic(self) -> float:
        """Seconds this clock has been advanced by."""
        return self._elapsed_ms / 1000

    def new_id(self) -> str:
        """``00000000-0000-4000-8000-000000000001`` and so on."""
        return str(uuid.UUID(int=next(self._ids), version=4))

    def advance(self, ms: int) -> None:
        """Move both clocks on by ``ms`` milliseconds; the wall clock may go back."""
        self._now_ms += ms
        self._elapsed_ms += max(ms, 0)
