"""A mistake sown into the code under test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.explorer.world import Model

Patch = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Bug:
    """A mistake: where it shows, and the invariant that it breaks."""

    name: str
    apply: Patch
    scenario: str
    rule: str
    model: Model = "conditional"
    faults: int = 0
    kinds: frozenset[str] = frozenset()
