"""The result of a vacuum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from deltactl.errors import DeltactlError, find_worst_error
from deltactl.operations.short_repr import ShortRepr
from deltactl.operations.vacuum.horizon import Horizon
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.units import format_timestamp

_SHOWN_LOST = 100


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that could not be removed."""

    path: str
    error: DeltactlError

    @property
    def reason(self) -> str:
        """Return why."""
        return self.error.message


@dataclass(frozen=True, slots=True, repr=False)
class VacuumReport(ShortRepr):
    """The result of a vacuum; only files whose removal the store confirmed count as removed.

    ``came_back``: files that another writer added again during the run; kept or moved back.
    ``lost``: such files that were already removed and could not be moved back. ``was_replaced``:
    another table replaced this one during the run; these are files of that table. ``skipped``: the
    removable files, if they were below the threshold of the run. ``changed``: files that were
    modified after planning; ``vanished``: files that did not exist any more. ``stopped``: the error
    that ended the run early; ``failures`` have it too, without a path.
    """

    _SHOWN = ("plan.files.num_rows", "plan.size_bytes")

    plan: VacuumPlan
    engine: str
    dry_run: bool = False
    run_id: str | None = None
    versions: tuple[int, ...] = ()
    files_removed: int = 0
    bytes_removed: int = 0
    folders_removed: int = 0
    came_back: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    was_replaced: bool = False
    changed: tuple[str, ...] = ()
    vanished: int = 0
    failures: tuple[FileFailure, ...] = ()
    stopped: DeltactlError | None = None
    quarantined_until_ms: int | None = None
    clock_skew_ms: int | None = None
    interrupted: bool = False
    skipped: str | None = None

    @property
    def version_before(self) -> int:
        """Return the version of the plan."""
        return self.plan.version

    @property
    def version_after(self) -> int:
        """Return the last version committed; the version of the plan if none was."""
        return self.versions[-1] if self.versions else self.plan.version

    @property
    def horizon(self) -> Horizon | None:
        """Return the versions that can be read; none ends if the run removed no file."""
        horizon, has_run = self.plan.horizon, self.run_id is not None
        if horizon is None or not has_run or self.files_removed or self.vanished:
            return horizon
        return replace(horizon, ends=(), change_data_ends=(), cost_bytes=0, costs=())

    def find_worst_failure(self) -> DeltactlError:
        """Return the error that matters most; there is at least one."""
        return find_worst_error(failure.error for failure in self.failures)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes, times RFC 3339."""
        plan = self.plan
        return {
            "mode": plan.mode,
            "complete_since_version": plan.complete_since,
            "retention": _retention(plan),
            "files": plan.files.num_rows,
            "bytes": plan.size_bytes,
            "folders": len(plan.folders) + len(plan.old_folders),
            "by_reason": [_with_times(row) for row in plan.by_reason()],
            "by_folder": [_with_times(row) for row in plan.by_folder().to_pylist()],
            "left_over_files": plan.left_over,
            "listed_files": plan.listed_files,
            "kept": dict(plan.kept),
            "missing_files": len(plan.losses.missing),
            "missing": plan.losses.missing.slice(0, _SHOWN_LOST).to_pylist(),
            "resized": plan.losses.resized.slice(0, _SHOWN_LOST).to_pylist(),
            "foreign_tables": list(plan.foreign),
            "clones": [clone.to_dict() for clone in plan.clones],
            "horizon": None if self.horizon is None else _horizon(self.horizon),
            "run_id": self.run_id,
            "versions": list(self.versions),
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
            "folders_removed": self.folders_removed,
            "came_back": list(self.came_back),
            "lost": list(self.lost),
            "changed": list(self.changed),
            "vanished": self.vanished,
            "failures": [{"path": f.path, "reason": f.reason} for f in self.failures],
            "quarantined_until": _time(self.quarantined_until_ms),
            "clock_skew_ms": self.clock_skew_ms,
            "interrupted": self.interrupted,
        }


def _retention(plan: VacuumPlan) -> dict[str, Any]:
    retention = plan.retention
    return {
        "retain_ms": retention.retain_ms,
        "table_retention_ms": retention.table_ms,
        "cutoff": _time(retention.cutoff_ms),
        "rule": retention.rule,
        "version_at_cutoff": plan.current_at_cutoff,
    }


def _horizon(horizon: Horizon) -> dict[str, Any]:
    return {
        "first_version": horizon.first_version,
        "last_version": horizon.last_version,
        "readable": [list(pair) for pair in horizon.readable],
        "ends": [list(pair) for pair in horizon.ends],
        "change_data_ends": [list(pair) for pair in horizon.change_data_ends],
        "cost_bytes": horizon.cost_bytes,
        "costs": [{"version": version, "bytes": size} for version, size in horizon.costs],
    }


def _with_times(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if not key.endswith("_ms")}
    return {**kept, "oldest": _time(row["oldest_ms"]), "newest": _time(row["newest_ms"])}


def _time(instant_ms: int | None) -> str | None:
    return None if instant_ms is None else format_timestamp(instant_ms)
