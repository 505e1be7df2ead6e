"""Run the chosen actions of one table in the safe order, by calling the other commands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from deltactl.engine.base import StopToken
from deltactl.errors import (
    ConflictError,
    DeltactlError,
    InterruptedRunError,
    PartialSuccessError,
    SafetyError,
    StorageError,
    explain_foreign,
    explain_rest,
    find_worst_error,
    join_reasons,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.run import checkpoint_table
from deltactl.operations.leases import Holder, hold_lease
from deltactl.operations.maintain.actions import Action, Effect, TableFacts, sum_effects
from deltactl.operations.maintain.candidates import options_of
from deltactl.operations.maintain.options import MaintainOptions, Spending
from deltactl.operations.maintain.policy import ActionName, MaintainPolicy
from deltactl.operations.maintain.report import Outcome
from deltactl.operations.maintain.upkeep import vacuum_options
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.place import find_schemes
from deltactl.operations.manifest.plan import UNCHANGED
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.operations.optimize.run import try_optimize
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.lost import find_lost_error
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.network.counts import requests_sent
from deltactl.units import format_count

# Of actions with another name than the command.
_LEASES: Final = {"manifest": "generate-manifest", "log-cleanup": "checkpoint"}
_DELETING: Final = frozenset({"log-cleanup", "vacuum"})

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class TableWork:
    """The work on one table: its observation, and the budget.

    ``owes_vacuum``: a vacuum is due and not finished, so the commits that it reads must stay.
    """

    log: DeltaLog
    facts: TableFacts
    policy: MaintainPolicy
    options: MaintainOptions
    spending: Spending
    context: RunContext
    outcomes: list[Outcome] = field(default_factory=list)
    left: list[Action] = field(default_factory=list)
    counts_requests: bool = True
    owes_vacuum: bool = False

    def run(self, actions: Sequence[Action]) -> None:
        """Run the actions; actions that are not done are in ``left``, with the reason."""
        pending = list(_group(actions))
        while pending:
            group = pending.pop(0)
            why = self._find_obstacle(group)
            if why is not None:
                self.left += [action.left(why) for action in group]
                continue
            outcome = self._try(group)
            self.outcomes.append(outcome)
            if outcome.name == "vacuum":
                self.owes_vacuum = outcome.error is not None or outcome.is_stopped
            if self._needs_manifests(outcome, pending):
                rest = sum(group[0].name == "optimize" for group in pending)
                pending.insert(rest, [_follow_up(self.facts.table)])

    @property
    def is_cancelled(self) -> bool:
        """Return whether a signal or ``--timeout`` stopped the run."""
        return self.context.is_cancelled

    def _find_obstacle(self, group: Sequence[Action]) -> str | None:
        if self.is_cancelled:
            return "the run was stopped"
        predicted = sum_effects(action.predicted for action in group)
        failed = next((it.name for it in self.outcomes if _is_broken(it)), None)
        if failed is not None and group[0].name in _DELETING:
            return f"{failed} failed, and after a failure maintain deletes nothing"
        if self.owes_vacuum and group[0].name == "log-cleanup":
            return "the vacuum was not finished, and it needs the commits"
        return self.spending.find_used_up(predicted.bytes_read, predicted.requests or 0)

    def _needs_manifests(self, outcome: Outcome, pending: Sequence[Sequence[Action]]) -> bool:
        """Return whether manifests list files that were just replaced."""
        if not (self.facts.has_manifests and outcome.versions and outcome.name == "optimize"):
            return False
        return not any(group[0].name == "manifest" for group in pending)

    def _try(self, group: Sequence[Action]) -> Outcome:
        """Run one group with the lease of its command, and measure it."""
        clock, name = self.context.clock, group[0].name
        if name == "optimize" and any(it.name == name for it in self.outcomes):
            # Each optimize numbers its files from 0, and files of a mapped table lie in one
            # directory: with the same id, they would replace those of the optimize before.
            self.context = replace(self.context, run_id=clock.new_id())
        predicted = sum_effects(action.predicted for action in group)
        base = Outcome(name, tuple(group), predicted)
        before, began = requests_sent().total, clock.monotonic()
        try:
            with self._lease(name):
                done = _OPERATIONS[name](self, base)
        except InterruptedRunError:
            return replace(base, note="stopped before the action began", is_stopped=True)
        except Exception as error:
            found = explain_foreign(f"{name} of {self.facts.table}", error)
            _log.info("%s: %s failed: %s", self.facts.table, name, found.message)
            self.spending.add(bytes_read=0, requests=requests_sent().total - before)
            return replace(base, error=found)
        sent = requests_sent().total - before
        effect = done.measured
        self.spending.add(bytes_read=0 if effect is None else effect.bytes_read, requests=sent)
        if effect is None:
            return done
        requests = sent if self.counts_requests else None
        measured = replace(effect, seconds=clock.monotonic() - began, requests=requests)
        return replace(done, measured=measured)

    @contextmanager
    def _lease(self, name: ActionName) -> Iterator[None]:
        command, clock = _LEASES.get(name, name), self.context.clock
        holder = Holder.here(self.context.run_id or "", clock)
        lease = hold_lease(self.log.store, command, holder, clock=clock, warn=self.context.warn)
        with lease if self.options.lease else nullcontext():
            yield

    def stoppable(self) -> RunContext:
        """Return the context of a long action: the time of the budget ends it too."""
        token = StopToken(self.context.cancel, lambda: self.spending.is_time_over)
        return replace(self.context, cancel=token)


def _is_broken(outcome: Outcome) -> bool:
    """Return whether an action failed for another reason than another run or writer."""
    return outcome.error is not None and not isinstance(outcome.error, ConflictError)


def _group(actions: Sequence[Action]) -> Iterator[list[Action]]:
    """Yield the actions of each call: whole partitions of an optimize, then each limited one."""
    whole = [a for a in actions if a.name == "optimize" and not a.is_part]
    for action in actions:
        if action.name == "optimize" and whole:
            yield whole
            whole = []
        if action.name != "optimize" or action.is_part:
            yield [action]


def _follow_up(table: str) -> Action:
    reason = "optimize replaced files that the manifests list"
    return Action(table=table, name="manifest", reason=reason, predicted=Effect())


def _was_done(base: Outcome, note: str | None = "nothing is left to do") -> Outcome:
    return replace(base, measured=Effect(), note=note, was_done=True)


# The operations measure their effect without time and requests.


def _run_optimize(work: TableWork, base: Outcome) -> Outcome:
    group = base.actions
    is_part = any(action.is_part for action in group)
    options = replace(
        options_of(work.policy),
        partitions=frozenset(action.partition or "" for action in group),
        # Files that were added during the run may have made bins larger than predicted.
        max_bytes=base.predicted.bytes_read if is_part else work.spending.bytes_left,
        memory_bytes=work.options.memory_bytes,
    )
    context = replace(work.stoppable(), keeps_history=work.owes_vacuum)
    report = try_optimize(work.log, options, context)
    missing = report.plan.missing_partitions
    if report.plan.is_empty and not missing:
        return _was_done(base)
    # Bytes that were read for bins without a commit.
    lost_bytes = sum(it.bytes for it in (*report.failures, *report.dropped))
    work.spending.add(bytes_read=lost_bytes, requests=0)
    lost = dict.fromkeys(missing, "no file is in this partition any more")
    lost |= {it.partition: it.reason for it in (*report.conflicts, *report.failures)}
    base = replace(
        base,
        failed=lost,
        error=_find_lost(report),
        is_stopped=report.interrupted,
        unfinished=report.unfinished.partitions,
    )
    if (lost or report.interrupted) and not report.versions:
        return base
    gone = report.files_removed - report.files_added
    effect = Effect(
        files_removed=gone,
        requests_saved=gone,
        skipping_bytes=sum(a.predicted.skipping_bytes for a in group) if report.versions else 0,
        bytes_read=report.bytes_removed,
        bytes_written=report.bytes_added,
    )
    return replace(
        base,
        measured=effect,
        versions=report.versions,
        note="stopped; finished bins are committed" if report.interrupted else None,
    )


def _find_lost(report: OptimizeReport) -> DeltactlError | None:
    lost = report.failures or report.conflicts
    missing = report.plan.missing_partitions
    if missing and report.error is None and not lost:
        message = f"no file is in the partition {join_reasons(missing)} any more"
        return ConflictError(message, hint="Rerun: another program removed its files.")
    if not lost or report.error is not None:
        return report.error
    if error := report.find_error():
        return error
    files = format_count(sum(it.files for it in lost), "file was", "files were")
    message = f"{files} not rewritten: {lost[0].reason}"
    return PartialSuccessError(message, hint="Rerun to rewrite the rest.")


def _run_checkpoint(work: TableWork, base: Outcome) -> Outcome:
    report = checkpoint_table(work.log, CheckpointOptions(if_due=True), work.context)
    if report.announces:
        return replace(base, measured=Effect(), note="_last_checkpoint was replaced")
    if report.written is None and report.plan.version < work.facts.version:
        raise SafetyError(
            f"version {work.facts.version} of {work.log.uri} cannot have a checkpoint: its commit "
            f"is not published. Commits are published up to version {report.plan.version}",
            hint="Run `deltactl check TABLE`.",
        )
    if report.written is None:
        return _was_done(base, report.plan.reason)
    effect = Effect(
        requests_saved=base.predicted.requests_saved,
        bytes_read=base.predicted.bytes_read,  # the log has not changed but for our commit
        bytes_written=report.written.size_bytes,
    )
    return replace(base, measured=effect, note=f"of version {report.written.version}")


def _run_cleanup(work: TableWork, base: Outcome) -> Outcome:
    # The property may have changed since the plan.
    options = CheckpointOptions(cleanup_only=True, if_enabled=True)
    report = checkpoint_table(work.log, options, work.context)
    if report.cleanup is None or report.cleanup.is_empty:
        return _was_done(base)
    failed = {name: StorageError(reason) for name, reason in report.failed}
    gone = [info for info in report.cleanup.files if info.name not in failed]
    effect = Effect(files_removed=len(gone), bytes_freed=sum(info.size_bytes for info in gone))
    return replace(base, measured=effect, error=_not_deleted(failed, "log file"))


def _run_manifest(work: TableWork, base: Outcome) -> Outcome:
    options = ManifestOptions(schemes=find_schemes(work.log) or {})
    report = generate_manifests(work.log, options, work.context)
    changed = sum(row.state != UNCHANGED for row in report.plan.partitions)
    if not changed:
        return _was_done(base)
    effect = Effect(requests_saved=changed)
    return replace(base, measured=effect, note=f"of version {report.plan.version}")


def _run_vacuum(work: TableWork, base: Outcome) -> Outcome:
    report = vacuum_table(work.log, vacuum_options(work.policy), work.stoppable())
    effect = Effect(files_removed=report.files_removed, bytes_freed=report.bytes_removed)
    if report.plan.is_empty:  # the vacuum is recorded all the same
        return _was_done(base)
    failed = {failure.path: failure.error for failure in report.failures if failure.path}
    lost = find_lost_error(report, work.facts.table)
    return replace(
        base,
        measured=None if report.interrupted and not report.files_removed else effect,
        versions=report.versions,
        error=lost or _not_deleted(failed, "file") or report.stopped,
        is_stopped=report.interrupted,
    )


def _not_deleted(failed: Mapping[str, DeltactlError], noun: str) -> DeltactlError | None:
    if not failed:
        return None
    name, first = next(iter(failed.items()))
    cause = find_worst_error(failed.values())
    files = format_count(len(failed), f"{noun} was", f"{noun}s were")
    text = f"{files} not deleted: {name}: {first.message}"
    return explain_rest(cause, text, hint=cause.hint or "Fix the cause, then rerun.")


_OPERATIONS: Final[dict[ActionName, Callable[[TableWork, Outcome], Outcome]]] = {
    "optimize": _run_optimize,
    "checkpoint": _run_checkpoint,
    "manifest": _run_manifest,
    "log-cleanup": _run_cleanup,
    "vacuum": _run_vacuum,
}
