"""Limit the rate of the requests of this process.

If a store gets too many requests, it answers 503 (SlowDown) or 429. Then the rate is halved. The
rate increases again with each request that succeeds, so it stays near the rate that the store
allows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

from deltactl.errors import UsageError

RATE_OPTION: Final = "max_requests_per_second"
"""The only storage option that deltactl itself defines."""

_WINDOW_SECONDS: Final = 1.0
_CUT: Final = 0.5
# The store can still refuse requests that were sent before the rate was halved: do not halve it
# again for these.
_IGNORE_SECONDS: Final = 0.5
# Any store allows this rate: if a command sends few requests, a few refusals must not stop it.
_LOWEST_RATE: Final = 5.0
# Increase per second, as a fraction of the rate that was last refused.
_GROWTH: Final = 0.1
# At this multiple of the rate that was last refused, requests are no longer delayed.
_UNLIMITED_AT: Final = 4.0
_MAX_PAUSE_SECONDS: Final = 0.5


def parse_rate(value: object) -> float | None:
    """Return a number of requests per second; if ``value`` is ``None``, return ``None``.

    Raises:
        UsageError: the value is not a number above zero.
    """
    if value is None:
        return None
    try:
        rate = float(str(value))
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise UsageError(
            f"{value!r} is not a number of requests per second", hint="Write 200, or 0.5."
        )
    return rate


Rate: TypeAlias = Annotated[float, parse_rate]


class Pacer:
    """Assigns a time to each request. Threads may share it.

    ``limit`` is the highest number of requests per second. If it is ``None``, requests are not
    delayed until a store refuses one.
    """

    def __init__(
        self,
        limit: float | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        """Take a clock and a random source: ``now`` in seconds, ``jitter`` in [0, 1)."""
        import random  # loads modules for hashes, not needed when only the option is declared

        self._limit = limit
        self._now = now
        self._jitter = jitter or random.random
        self._lock = threading.Lock()
        self._rate = limit
        self._refused_at: float | None = None
        self._next = 0.0
        self._ignore_until = 0.0
        self._sent: deque[float] = deque()

    def reserve(self) -> float:
        """Take the next free time for a request; return how many seconds the request must wait."""
        with self._lock:
            now = self._now()
            at = max(now, self._next)
            if self._rate is not None:
                self._next = at + 1 / self._rate
            self._sent.append(at)
            while self._sent[0] < at - _WINDOW_SECONDS:
                self._sent.popleft()
            return at - now

    def refused(self) -> None:
        """Halve the rate, because the store refused a request."""
        with self._lock:
            now = self._now()
            if now < self._ignore_until:
                return
            # If there was no limit, the rate is what was sent in the last second.
            seen = len(self._sent) / _WINDOW_SECONDS
            self._refused_at = seen if self._rate is None else min(self._rate, max(seen, 1.0))
            self._rate = max(_LOWEST_RATE, self._refused_at * _CUT)
            self._ignore_until = now + _IGNORE_SECONDS
            # Clients that were refused at the same time must not retry at the same time.
            pause = _MAX_PAUSE_SECONDS * (0.5 + self._jitter() / 2)
            self._next = max(self._next, now + pause)

    def served(self) -> None:
        """Increase the rate, because a request succeeded."""
        with self._lock:
            if self._rate is None or self._refused_at is None:
                return
            self._rate += _GROWTH * self._refused_at / self._rate
            if self._rate > _UNLIMITED_AT * self._refused_at:
                self._rate, self._refused_at = self._limit, None
            if self._limit is not None and self._rate is not None:
                self._rate = min(self._rate, self._limit)
