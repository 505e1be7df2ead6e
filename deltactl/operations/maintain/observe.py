"""Observe one table: its log, read once, and at most one listing of its files.

Afterwards, only numbers and the due actions of a table stay in memory; the bins of an action are a
few arrays. So any number of tables can be observed with the memory for the largest one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, SafetyError, UnsupportedFeatureError, UsageError
from deltactl.log.commits.events import EventCollector
from deltactl.log.commits.z_orders import ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.leases import read_last_run
from deltactl.operations.maintain.actions import Action
from deltactl.operations.maintain.candidates import HotRule, TableSubject, find_optimize
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.maintain.upkeep import (
    find_checkpoint,
    find_cleanup,
    find_manifest,
    find_vacuum,
)
from deltactl.operations.optimize.candidates import load_files
from deltactl.operations.optimize.plan import OptimizePlan, plan_optimize
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import planning_now
from deltactl.storage.network.counts import requests_sent
from deltactl.units import format_timestamp

RECORD: Final = "maintain"
"""The name of the record of the last run that did work, below ``_deltactl/runs``."""

_REFUSALS: Final = (SafetyError, UnsupportedFeatureError, UsageError)


@dataclass(slots=True)
class TableFacts:
    """Facts about a table; sizes in bytes, times in ms since 1970 UTC.

    A fact is ``None`` if it was not examined, because the policy disables it or there was no
    listing. ``waiting_files`` and ``waiting_log_files`` (commits) have expired by this machine's
    clock only.
    ``problems``: actions that are enabled but not possible. ``requests``: number of requests of the
    observation.
    """

    table: str
    uri: str
    table_id: str
    version: int
    num_files: int = 0
    size_bytes: int = 0
    partitions: int = 0
    small_files: int | None = None
    small_bytes: int | None = None
    rows: int = 0
    deleted_rows: int = 0
    files_a_day: int = 0
    hot_partitions: int = 0
    unclustered_bytes: int | None = None
    expected_skipping: float | None = None
    tail_commits: int = 0
    expired_log_files: int | None = None
    reclaimable_files: int | None = None
    reclaimable_bytes: int | None = None
    orphans: int | None = None
    waiting_files: int | None = None
    waiting_log_files: int | None = None
    has_manifests: bool | None = None
    stale_manifests: int | None = None
    last_run_ms: int | None = None
    requests: int = 0
    problems: dict[str, DeltactlError] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        last_ms = self.last_run_ms
        names = (
            "num_files", "size_bytes", "partitions", "small_files", "small_bytes", "rows",
            "deleted_rows",
            "files_a_day", "hot_partitions", "unclustered_bytes", "expected_skipping",
            "tail_commits", "expired_log_files", "reclaimable_files", "reclaimable_bytes",
            "orphans", "waiting_files", "waiting_log_files", "stale_manifests",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in names},
            "last_run": None if last_ms is None else format_timestamp(last_ms),
            "requests": self.requests,
        }


@dataclass(frozen=True, slots=True)
class Observation:
    """The facts about a table, and its due actions, not yet ranked."""

    facts: TableFacts
    policy: MaintainPolicy
    actions: tuple[Action, ...]


def observe_table(
    table: str, log: DeltaLog, policy: MaintainPolicy, context: RunContext
) -> Observation:
    """Read the log of a table and find due actions.

    Raises:
        DeltactlError: there is no table, its log is damaged, or the store failed.
    """
    before = requests_sent().total
    observation = log.retry_after_cleanup(lambda: _look(table, log, policy, context))
    observation.facts.requests = requests_sent().total - before
    return observation


def _look(table: str, log: DeltaLog, policy: MaintainPolicy, context: RunContext) -> Observation:
    log.ensure_exists()
    events, z_orders = EventCollector(), ZOrderCommits()
    snapshot = log.snapshot(visitors=[events, z_orders])
    facts = TableFacts(table, log.uri, snapshot.metadata.id, snapshot.version)
    now_ms = context.clock.now_ms()
    expiry_ms = planning_now(log, snapshot, context, now_ms)
    subject = TableSubject(
        table, log, snapshot, policy, now_ms, expiry_ms, context, events, z_orders
    )
    last = read_last_run(log.store, RECORD)
    if last is not None and last.table_id == facts.table_id:
        facts.last_run_ms = last.started_ms
    actions: list[Action] = []
    _note_files(facts, subject, actions)
    _note_log(facts, subject, actions)
    _note_deletions(facts, subject, actions)
    return Observation(facts, policy, tuple(actions))


def _note_files(facts: TableFacts, subject: TableSubject, actions: list[Action]) -> None:
    """Set sizes, deleted rows, writes and layout, and find candidates for optimize."""
    snapshot, policy = subject.snapshot, subject.policy
    options = subject.optimize_options()
    loaded = load_files(snapshot)
    files, _, facts.size_bytes = loaded
    facts.num_files = files.num_rows
    vectors = pc.struct_field(files["deletion_vector"], "cardinality")
    facts.rows = int(pc.sum(files["num_records"]).as_py() or 0)
    facts.deleted_rows = int(pc.sum(vectors).as_py() or 0)
    try:
        hot = HotRule.of(snapshot, files, policy, subject.now_ms)
        facts.partitions, facts.files_a_day = hot.num_partitions, hot.files_a_day
        facts.hot_partitions = len(hot.labels)
        if "optimize" not in policy.actions:
            return
        plan = plan_optimize(
            subject.log, snapshot, options, subject.now_ms, z_orders=subject.z_orders, loaded=loaded
        )
    except _REFUSALS as error:
        if "optimize" in policy.actions:
            facts.problems["optimize"] = error
        return
    _note_plan(facts, plan)
    actions += find_optimize(subject, plan, hot)


def _note_plan(facts: TableFacts, plan: OptimizePlan) -> None:
    facts.small_files = plan.sizes_before.small_files
    facts.small_bytes = plan.sizes_before.small_bytes
    if plan.layout is not None:
        facts.unclustered_bytes = plan.bytes_to_rewrite - plan.layout.placed_bytes
        facts.expected_skipping = expected_skipping(
            np.asarray(plan.layout.files_after, np.int64), len(plan.layout.request.columns)
        )


def expected_skipping(outputs: Any, columns: int) -> float | None:
    """Return the share of files that a query by one of the columns would skip, on average.

    If ``k`` files are placed by ``d`` columns, a query for one value of one column reads about
    ``k^(1 - 1/d)`` files, so it skips ``1 - k^(-1/d)`` of them.
    """
    total = int(outputs.sum()) if len(outputs) else 0
    if not total:
        return None
    skipped = outputs * (1 - np.maximum(outputs, 1) ** (-1.0 / columns))
    return round(float(skipped.sum() / total), 4)


def _note_log(facts: TableFacts, subject: TableSubject, actions: list[Action]) -> None:
    """Set the tail of the log, its expired files, and manifests."""
    snapshot, policy = subject.snapshot, subject.policy
    facts.tail_commits = snapshot.version - snapshot.segment.checkpoint_version
    if "checkpoint" in policy.actions:
        _try(facts, "checkpoint", lambda: actions.extend(find_checkpoint(subject)))
    if "log-cleanup" in policy.actions:

        def clean() -> None:
            found = find_cleanup(subject)
            facts.expired_log_files, facts.waiting_log_files = found.files, found.waiting
            actions.extend(found.actions)

        _try(facts, "log-cleanup", clean)
    if "manifest" in policy.actions:

        def compare() -> None:
            facts.has_manifests, facts.stale_manifests, found = find_manifest(subject)
            actions.extend(found)

        _try(facts, "manifest", compare)


def _note_deletions(facts: TableFacts, subject: TableSubject, actions: list[Action]) -> None:
    """Set the files that a vacuum would remove."""
    if "vacuum" not in subject.policy.actions:
        return

    def plan() -> None:
        found = find_vacuum(subject)
        facts.reclaimable_files, facts.reclaimable_bytes = found.files, found.size_bytes
        facts.orphans, facts.waiting_files = found.orphans, found.waiting
        actions.extend(found.actions)

    _try(facts, "vacuum", plan)


def _try(facts: TableFacts, name: str, look: Any) -> None:
    """Call a function; a refusal is a problem of this action only."""
    try:
        look()
    except _REFUSALS as error:
        facts.problems[name] = error
