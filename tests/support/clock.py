"""A clock for tests."""

import itertools
import time
import uuid


def await_next_second() -> None:
    """Let what was stored before be older by a second: stores tell times in whole seconds."""
    time.sleep(1.1 - time.time() % 1)


class FixedClock:
    """A clock that only ``advance`` moves, and ids that count from ``first_id``.

    ``step_ms`` is added after each ``now_ms``, for code that must see time pass.
    """

    def __init__(
        self, now_ms: int = 1_700_000_000_000, *, step_ms: int = 0, first_id: int = 1
    ) -> None:
        self._now_ms = now_ms
        self._step_ms = step_ms
        self._elapsed_ms = 0
        self._ids = itertools.count(first_id)

    def now_ms(self) -> int:
        """Return the current time, then advance it by ``step_ms``."""
        now = self._now_ms
        self.advance(self._step_ms)
        return now

    def monotonic(self) -> float:
        """Return the seconds by which this clock has advanced."""
        return self._elapsed_ms / 1000

    def new_id(self) -> str:
        """Return ``00000000-0000-4000-8000-000000000001`` and so on."""
        return str(uuid.UUID(int=next(self._ids), version=4))

    def advance(self, ms: int) -> None:
        """Move both clocks by ``ms`` milliseconds; only the wall clock may go back."""
        self._now_ms += ms
        self._elapsed_ms += max(ms, 0)
