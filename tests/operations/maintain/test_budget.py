"""Budgets: what is parsed, what is used up, when a token is set."""

import threading
from datetime import timedelta

import pytest

from deltactl.engine.base import StopToken
from deltactl.errors import UsageError
from deltactl.operations.maintain.options import Budget, Spending, to_budget
from tests.support.clock import FixedClock


def test_limits_of_each_kind_make_one_budget() -> None:
    found = to_budget(["20GiB", "30min", "5000requests"])
    assert found == Budget(20 << 30, timedelta(minutes=30), 5000)
    assert str(found) == "20 GiB, 30min, 5,000 requests"
    assert str(to_budget([])) == "no limit"
    assert to_budget(["1 request"]).requests == 1


@pytest.mark.parametrize("texts", [["20"], ["much"], ["1GiB", "2GiB"], ["1h", "30min"], [""]])
def test_what_is_no_budget_is_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="is not a size, a time|was already given"):
        to_budget(texts)


def test_a_budget_names_the_limit_that_is_used_up() -> None:
    clock = FixedClock()
    spending = Spending(Budget(100, timedelta(minutes=1), 10), clock)
    assert spending.find_used_up(100, 10) is None
    spending.add(bytes_read=60, requests=4)
    assert (spending.bytes_left, spending.requests_left) == (40, 6)
    assert "bytes" in str(spending.find_used_up(41, 0))
    assert spending.find_used_up(40, 1) is None
    spending.add(bytes_read=0, requests=50)
    assert "requests" in str(spending.find_used_up(0, 1))
    clock.advance(59_999)
    assert not spending.is_time_over
    clock.advance(1)
    assert "time" in str(spending.find_used_up(0, 0))


def test_no_limit_is_never_used_up() -> None:
    spending = Spending(Budget(), FixedClock())
    spending.add(bytes_read=1 << 60, requests=1 << 40)
    assert spending.find_used_up(1 << 60, 1 << 40) is None


def test_a_token_follows_its_parent_and_its_rule() -> None:
    parent, over = threading.Event(), [False]
    token = StopToken(parent, lambda: over[0])
    assert not token.is_set()
    over[0] = True
    assert token.is_set()
    over[0] = False
    parent.set()
    assert token.is_set()
    own = StopToken(None, lambda: False)
    own.set()
    assert own.is_set()
