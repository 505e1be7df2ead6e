"""Observe one table: its log, read once, and at most one listing of its files.

Afterwards, only numbers and the due actions of a table stay in memory; the bins of an action are a
few arrays. So any number of tables can be observed with the memory for the largest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import pyarrow.compute as pc

from deltactl.errors import (
    AccessDeniedError,
    ConflictError,
    SafetyError,
    UnsupportedFeatureError,
    UsageError,
)
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.commits.events import EventCollector, ZOrderCommits
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.committers.committer import Permission
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.leases import read_last_run
from deltactl.operations.maintain.actions import Action, Effect, TableFacts, TableSubject
from deltactl.operations.maintain.candidates import HotRule, find_optimize, options_of
from deltactl.operations.maintain.options import Budget, Spending
from deltactl.operations.maintain.policy import ActionName, MaintainPolicy
from deltactl.operations.maintain.upkeep import (
    find_checkpoint,
    find_cleanup,
    find_manifest,
    find_vacuum,
    vacuum_options,
)
from deltactl.operations.optimize.candidates import load_files
from deltactl.operations.optimize.plan import plan_optimize
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import planning_now
from deltactl.operations.vacuum.retention import resolve_retention
from deltactl.storage.network.counts import requests_sent
from deltactl.units import format_count, format_size

RECORD: Final = "maintain"
"""The name of the record of the last run that did work, below ``_deltactl/runs``."""

_REFUSALS: Final = (ConflictError, SafetyError, UnsupportedFeatureError, UsageError)
_UPKEEP: Final[dict[ActionName, Callable[[TableSubject], list[Action]]]] = {
    "checkpoint": find_checkpoint,
    "log-cleanup": find_cleanup,
    "manifest": find_manifest,
    "vacuum": find_vacuum,
}

_NEEDS: Final[dict[ActionName, Permission | None]] = {
    "log-cleanup": Permission.CLEAN_LOG,
    "manifest": None,  # no catalog can allow it
    "optimize": Permission.REORGANIZE_DATA,
    "vacuum": Permission.CLEAN_DATA,
}
"""What a catalog that decides commits must allow."""

_OVER: Final = "over the budget"
_LEAST_SECONDS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Observation:
    """The facts about a table, and its due actions, not yet ranked."""

    facts: TableFacts
    policy: MaintainPolicy
    actions: tuple[Action, ...]


def observe_table(
    table: str,
    log: DeltaLog,
    policy: MaintainPolicy,
    context: RunContext,
    *,
    sums_tombstones: bool = False,
) -> Observation:
    """Read the log of a table and find due actions.

    ``sums_tombstones``: also read the tombstones of the checkpoint, for the metrics.

    Raises:
        SafetyError: the policy's retention is less than the table's; or the log has versions that
            its catalog does not know.
        DeltactlError: there is no table, its log is damaged, or the store failed.
    """
    policy = _allowed_policy(log, policy, context)
    before = requests_sent().total
    observation = log.retry_after_cleanup(
        lambda: _look(table, log, policy, context, sums_tombstones)
    )
    observation.facts.requests = requests_sent().total - before
    return observation


def _allowed_policy(log: DeltaLog, policy: MaintainPolicy, context: RunContext) -> MaintainPolicy:
    """Return the policy without the actions that a catalog does not allow."""
    denied = {
        name
        for name, permission in _NEEDS.items()
        if name in policy.actions and not log.is_allowed(permission)
    }
    if not denied:
        return policy
    names = ", ".join(sorted(denied))
    context.warn(f"not planned, because the catalog of {log.uri} does not allow it: {names}")
    return replace(policy, actions=[name for name in policy.actions if name not in denied])


def _look(
    table: str, log: DeltaLog, policy: MaintainPolicy, context: RunContext, sums_tombstones: bool
) -> Observation:
    log.ensure_newest()
    if log.refusal is not None:
        raise log.refusal
    events, z_orders, doubts = EventCollector(), ZOrderCommits(), CommitDoubts()
    snapshot = load_audited(log, visitors=[events, z_orders], doubts=doubts)
    doubts.warn(log)
    facts = TableFacts(table, log.uri, snapshot.metadata.id, snapshot.version)
    now_ms = context.clock.now_ms()
    if policy.retain is not None and "vacuum" in policy.actions:
        options, properties = vacuum_options(policy), snapshot.properties
        with suppress(UsageError):  # the table property is invalid: a problem of the vacuum only
            if properties.deleted_file_retention_ms > (options.retain_ms or 0):
                resolve_retention(properties, options, now_ms)
    expiry_ms = planning_now(log, snapshot, context, now_ms)
    subject = TableSubject(
        facts, log, snapshot, policy, now_ms, expiry_ms, context, events, z_orders, doubts
    )
    with suppress(AccessDeniedError):  # the record of another user; it is only for the metrics
        last = read_last_run(log.store, RECORD)
        if last is not None and last.table_id == facts.table_id:
            facts.last_run_ms = last.started_ms
    facts.tail_commits = snapshot.version - snapshot.segment.checkpoint_version
    if sums_tombstones:
        facts.time_travel_bytes = _sum_tombstones(subject)
    actions = _examine_files(subject)
    for name, find in _UPKEEP.items():
        if name in policy.actions:
            try:
                actions += find(subject)
            except _REFUSALS as error:  # a problem of this action only
                facts.problems[name] = error
    return Observation(facts, policy, tuple(actions))


def _examine_files(subject: TableSubject) -> list[Action]:
    """Set sizes, deleted rows, writes and layout, and find candidates for optimize."""
    facts, snapshot, policy = subject.facts, subject.snapshot, subject.policy
    loaded = load_files(snapshot)
    files, _, facts.size_bytes = loaded
    facts.num_files = files.num_rows
    vectors = pc.struct_field(files["deletion_vector"], "cardinality")
    facts.rows = int(pc.sum(files["num_records"]).as_py() or 0)
    facts.deleted_rows = int(pc.sum(vectors).as_py() or 0)
    try:
        hot = HotRule.of(snapshot, files, policy, subject.now_ms, subject.log.warn)
        facts.partitions, facts.files_a_day = hot.num_partitions, hot.files_a_day
        facts.hot_partitions = len(hot.labels)
        if "optimize" not in policy.actions:
            return []
        subject.doubts.ensure_none(subject.log)
        plan = plan_optimize(
            subject.log,
            snapshot,
            options_of(policy),
            subject.now_ms,
            z_orders=subject.z_orders,
            loaded=loaded,
        )
    except _REFUSALS as error:
        if "optimize" in policy.actions:
            facts.problems["optimize"] = error
        return []
    facts.small_files = plan.sizes_before.small_files
    facts.small_bytes = plan.sizes_before.small_bytes
    if plan.layout is not None:
        facts.unclustered_bytes = plan.bytes_to_rewrite - plan.layout.placed_bytes
    return find_optimize(subject, plan, hot)


def _sum_tombstones(subject: TableSubject) -> int | None:
    """Return the bytes of removed files within the retention; ``None`` if that is invalid."""
    snapshot = subject.snapshot
    try:
        cutoff_ms = subject.expiry_ms - snapshot.properties.deleted_file_retention_ms
    except UsageError:
        return None
    total = 0
    for batch in snapshot.tombstone_batches(("size_bytes", "deletion_timestamp_ms")):
        is_kept = pc.greater(batch["deletion_timestamp_ms"], cutoff_ms)
        total += sum_sizes(batch.filter(is_kept))
    return total


@dataclass(frozen=True, slots=True)
class Decision:
    """All due actions of all tables, those to do first, in the order of their rank.

    ``note`` is set if no action fits into the budget.
    """

    chosen: tuple[Action, ...]
    left: tuple[Action, ...]
    note: str | None = None

    def of_table(self, table: str) -> tuple[list[Action], list[Action]]:
        """Return the actions of one table: those to do, in the safe order, and the others."""
        chosen = [action for action in self.chosen if action.table == table]
        chosen.sort(key=lambda action: (action.order, action.rank))
        return chosen, [action for action in self.left if action.table == table]

    def order_tables(self, tables: Sequence[str]) -> list[str]:
        """Return the tables by the rank of their best action; those without one are last."""
        best: dict[str, int] = {}
        for action in self.chosen:
            best.setdefault(action.table, action.rank)
        last = len(self.chosen) + 1
        return sorted(tables, key=lambda table: best.get(table, last))


def decide(observations: Mapping[str, Observation], spending: Spending, jobs: int = 1) -> Decision:
    """Rank the actions and choose those within the budget.

    An action that does not fit into the rest of the budget is not chosen; smaller ones after it may
    still fit. If a partition has several bins, the bins that fit are chosen. ``jobs`` tables are
    handled at the same time and share the time.
    """
    due = [action for seen in observations.values() for action in seen.actions]
    left = [action.left(action.blocked) for action in due if action.blocked is not None]
    scored = [
        replace(action, score=action.predicted.benefit / action.predicted.cost)
        for action in due
        if action.blocked is None
    ]
    scored.sort(key=lambda action: -action.score)  # stable: then by table and order
    ranked = [replace(action, rank=rank) for rank, action in enumerate(scored, 1)]
    remaining = _Remaining(spending, jobs)
    chosen: list[Action] = []
    for action in ranked:
        taken, rest = remaining.take(action)
        if taken is not None:
            chosen.append(taken)
        if rest is not None:
            left.append(rest)
    note = _note_too_small(ranked, spending.budget) if ranked and not chosen else None
    return Decision(tuple(chosen), tuple(left), note)


class _Remaining:
    """What is left of each limit of the budget while actions are chosen; infinite without one."""

    def __init__(self, spending: Spending, jobs: int) -> None:
        """Take the unused part of the budget; ``jobs`` tables at a time share the time."""
        self._budget = spending.budget
        self._bytes = _or_unlimited(spending.bytes_left)
        self._seconds = _or_unlimited(spending.seconds_left) * jobs
        self._requests = _or_unlimited(spending.requests_left)

    def take(self, action: Action) -> tuple[Action | None, Action | None]:
        """Return the action or the part of it that fits, and the rest of the action."""
        if self._fits(action.predicted):
            self._spend(action.predicted)
            return action, None
        why = f"{_OVER} of {self._budget}"
        part = action.limited(self._find_limit(action)) if len(action.bins) > 1 else None
        if part is None or action.places_rows or not self._fits(part.predicted):
            return None, action.left(why)
        self._spend(part.predicted)
        size = int(action.bins.bytes.sum()) - int(part.bins.bytes.sum())
        rest = replace(action, predicted=action.predicted - part.predicted, is_part=True)
        return part, rest.left(f"{format_size(size)} of it {why}")

    def _fits(self, effect: Effect) -> bool:
        return (
            effect.bytes_read <= self._bytes
            and effect.seconds <= self._seconds
            and (effect.requests or 0) <= self._requests
        )

    def _spend(self, effect: Effect) -> None:
        self._bytes -= effect.bytes_read
        self._seconds -= effect.seconds
        self._requests -= effect.requests or 0

    def _find_limit(self, action: Action) -> int:
        """Return the bytes of bins for which bytes, time and requests are enough."""
        predicted = action.predicted
        shares = [
            self._bytes / max(predicted.bytes_read, 1),
            self._seconds / max(predicted.seconds, _LEAST_SECONDS),
            self._requests / max(predicted.requests or 0, 1),
        ]
        return int(min(1.0, *shares) * predicted.bytes_read)


def _or_unlimited(left: float | None) -> float:
    return inf if left is None else left


def _note_too_small(ranked: Iterable[Action], budget: Budget) -> str:
    smallest = min((_smallest_part(action) for action in ranked), key=lambda e: e.bytes_read)
    return (
        f"no action fits into what is left of the budget of {budget} after the tables were "
        f"examined, so maintain does nothing. The smallest one reads "
        f"{format_size(smallest.bytes_read)} in {smallest.seconds:.1f} s with "
        f"{format_count(smallest.requests or 0, 'request')}"
    )


def _smallest_part(action: Action) -> Effect:
    if len(action.bins) > 1 and not action.places_rows:
        part = action.limited(int(action.bins.bytes.min()))
        return action.predicted if part is None else part.predicted
    return action.predicted
