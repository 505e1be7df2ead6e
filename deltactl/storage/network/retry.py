"""Retry requests to object stores: which requests, how often and how long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from deltactl.storage.errors import is_transient

R = TypeVar("R")

_FIRST_DELAY_SECONDS: Final = 0.2
_MAX_DELAY_SECONDS: Final = 10.0


class RetryPolicy:
    """Retry after transient errors, with increasing pauses.

    This is only for requests that may be sent twice: reads, and writes that lead to the same state
    when they are repeated.
    """

    def __init__(
        self,
        *,
        attempts: int = 7,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Try up to ``attempts`` times. ``sleep`` takes seconds; ``jitter`` is in [0, 1)."""
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter

    def call(self, request: Callable[[], R]) -> R:
        """Return the result of ``request``, or raise its last error."""
        for failures in range(self._attempts - 1):
            try:
                return request()
            except Exception as error:
                if not is_transient(error):
                    raise
            self.pause(failures)
        return request()

    def pause(self, failures: int) -> None:
        """Wait before the next attempt; the pause depends on the number of failures."""
        longest = min(_FIRST_DELAY_SECONDS * 2**failures, _MAX_DELAY_SECONDS)
        # Half of the pause is fixed, and half is random: clients that failed at the same time must
        # not retry at the same time.
        self._sleep(longest * (0.5 + self._jitter() / 2))
