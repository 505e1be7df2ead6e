"""The result of ``generate-manifest``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltactl.operations.manifest.plan import CHANGED, NEW, STALE, UNCHANGED, ManifestPlan
from deltactl.operations.short_repr import ShortRepr


@dataclass(frozen=True, slots=True, repr=False)
class ManifestReport(ShortRepr):
    """The result; ``root`` contains the manifests.

    Partitions had different versions for ``window_ms``.

    ``purged_from`` is the version before a purge, ``ddl`` the requested statements.
    """

    _SHOWN = ("is_up_to_date", "plan.partitions", "plan.stale")

    plan: ManifestPlan
    root: str
    dry_run: bool = False
    window_ms: int | None = None
    purged_from: int | None = None
    ddl: tuple[str, ...] = ()

    @property
    def version_before(self) -> int:
        """Return the latest version before a purge; without one, the version of the manifests."""
        return self.plan.version if self.purged_from is None else self.purged_from

    @property
    def is_up_to_date(self) -> bool:
        """Return whether the manifests are up to date after the run."""
        return self.plan.is_empty or not self.dry_run

    def partitions(self) -> pa.Table:
        """Return one row per manifest: ``partition``, ``files``, ``state``."""
        rows = self.plan.partitions
        return pa.table(
            {
                "partition": pa.array([row.folder for row in rows], pa.string()),
                "files": pa.array([row.num_files for row in rows], pa.int64()),
                "state": pa.array([row.state for row in rows], pa.string()),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        plan = self.plan
        return {
            "root": self.root,
            "up_to_date": self.is_up_to_date,
            "new": plan.count(NEW),
            "changed": plan.count(CHANGED),
            "unchanged": plan.count(UNCHANGED),
            "stale": plan.count(STALE),
            "files": sum(row.num_files for row in plan.partitions),
            "differing": [
                {"partition": row.folder, "files": row.num_files, "state": row.state}
                for row in plan.partitions
                if row.state != UNCHANGED
            ],
            "window_ms": self.window_ms,
            "purged_from_version": self.purged_from,
            "ddl": list(self.ddl),
        }
