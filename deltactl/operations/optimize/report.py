"""What an optimize did, for people, programs and the commit itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.plan import OptimizePlan


@dataclass(frozen=True, slots=True)
class BinFailure:
    """A bin that was not committed: its files stay as they were."""

    files: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """The outcome of an optimize.

    ``versions`` are those committed; ``strays`` names outputs that were written, not committed,
    and could not be removed; ``strays_removed`` those that lost or repeated tries of an engine
    left behind. ``skipped`` says what there was to do where that was not worth a run.
    """

    plan: OptimizePlan
    engine: str
    engine_reason: str
    dry_run: bool = False
    versions: tuple[int, ...] = ()
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    rows_rewritten: int = 0
    deletion_vectors_removed: int = 0
    failures: tuple[BinFailure, ...] = ()
    conflicts: tuple[BinFailure, ...] = ()
    strays: tuple[str, ...] = ()
    strays_removed: tuple[str, ...] = ()
    interrupted: bool = False
    run_id: str | None = field(default=None, compare=False)
    skipped: str | None = None
    options: OptimizeOptions = field(default=OptimizeOptions(), repr=False, compare=False)

    @property
    def version_before(self) -> int:
        """The version that was planned from."""
        return self.plan.version

    @property
    def version_after(self) -> int:
        """The last version committed; that planned from when nothing was."""
        return self.versions[-1] if self.versions else self.plan.version

    @property
    def caught_up_version(self) -> int | None:
        """The version up to which no partition is left to look at; ``None`` where some are.

        What a run was not to look at, could not do or put off stays behind, so that a later one
        with ``since_version`` would pass it by.
        """
        options = self.options
        put_off = (options.where, options.max_bytes, options.skip_hot_ms, self.skipped)
        if any(it is not None for it in put_off) or self.failures or self.conflicts:
            return None
        if self.dry_run or self.interrupted or options.purge:
            return None
        before, after = self.version_before, self.version_after
        # What another writer committed in between was not looked at.
        return after if after - before == len(self.versions) else before

    def to_dict(self) -> dict[str, Any]:
        """The ``result`` of the JSON envelope; sizes in bytes."""
        return {
            "target_size_bytes": self.plan.target_bytes,
            "min_file_size_bytes": self.plan.min_bytes,
            "plan": {
                "files": self.plan.files.num_rows,
                "bytes": self.plan.bytes_to_rewrite,
                "bins": self.plan.num_bins,
                "partitions": self.plan.partitions.to_pylist(),
                "considered_files": self.plan.considered_files,
                "considered_bytes": self.plan.considered_bytes,
                "left_alone": dict(self.plan.left_alone),
                "sizes_before": self.plan.sizes_before.to_dict(),
                "sizes_after": self.plan.sizes_after.to_dict(),
            },
            "versions": list(self.versions),
            "files_added": self.files_added,
            "files_removed": self.files_removed,
            "bytes_added": self.bytes_added,
            "bytes_removed": self.bytes_removed,
            "rows_rewritten": self.rows_rewritten,
            "deletion_vectors_removed": self.deletion_vectors_removed,
            "failures": [_failure(f) for f in self.failures],
            "conflicts": [_failure(f) for f in self.conflicts],
            "strays": list(self.strays),
            "strays_removed": list(self.strays_removed),
            "interrupted": self.interrupted,
            "run_id": self.run_id,
        }


def _failure(failure: BinFailure) -> dict[str, Any]:
    return {"files": failure.files, "bytes": failure.bytes, "reason": failure.reason}
