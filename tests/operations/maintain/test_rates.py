"""What is learned from actions that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltactl.operations.maintain.actions import Effect
from deltactl.operations.maintain.rates import Rates

URI = "s3://lake/t"


def predict(rates: Rates) -> Effect:
    written = Effect(bytes_written=int(rates.share_written(URI) * 1000))
    return rates.predict("optimize", URI, 1 << 30, 100) + written


def measure(rates: Rates, predicted: Effect) -> None:
    """Learn from an action that took ten times as long as the defaults say."""
    default = Rates().predict("optimize", URI, 1 << 30, 100)
    measured = Effect(seconds=default.seconds * 10, requests=200, bytes_written=800)
    rates.learn("optimize", URI, predicted, measured)


def test_many_actions_of_one_run_say_no_more_than_each_of_them() -> None:
    rates = Rates()
    for predicted in [predict(rates) for _ in range(40)]:  # before the first is measured
        measure(rates, predicted)
    rate = rates.found["s3/optimize"]
    assert rate.seconds == pytest.approx(10, rel=0.01)
    assert rate.requests == pytest.approx(2, rel=0.01)
    assert rate.written == pytest.approx(0.8, rel=0.01)
    assert rate.runs == 40


def test_later_runs_predict_by_what_was_learned(tmp_path: Path) -> None:
    file = tmp_path / "rates.json"
    for _ in range(20):
        rates = Rates.load(file)
        measure(rates, predict(rates))
        rates.save(file)
    rates = Rates.load(file)
    default = Rates().predict("optimize", URI, 1 << 30, 100)
    effect = rates.predict("optimize", URI, 1 << 30, 100)
    assert effect.seconds == pytest.approx(default.seconds * 10, rel=0.02)
    assert effect.requests == 200
    assert rates.share_written(URI) == pytest.approx(0.8, rel=0.01)


def test_a_file_without_the_share_is_read(tmp_path: Path) -> None:
    file = tmp_path / "rates.json"
    file.write_text(
        '{"form": 1, "rates": {"s3/optimize": {"seconds": 2, "requests": 1, "runs": 3}}}'
    )
    assert Rates.load(file).found["s3/optimize"].seconds == 2
    assert Rates.load(file).share_written(URI) == Rates().share_written(URI)
