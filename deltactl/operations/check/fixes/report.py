"""What the fixes have in common: their reports and plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from deltactl.errors import DeltactlError
from deltactl.operations.check.fixes.options import Fix
from deltactl.operations.short_repr import ShortRepr

if TYPE_CHECKING:
    import pyarrow as pa

    from deltactl.log.snapshot import Snapshot
    from deltactl.operations.run_context import RunContext


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class FixReport(ShortRepr):
    """The result of a fix, or before it the plan; each fix has its own class.

    ``versions`` are those committed, before the ``error`` if there is one.
    """

    kind: Fix
    version: int
    table_id: str
    engine: str
    versions: tuple[int, ...] = ()
    dry_run: bool = False
    error: DeltactlError | None = None

    @property
    def version_after(self) -> int | None:
        """Return the last committed version; ``None`` if nothing was committed."""
        return self.versions[-1] if self.versions else None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to repair."""
        raise NotImplementedError

    @property
    def num_left(self) -> int:
        """Return how many findings of this kind ``check`` still has after the repair."""
        raise NotImplementedError

    @property
    def rows(self) -> pa.Table | list[dict[str, Any]]:
        """Return what was found, for an output in rows."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        return {
            "fix": self.kind.value,
            "version": self.version,
            "version_after": self.version_after,
            "files_left": self.num_left,
        }


def describe_snapshot(kind: Fix, snapshot: Snapshot, context: RunContext) -> dict[str, Any]:
    """Return the fields of a report that each fix has."""
    return {
        "kind": kind,
        "version": snapshot.version,
        "table_id": snapshot.metadata.id,
        "engine": context.engine.name,
    }


@dataclass(frozen=True, slots=True)
class FixPlan:
    """A planned repair: ``apply`` makes it; ``refusal`` is the error of a real run, if any."""

    report: FixReport
    apply: Callable[[FixReport], FixReport]
    refusal: DeltactlError | None = None


Confirm: TypeAlias = Callable[[FixReport], bool]
"""Called with the report before the first change; returns whether to proceed."""
