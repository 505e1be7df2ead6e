"""Trying again what may be tried again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from deltactl.storage.errors import is_transient

R = TypeVar("R")

_FIRST_DELAY_SECONDS: Final = 0.2
_LONGEST_DELAY_SECONDS: Final = 10.0


class Patience:
    """Asks again after errors that often pass, with growing pauses.

    Only for requests that may be sent twice: reads, and writes that end in the same state.
    """

    def __init__(
        self,
        *,
        attempts: int = 7,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Try up to ``attempts`` times; ``sleep`` takes seconds, ``jitter`` gives [0, 1)."""
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter

    def ask(self, call: Callable[[], R]) -> R:
        """Give what ``call`` gives, or raise what it raised last."""
        for failures in range(self._attempts - 1):
            try:
                return call()
            except Exception as error:
                if not is_transient(error):
                    raise
            self.pause(failures)
        return call()

    def pause(self, failures: int) -> None:
        """Wait before another try, after so many failures."""
        longest = min(_FIRST_DELAY_SECONDS * 2**failures, _LONGEST_DELAY_SECONDS)
        # Half fixed, half by lot: clients that failed together do not come back together.
        self._sleep(longest * (0.5 + self._jitter() / 2))
