"""Retry requests to object stores: which requests, how often and how long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from deltactl.storage.errors import is_transient, is_unreachable

R = TypeVar("R")

_FIRST_DELAY_SECONDS: Final = 0.2
_MAX_DELAY_SECONDS: Final = 10.0
_FIRST_CONTACT_SECONDS: Final = 1.5  # a wrong address never answers: say so soon


class RetryPolicy:
    """Retry after transient errors, with increasing pauses.

    This is only for requests that may be sent twice: reads, and writes that lead to the same state
    when they are repeated. A store that never answered is not waited for: its address is wrong, or
    there is no network.
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
        self._has_answered = False

    def call(self, request: Callable[[], R]) -> R:
        """Return the result of ``request``, or raise its last error."""
        begun = time.monotonic()
        for failures in range(self._attempts - 1):
            try:
                result = request()
            except Exception as error:
                if not is_transient(error):
                    raise
                self._has_answered = self._has_answered or not is_unreachable(error)
                waited = time.monotonic() - begun
                if not self._has_answered and waited > _FIRST_CONTACT_SECONDS:
                    raise
            else:
                self._has_answered = True
                return result
            self.pause(failures)
        # The last attempt: its error is raised.
        return request()

    def pause(self, failures: int) -> None:
        """Wait before the next attempt; the pause depends on the number of failures."""
        longest = min(_FIRST_DELAY_SECONDS * 2**failures, _MAX_DELAY_SECONDS)
        # Half of the pause is fixed, and half is random: clients that failed at the same time must
        # not retry at the same time.
        self._sleep(longest * (0.5 + self._jitter() / 2))
