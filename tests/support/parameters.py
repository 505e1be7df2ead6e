"""Parameters of tests."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def in_turn(some: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """All combinations. Those are slow that do not pair each of ``some`` with the next other."""
    lists = [*some], [*others]
    return [
        pytest.param(one, other, marks=[pytest.mark.slow] if (at - place) % len(lists[1]) else [])
        for at, one in enumerate(lists[0])
        for place, other in enumerate(lists[1])
    ]


def all_pairs(*choices: Iterable[Any]) -> list[Any]:
    """All combinations. Every other one is slow: those that stay have each pair of choices.

    For three lists or more, of two choices or more.
    """
    lists = [list(each) for each in choices]
    return [
        pytest.param(*values, marks=[pytest.mark.slow] if sum(places) % 2 else [])
        for places, values in zip(
            product(*(range(len(each)) for each in lists)), product(*lists), strict=True
        )
    ]
