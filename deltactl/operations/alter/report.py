"""The result of an alter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltactl.errors import DeltactlError
from deltactl.operations.alter.steps import AlterPlan
from deltactl.operations.short_repr import ShortRepr


@dataclass(frozen=True, slots=True, repr=False)
class AlterReport(ShortRepr):
    """The result of an alter: the committed ``versions``, and the ``error`` after these."""

    _SHOWN = ("plan.properties",)

    plan: AlterPlan
    engine: str
    versions: tuple[int, ...] = ()
    dry_run: bool = False
    error: DeltactlError | None = None

    @property
    def version_after(self) -> int | None:
        """Return the last committed version; ``None`` if nothing was committed."""
        return self.versions[-1] if self.versions else None

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        plan = self.plan
        return {
            "versions": list(self.versions),
            "properties": {
                key: {"before": before, "after": after}
                for key, (before, after) in plan.properties.items()
            },
            "features_added": list(plan.added),
            "features_dropped": list(plan.dropped),
            "protected_until_ms": plan.protected_until_ms,
            "steps": [
                {"operation": step.operation, "files": step.num_files, "bytes": step.num_bytes}
                for step in plan.steps
            ],
            "risks": list(plan.risks),
        }
