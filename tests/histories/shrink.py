"""A failing history made shorter: fewer steps, then fewer traits, with the same kind of failure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.histories.plan import History
from tests.histories.run import Outcome, run_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shrink(
    failed: Outcome, spark: SparkSession | None, seconds: float, folder: Path | None
) -> Outcome:
    """The shortest history found within the time that fails in the same way."""
    assert failed.failure is not None
    until = time.monotonic() + seconds
    best = failed
    while True:
        for smaller in _simpler(best):
            if time.monotonic() > until:
                return best
            outcome = run_history(smaller, spark, folder=folder)
            if outcome.failure is not None and outcome.failure.kind == failed.failure.kind:
                best = outcome
                break
        else:
            return best


def _simpler(outcome: Outcome) -> Iterator[History]:
    """Without what comes after the failure, halves, single steps, single traits."""
    history = outcome.history
    numbers = [step.number for step in history.steps]
    taken = len(outcome.lines) - 1
    if taken < len(numbers):
        yield history.with_steps(numbers[:taken])
        return
    # The last step is the one after which it shows.
    before, last = numbers[:-1], numbers[-1:]
    size = len(before)
    while size:
        for at in range(0, len(before), size):
            yield history.with_steps(before[:at] + before[at + size :] + last)
        size //= 2
    for name in history.traits:
        yield history.with_traits([other for other in history.traits if other != name])
