"""``check --fix checksum`` and ``last-checkpoint``: write a file of the log anew, or delete it.

Readers do not need these files, and no commit is written. ``last-checkpoint`` ends a loss of the
newest commits: it also deletes their checksum and log compaction files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltactl.errors import SafetyError
from deltactl.log.audit.audited_snapshot import audit_files, audit_snapshot
from deltactl.log.audit.checkpoints import check_hint
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.operations.check.fixes.report import FixPlan, FixReport, describe_snapshot
from deltactl.operations.checkpoint.repair import (
    Trusted,
    find_checksum_obstacle,
    judge_checksum,
    load_trusted,
    repair_hint,
)
from deltactl.operations.run_context import RunContext


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class LogFileReport(FixReport):
    """A file of the log and its problem, if any; ``obstacle``: why it is not repaired.

    ``files_ahead`` are files that are left from lost commits, to be deleted.
    """

    name: str
    problem: str | None
    obstacle: str | None = None
    is_repaired: bool = False
    files_ahead: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to repair."""
        return (self.problem is None and not self.files_ahead) or self.obstacle is not None

    @property
    def num_left(self) -> int:
        """Return 1 if a file is left as it is."""
        return int(self.obstacle is not None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the files that have a problem."""
        problems = dict.fromkeys(self.files_ahead, "it is left from lost commits")
        if self.problem is not None:
            problems[self.name] = self.problem
        rest = {"obstacle": self.obstacle, "repaired": self.is_repaired}
        return [{"name": name, "problem": text, **rest} for name, text in problems.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        return {**FixReport.to_dict(self), "files": self.rows}


def plan_log_file(log: DeltaLog, options: FixOptions, context: RunContext) -> FixPlan:
    """Plan to write the checksum file of the latest version, or ``_last_checkpoint``, anew.

    Raises:
        CorruptLogError: the latest version cannot be rebuilt from valid files.
    """
    log.ensure_exists()
    trusted = load_trusted(log)
    latest = trusted.latest
    report = LogFileReport(
        **describe_snapshot(options.kind or Fix.CHECKSUM, latest, context),
        name=HINT_NAME,
        problem=None,
    )
    if options.kind is Fix.LAST_CHECKPOINT:
        hint, files_ahead = check_hint(log, trusted.bad), tuple(sorted(log.files_ahead))

        def rewrite(confirmed: FixReport) -> FixReport:
            # If this fails, the files still show that commits were lost.
            if (obstacle := _delete_files_ahead(log, files_ahead)) is not None:
                return _finish(confirmed, obstacle)
            done = all(it.repaired for it in repair_hint(log, hint, dry_run=False))
            return _finish(confirmed, None if done else "it could not be replaced")

        return FixPlan(replace(report, problem=hint.problem, files_ahead=files_ahead), rewrite)
    problem, obstacle = judge_checksum(log, trusted, trusted.latest)
    if problem is None:
        obstacle = find_checksum_obstacle(log, trusted) or _find_contradiction(log, latest)
    name = log.checksum_file(latest.version)
    text = f"{name} is missing" if problem is None else problem or None
    report = replace(report, name=name, problem=text, obstacle=obstacle)
    return FixPlan(report, lambda confirmed: _finish(confirmed, _write(trusted, name)))


def _find_contradiction(log: DeltaLog, latest: Snapshot) -> str | None:
    """Return which older checksum file shows that the latest version may be wrong, if one does."""
    try:
        audit_files(audit_snapshot(log, latest, strict=True))
    except SafetyError as error:
        return error.message
    return None


def _delete_files_ahead(log: DeltaLog, names: Sequence[str]) -> str | None:
    """Delete these files, unless their commits are back; return the reason why it failed."""
    log.update()
    failed = log.store.delete_many([name for name in names if name in log.files_ahead])
    name, error = next(iter(failed.items()), (None, None))
    return None if error is None else f"{name} could not be deleted: {error.message}"


def _write(trusted: Trusted, name: str) -> str | None:
    """Replace the checksum file; return the reason why that was not possible."""
    latest = trusted.latest
    failed = latest.store.delete_many([name])
    if failed:
        return f"it could not be deleted: {failed[name].message}"
    written = write_checksum(latest.store, latest, latest.num_files, latest.size_bytes)
    return None if written else "another writer was faster, or its commit has no timestamp"


def _finish(report: FixReport, obstacle: str | None) -> FixReport:
    assert isinstance(report, LogFileReport)
    return replace(report, obstacle=obstacle, is_repaired=obstacle is None)
