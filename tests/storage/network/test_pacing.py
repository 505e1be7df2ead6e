"""The rate of requests settles where the store allows it."""

from collections import deque

import pytest

from deltactl.errors import UsageError
from deltactl.storage.network.pacing import Pacer, parse_rate


class _Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


class _Store:
    """Serves ``allowed`` requests in any second and refuses the rest."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.served: deque[float] = deque()
        self.num_served = self.num_refused = 0

    def ask(self, now: float) -> bool:
        while self.served and self.served[0] <= now - 1:
            self.served.popleft()
        if len(self.served) >= self.allowed:
            self.num_refused += 1
            return False
        self.served.append(now)
        self.num_served += 1
        return True


def _drive(pacer: Pacer, store: _Store, clock: _Clock, seconds: float, wants: float) -> None:
    """A client that has ``wants`` requests per second to send, one after the other."""
    end = clock.seconds + seconds
    while clock.seconds < end:
        clock.seconds += max(pacer.reserve(), 1 / wants)
        if store.ask(clock.seconds):
            pacer.served()
        else:
            pacer.refused()


def _rate(pacer: Pacer) -> float:
    """Requests per second at present."""
    first = pacer.reserve()
    return 1 / (pacer.reserve() - first)


@pytest.mark.parametrize("allowed", [10, 100, 1000])
def test_the_rate_settles_near_what_the_store_allows(allowed: int) -> None:
    clock, store = _Clock(), _Store(allowed)
    pacer = Pacer(now=clock.now, jitter=lambda: 0.5)
    _drive(pacer, store, clock, 20, 5 * allowed)
    before = store.num_served, store.num_refused
    _drive(pacer, store, clock, 60, 5 * allowed)
    served, refused = store.num_served - before[0], store.num_refused - before[1]
    assert served >= 0.6 * 60 * allowed
    assert refused <= 0.03 * served


def test_requests_are_not_held_back_until_the_store_refuses_one() -> None:
    clock = _Clock()
    pacer = Pacer(now=clock.now)
    for _ in range(1000):
        assert pacer.reserve() == 0
        pacer.served()


def test_a_limit_is_kept_from_the_first_request_on() -> None:
    clock = _Clock()
    pacer = Pacer(10, now=clock.now)
    waits = [pacer.reserve() for _ in range(21)]
    assert waits == pytest.approx([number / 10 for number in range(21)])


def test_only_the_limit_holds_once_the_store_serves_all_requests() -> None:
    clock, store = _Clock(), _Store(10)
    pacer = Pacer(50, now=clock.now, jitter=lambda: 0)
    _drive(pacer, store, clock, 20, 100)
    assert _rate(pacer) < 20
    store.allowed = 10_000
    _drive(pacer, store, clock, 120, 1000)
    assert _rate(pacer) == pytest.approx(50)


def test_one_burst_of_refusals_is_one_cut() -> None:
    clock = _Clock()
    pacer = Pacer(100, now=clock.now)
    for _ in range(100):
        pacer.reserve()
    for _ in range(50):
        pacer.refused()
    assert _rate(pacer) == pytest.approx(50)


@pytest.mark.parametrize("text", ["0", "-1", "many", "inf", "nan", ""])
def test_rates_that_are_not_above_zero_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="requests per second"):
        parse_rate(text)


def test_numbers_are_rates_and_none_is_no_limit() -> None:
    assert parse_rate(None) is None
    assert parse_rate("0.5") == 0.5
    assert parse_rate(200) == 200
