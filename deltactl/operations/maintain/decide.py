"""Decide over all tables: rank the due actions by benefit per cost, and cut them at the budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from deltactl.operations.maintain.actions import Action, Effect
from deltactl.operations.maintain.budget import Budget, Spending
from deltactl.operations.maintain.observe import Observation
from deltactl.units import format_size

_OVER: Final = "over the budget"
_LEAST_SECONDS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Decision:
    """All due actions of all tables, those to do first, in the order of their rank.

    ``note`` is set if the budget is smaller than the smallest action.
    """

    chosen: tuple[Action, ...]
    left: tuple[Action, ...]
    note: str | None = None

    def of_table(self, table: str) -> tuple[list[Action], list[Action]]:
        """Return the actions of one table: those to do, in the safe order, and the others."""
        chosen = [action for action in self.chosen if action.table == table]
        chosen.sort(key=lambda action: (action.order, action.rank))
        return chosen, [action for action in self.left if action.table == table]

    def order_tables(self, tables: Sequence[str]) -> list[str]:
        """Return the tables by the rank of their best action; those without one are last."""
        best: dict[str, int] = {}
        for action in self.chosen:
            best.setdefault(action.table, action.rank)
        last = len(self.chosen) + 1
        return sorted(tables, key=lambda table: best.get(table, last))


def decide(observations: Mapping[str, Observation], spending: Spending, jobs: int = 1) -> Decision:
    """Rank the actions and choose those within the budget.

    An action that does not fit into the rest of the budget is not chosen; smaller ones after it may
    still fit. If a partition has several bins, the bins that fit are chosen. ``jobs`` tables are
    handled at the same time and share the time.
    """
    due = [action for seen in observations.values() for action in seen.actions]
    left = [action.left(action.blocked) for action in due if action.blocked is not None]
    scored = [
        replace(action, score=action.predicted.benefit / action.predicted.cost)
        for action in due
        if action.blocked is None
    ]
    scored.sort(key=lambda action: -action.score)  # stable: then by table and order
    ranked = [replace(action, rank=rank) for rank, action in enumerate(scored, 1)]
    remaining = _Remaining(spending, jobs)
    chosen: list[Action] = []
    for action in ranked:
        taken, rest = remaining.take(action)
        if taken is not None:
            chosen.append(taken)
        if rest is not None:
            left.append(rest)
    note = _note_too_small(ranked, spending.budget) if ranked and not chosen else None
    return Decision(tuple(chosen), tuple(left), note)


class _Remaining:
    """What is left of each limit of the budget while actions are chosen; infinite without one."""

    def __init__(self, spending: Spending, jobs: int) -> None:
        """Take the unused part of the budget; ``jobs`` tables at a time share the time."""
        self._budget = spending.budget
        self._bytes = _or_unlimited(spending.bytes_left)
        self._seconds = _or_unlimited(spending.seconds_left) * jobs
        self._requests = _or_unlimited(spending.requests_left)

    def take(self, action: Action) -> tuple[Action | None, Action | None]:
        """Return the action or the part of it that fits, and the rest of the action."""
        if self._fits(action.predicted):
            self._spend(action.predicted)
            return action, None
        why = f"{_OVER} of {self._budget}"
        part = action.limited(self._find_limit(action)) if len(action.bins) > 1 else None
        if part is None or action.places_rows or not self._fits(part.predicted):
            return None, action.left(why)
        self._spend(part.predicted)
        size = int(action.bins.bytes.sum()) - int(part.bins.bytes.sum())
        rest = replace(action, predicted=action.predicted - part.predicted, is_part=True)
        return part, rest.left(f"{format_size(size)} of it {why}")

    def _fits(self, effect: Effect) -> bool:
        return (
            effect.bytes_read <= self._bytes
            and effect.seconds <= self._seconds
            and (effect.requests or 0) <= self._requests
        )

    def _spend(self, effect: Effect) -> None:
        self._bytes -= effect.bytes_read
        self._seconds -= effect.seconds
        self._requests -= effect.requests or 0

    def _find_limit(self, action: Action) -> int:
        """Return the bytes of bins for which bytes, time and requests are enough."""
        predicted = action.predicted
        shares = [
            self._bytes / max(predicted.bytes_read, 1),
            self._seconds / max(predicted.seconds, _LEAST_SECONDS),
            self._requests / max(predicted.requests or 0, 1),
        ]
        return int(min(1.0, *shares) * predicted.bytes_read)


def _or_unlimited(left: float | None) -> float:
    return inf if left is None else left


def _note_too_small(ranked: Iterable[Action], budget: Budget) -> str:
    smallest = min((_smallest_part(action) for action in ranked), key=lambda e: e.bytes_read)
    return (
        f"the budget of {budget} is smaller than the smallest action, so maintain does nothing. "
        f"This action reads {format_size(smallest.bytes_read)} in {smallest.seconds:.1f} s "
        f"with {smallest.requests} requests"
    )


def _smallest_part(action: Action) -> Effect:
    if len(action.bins) > 1 and not action.places_rows:
        part = action.limited(int(action.bins.bytes.min()))
        return action.predicted if part is None else part.predicted
    return action.predicted
