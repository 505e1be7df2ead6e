"""Observe one table: its log, read once, and at most one listing of its files.

Afterwards, only numbers and the due actions of a table stay in memory; the bins of an action are a
few arrays. So any number of tables can be observed with the memory for the largest one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from deltactl.errors import SafetyError, UnsupportedFeatureError, UsageError
from deltactl.log.commits.events import EventCollector
from deltactl.log.commits.z_orders import ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.leases import read_last_run
from deltactl.operations.maintain.actions import Action
from deltactl.operations.maintain.candidates import HotRule, find_optimize, options_of
from deltactl.operations.maintain.facts import TableFacts, TableSubject
from deltactl.operations.maintain.policy import ActionName, MaintainPolicy
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

RECORD: Final = "maintain"
"""The name of the record of the last run that did work, below ``_deltactl/runs``."""

_REFUSALS: Final = (SafetyError, UnsupportedFeatureError, UsageError)
_UPKEEP: Final[dict[ActionName, Callable[[TableSubject], list[Action]]]] = {
    "checkpoint": find_checkpoint,
    "log-cleanup": find_cleanup,
    "manifest": find_manifest,
    "vacuum": find_vacuum,
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
        facts, log, snapshot, policy, now_ms, expiry_ms, context, events, z_orders
    )
    last = read_last_run(log.store, RECORD)
    if last is not None and last.table_id == facts.table_id:
        facts.last_run_ms = last.started_ms
    facts.tail_commits = snapshot.version - snapshot.segment.checkpoint_version
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
        hot = HotRule.of(snapshot, files, policy, subject.now_ms)
        facts.partitions, facts.files_a_day = hot.num_partitions, hot.files_a_day
        facts.hot_partitions = len(hot.labels)
        if "optimize" not in policy.actions:
            return []
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
    _note_plan(facts, plan)
    return find_optimize(subject, plan, hot)


def _note_plan(facts: TableFacts, plan: OptimizePlan) -> None:
    facts.small_files = plan.sizes_before.small_files
    facts.small_bytes = plan.sizes_before.small_bytes
    if plan.layout is not None:
        facts.unclustered_bytes = plan.bytes_to_rewrite - plan.layout.placed_bytes
        facts.expected_skipping = _expected_skipping(
            np.asarray(plan.layout.files_after, np.int64), len(plan.layout.request.columns)
        )


def _expected_skipping(outputs: Any, columns: int) -> float | None:
    """Return the share of files that a query by one of the columns would skip, on average.

    If ``k`` files are placed by ``d`` columns, a query for one value of one column reads about
    ``k^(1 - 1/d)`` files, so it skips ``1 - k^(-1/d)`` of them.
    """
    total = int(outputs.sum()) if len(outputs) else 0
    if not total:
        return None
    skipped = outputs * (1 - np.maximum(outputs, 1) ** (-1.0 / columns))
    return round(float(skipped.sum() / total), 4)
