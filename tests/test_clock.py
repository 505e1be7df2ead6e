"""The system's clock is sane; the fixed one repeats itself."""

import time
import uuid

from deltactl.clock import Clock, SystemClock
from tests.support.clock import FixedClock


def test_the_system_clock_shows_the_time_and_fresh_ids() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 60_000
    assert clock.monotonic() <= clock.monotonic()
    first, second = clock.new_id(), clock.new_id()
    assert first != second
    assert str(uuid.UUID(first)) == first


def test_a_fixed_clock_moves_only_on_request() -> None:
    clock = FixedClock(1_000)
    assert (clock.now_ms(), clock.now_ms(), clock.monotonic()) == (1_000, 1_000, 0)
    clock.advance(500)
    assert (clock.now_ms(), clock.monotonic()) == (1_500, 0.5)
    clock.advance(-1_000)
    assert (clock.now_ms(), clock.monotonic()) == (500, 0.5)


def test_a_fixed_clock_can_step_by_itself() -> None:
    clock = FixedClock(0, step_ms=10)
    assert [clock.now_ms() for _ in range(3)] == [0, 10, 20]


def test_ids_of_a_fixed_clock_count_and_look_like_any_uuid() -> None:
    clock = FixedClock()
    ids = [clock.new_id(), clock.new_id()]
    assert ids == ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"]
    assert uuid.UUID(ids[0]).version == 4
    assert FixedClock().new_id() == ids[0]
