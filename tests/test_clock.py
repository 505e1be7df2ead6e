"""The system's clock is sane."""

import time
import uuid

from deltactl.clock import Clock, SystemClock


def test_the_system_clock_shows_the_time_and_fresh_ids() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 60_000
    assert clock.monotonic() <= clock.monotonic()
    first, second = clock.new_id(), clock.new_id()
    assert first != second
    assert str(uuid.UUID(first)) == first
