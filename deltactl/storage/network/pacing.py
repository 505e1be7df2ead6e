"""How fast requests may leave this process.

A store that is asked too fast says so (503 SlowDown, 429). The rate is then halved, and grows again
with each request that is served: it settles around what the store allows.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

_WINDOW_SECONDS: Final = 1.0
_CUT: Final = 0.5
# Requests sent before the rate fell are refused a moment longer: one cut answers all of them.
_DEAF_SECONDS: Final = 0.5
# Any store serves so many: a few refusals of a command that asks little must not stall it.
_LOWEST_RATE: Final = 5.0
# Per second, as a part of the rate that was last refused.
_GROWTH: Final = 0.1
# So much faster than what was refused last, nothing needs to be held back any more.
_FORGOTTEN: Final = 4.0
_LONGEST_PAUSE_SECONDS: Final = 0.5


class Pacer:
    """Gives each request its moment; safe to share between threads.

    ``limit`` is the most requests a second, ever; without it all go at once until a store objects.
    """

    def __init__(
        self,
        limit: float | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """``now`` gives seconds, ``jitter`` a number in [0, 1)."""
        self._limit = limit
        self._now = now
        self._jitter = jitter
        self._lock = threading.Lock()
        self._rate = limit
        self._refused_at: float | None = None
        self._next = 0.0
        self._deaf_until = 0.0
        self._sent: deque[float] = deque()

    @property
    def rate(self) -> float | None:
        """Requests a second at present; ``None`` while nothing holds them back."""
        return self._rate

    def reserve(self) -> float:
        """Take the next moment; gives the seconds to wait for it."""
        with self._lock:
            now = self._now()
            moment = max(now, self._next)
            if self._rate is not None:
                self._next = moment + 1 / self._rate
            self._sent.append(moment)
            while self._sent[0] < moment - _WINDOW_SECONDS:
                self._sent.popleft()
            return moment - now

    def refused(self) -> None:
        """Learn that the store asks for fewer requests."""
        with self._lock:
            now = self._now()
            if now < self._deaf_until:
                return
            seen = len(self._sent) / _WINDOW_SECONDS
            self._refused_at = seen if self._rate is None else min(self._rate, max(seen, 1.0))
            self._rate = max(_LOWEST_RATE, self._refused_at * _CUT)
            self._deaf_until = now + _DEAF_SECONDS
            # Clients that were refused together do not come back together.
            pause = _LONGEST_PAUSE_SECONDS * (0.5 + self._jitter() / 2)
            self._next = max(self._next, now + pause)

    def served(self) -> None:
        """Learn that a request was answered."""
        with self._lock:
            if self._rate is None or self._refused_at is None:
                return
            self._rate += _GROWTH * self._refused_at / self._rate
            if self._rate > _FORGOTTEN * self._refused_at:
                self._rate, self._refused_at = self._limit, None
            if self._limit is not None and self._rate is not None:
                self._rate = min(self._rate, self._limit)
