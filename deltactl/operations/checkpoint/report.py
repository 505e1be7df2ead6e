"""The result of a checkpoint run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltactl.errors import StorageError
from deltactl.log.upkeep.cleanup import CleanupPlan
from deltactl.operations.checkpoint.plan import CheckpointPlan
from deltactl.operations.checkpoint.write import WrittenCheckpoint
from deltactl.operations.short_repr import ShortRepr
from deltactl.option_names import option
from deltactl.storage.store import FileInfo
from deltactl.units import format_count


@dataclass(frozen=True, slots=True)
class DueReport:
    """Whether a checkpoint is due; ``last`` is -1 without one, ``interval`` in commits.

    ``hint_problem``: why ``_last_checkpoint`` must be replaced, if it must be.
    """

    version: int
    last: int
    interval: int
    due: bool
    hint_problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        return {
            "version": self.version,
            "last_checkpoint": None if self.last < 0 else self.last,
            "interval": self.interval,
            "due": self.due,
            "hint_problem": self.hint_problem,
        }


@dataclass(frozen=True, slots=True, repr=False)
class CheckpointReport(ShortRepr):
    """The result of a run; of a dry run only the plans.

    ``hint_moved``: whether ``_last_checkpoint`` was replaced. ``failed`` are files
    that cleanup could not delete, with the reason. ``interrupted``: the run was cancelled after
    the checkpoint was written, and did nothing more. ``skipped``: the pending work, if it was below
    the threshold.
    """

    _SHOWN = ("plan.version",)

    plan: CheckpointPlan
    engine: str
    table_id: str
    dry_run: bool = False
    written: WrittenCheckpoint | None = None
    hint_moved: bool = False
    checksum: str | None = None
    cleanup: CleanupPlan | None = None
    failed: tuple[tuple[str, str], ...] = ()
    compaction_range: tuple[int, int] | None = None
    compaction: FileInfo | None = None
    interrupted: bool = False
    skipped: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether there was nothing to do."""
        nothing_to_clean = self.cleanup is None or self.cleanup.is_empty
        nothing_to_write = self.plan.is_empty and not self.announces
        return nothing_to_write and nothing_to_clean and self.compaction_range is None

    @property
    def announces(self) -> bool:
        """Return whether ``_last_checkpoint`` is replaced for an existing checkpoint."""
        return self.plan.to_announce is not None and (self.dry_run or self.hint_moved)

    def find_error(self) -> StorageError | None:
        """Return the error of a cleanup that did not delete all files."""
        if not self.failed:
            return None
        files = format_count(len(self.failed), "log file was", "log files were")
        return StorageError(
            f"{files} not deleted: {self.failed[0][1]}",
            hint=f"Fix the cause, then rerun with {option('cleanup_only', True)}.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        return {
            "version": self.plan.version,
            "kind": self.plan.kind,
            "reason": self.plan.reason,
            "plan": {
                "actions": self.plan.actions,
                "parts": 1,  # as when multi-part checkpoints were written
                "sidecar_tasks": len(self.plan.partitions),
            },
            "checkpoint": None if self.written is None else _written(self.written),
            "hint_moved": self.hint_moved,
            "checksum": self.checksum,
            "cleanup": None if self.cleanup is None else _cleanup(self.cleanup),
            "not_deleted": [{"name": name, "reason": reason} for name, reason in self.failed],
            "compaction": self._compaction(),
            "interrupted": self.interrupted,
        }

    def _compaction(self) -> dict[str, Any] | None:
        if self.compaction_range is None:
            return None
        first, last = self.compaction_range
        name = None if self.compaction is None else self.compaction.name
        return {"first_version": first, "last_version": last, "file": name}


def _written(written: WrittenCheckpoint) -> dict[str, Any]:
    return {
        "kind": written.kind,
        "files": list(written.names),
        "sidecars": len(written.sidecars),
        "bytes": written.size_bytes,
        "actions": written.num_actions,
        "adds": written.num_adds,
        "removes": written.num_removes,
        "table_bytes": written.add_bytes,
    }


def _cleanup(plan: CleanupPlan) -> dict[str, Any]:
    return {
        "cutoff_ms": plan.cutoff_ms,
        "checkpoint_version": plan.checkpoint_version,
        "reason": plan.reason,
        "files": [info.name for info in plan.files],
        "bytes": plan.size_bytes,
        "versions_lost": [list(versions) for versions in plan.lost],
    }
