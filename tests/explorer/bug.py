"""A seeded bug in the code under test."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.explorer.world import Model

Patch = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Bug:
    """A seeded bug: the scenario that shows it, and the invariant that it violates."""

    name: str
    apply: Patch
    scenario: str
    rule: str
    model: Model = "conditional"
    faults: int = 0
    kinds: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """The name in pages and in ``schedules.toml``."""
        return f"{self.name[0].upper()}{self.name[1:]}"
