"""``maintain``: observe all tables, decide over all of them, act on each, report.

observe (log, at most one listing) -> rank by benefit per cost, cut at the budget -> for each table
manifest, vacuum, optimize, checkpoint, log cleanup -> compare what was predicted and measured.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from deltactl.clock import Clock
from deltactl.engine.base import Progress, StopToken
from deltactl.errors import (
    DeltactlError,
    UnsupportedFeatureError,
    UsageError,
    Warn,
    explain_foreign,
    find_worst_error,
    naming_table,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing.commit_base import lost_error
from deltactl.operations.find_tables import is_table
from deltactl.operations.leases import Holder, LastRun, hold_lease, write_last_run
from deltactl.operations.maintain.act import TableWork
from deltactl.operations.maintain.actions import Action, TableFacts
from deltactl.operations.maintain.observe import (
    RECORD,
    Decision,
    Observation,
    decide,
    observe_table,
)
from deltactl.operations.maintain.options import MaintainOptions, Spending
from deltactl.operations.maintain.policy import ACTIONS, MaintainPolicy
from deltactl.operations.maintain.report import MaintainReport, TableReport
from deltactl.operations.run_context import RunContext
from deltactl.storage.open import canonical_uri
from deltactl.storage.store import Store
from deltactl.units import format_count

__all__ = ["MaintainOptions", "MaintainPolicy", "MaintainReport", "Maintenance", "maintain_tables"]

_log: Final = logging.getLogger(__name__)

PolicyOf = Callable[[str], MaintainPolicy]
"""Returns the policy of a table, by its address."""


class Maintenance:
    """One run over several tables, in three steps; tables may be processed in parallel threads.

    ``observe`` each table, then ``decide`` once, then ``act`` on each table.
    """

    def __init__(
        self, options: MaintainOptions, clock: Clock, *, sums_tombstones: bool = False
    ) -> None:
        """Start the run: the time of the budget is measured from now on."""
        self.options, self._clock, self._sums_tombstones = options, clock, sums_tombstones
        self.spending = Spending(options.budget, clock)
        self.observations: dict[str, Observation] = {}
        self._observed_for: dict[str, float] = {}  # seconds
        self.errors: dict[str, DeltactlError] = {}
        self.skipped: dict[str, str] = {}  # tables that the policy leaves out, with the reason
        self.decision = Decision((), ())

    def choose_tables(self, policies: Mapping[str, MaintainPolicy]) -> dict[str, MaintainPolicy]:
        """Return the policies of tables on which an action may run, with only such actions.

        The other tables are ``skipped``: their logs are not to be read.
        """
        only = self.options.only or frozenset(ACTIONS)
        chosen = {}
        for table, policy in policies.items():
            if actions := only.intersection(policy.actions):
                chosen[table] = replace(policy, actions=actions)
            elif policy.actions:
                self.skipped[table] = f"the policy does not enable {', '.join(sorted(only))}"
            else:
                self.skipped[table] = "the policy has no actions"
        return chosen

    def observe(
        self, table: str, log: DeltaLog, policy: MaintainPolicy, context: RunContext
    ) -> None:
        """Observe a table; an error is stored for ``act`` and does not stop the others."""
        began = self._clock.monotonic()
        try:
            self.observations[table] = observe_table(
                table, log, policy, context, sums_tombstones=self._sums_tombstones
            )
        except Exception as error:
            self.errors[table] = explain_foreign(f"the observation of {table}", error)
        self._observed_for[table] = self._clock.monotonic() - began

    def decide(self, tables: Sequence[str]) -> list[str]:
        """Choose the actions; return the tables in the order in which to act on them."""
        seen = {table: self.observations[table] for table in tables if table in self.observations}
        self.decision = decide(seen, self.spending, self.options.jobs)
        _log.info(
            "%s: %s chosen, %d left",
            format_count(len(seen), "table"), format_count(len(self.decision.chosen), "action"),
            len(self.decision.left),
        )  # fmt: skip
        return self.decision.order_tables(tables)

    def has_work(self, table: str) -> bool:
        """Return whether an action on the table was chosen."""
        return any(action.table == table for action in self.decision.chosen)

    def rest(self, table: str) -> TableReport:
        """Return the report of a table for which nothing was chosen.

        Raises:
            DeltactlError: the table could not be observed.
        """
        if table in self.errors:
            raise self.errors[table]
        _, left = self.decision.of_table(table)
        seconds = self._observed_for[table]
        facts = self.observations[table].facts
        return TableReport(facts, self.options.budget, tuple(left), seconds=seconds)

    def act(self, table: str, log: DeltaLog, context: RunContext) -> TableReport:
        """Do the chosen actions of a table.

        Raises:
            LeaseHeldError: another maintain is running on the table.
            NotATableError, StorageError: the table was deleted or moved meanwhile.
            DeltactlError: the table could not be observed.
        """
        chosen, left = self.decision.of_table(table)
        if not chosen:
            return self.rest(table)
        if not is_table(log.store):  # a lease would leave a directory behind
            raise lost_error(log)
        store, observation = log.store, self.observations[table]
        began = self._clock.monotonic()
        # Tables must not share an id: it is in the names of new files, and a sync of a clone copies
        # files under the same names.
        run_id = context.run_id if len(self.observations) == 1 else None
        holder = Holder.here(run_id or self._clock.new_id(), self._clock)
        lease = hold_lease(store, RECORD, holder, clock=self._clock, warn=context.warn)
        work = TableWork(
            log, observation.facts, observation.policy, self.options, self.spending,
            replace(context, run_id=holder.run_id),
            counts_requests=self.options.jobs == 1,
            owes_vacuum=_owes_vacuum(observation.facts, (*chosen, *left)),
        )  # fmt: skip
        with lease if self.options.lease else nullcontext():
            work.run(chosen)
            settled = _settle(chosen, work)
            report = TableReport(
                observation.facts,
                self.options.budget,
                (*settled, *left),
                tuple(work.outcomes),
                interrupted=work.is_cancelled and any(it.state == "left" for it in settled),
                seconds=self._observed_for[table] + self._clock.monotonic() - began,
            )
            self._write_down(store, report, holder, context.warn)
        return report

    def preview(self, table: str) -> TableReport:
        """Return the planned actions of a table.

        Raises:
            DeltactlError: the table could not be observed.
        """
        rest = self.rest(table)
        chosen, _ = self.decision.of_table(table)
        return replace(rest, actions=(*chosen, *rest.actions), dry_run=True)

    def _write_down(self, store: Store, report: TableReport, holder: Holder, warn: Warn) -> None:
        """Record the run, for the metrics, if it did work and left no due work."""
        is_whole = not (report.errors or report.interrupted) and all(
            action.rank == 0 or action.state == "done" for action in report.actions
        )
        if not is_whole:
            return
        run = LastRun(holder.run_id, report.facts.table_id, holder.since_ms, self._clock.now_ms())
        try:
            write_last_run(store, RECORD, run)
        except DeltactlError as error:
            warn(f"this run could not be recorded: {error.message}")


def _owes_vacuum(facts: TableFacts, actions: Iterable[Action]) -> bool:
    """Return whether a vacuum may be due. One that a table feature forbids does not count."""
    problem = facts.problems.get("vacuum")
    is_refused = problem is not None and not isinstance(problem, UnsupportedFeatureError)
    return is_refused or any(action.name == "vacuum" for action in actions)


def _settle(chosen: Sequence[Action], work: TableWork) -> tuple[Action, ...]:
    """Return the actions that were to be done on a table, with their results."""
    settled: dict[tuple[int, str], Action] = {}
    for action in work.left:
        settled[action.rank, action.name] = action
    for outcome in work.outcomes:
        for action in outcome.actions:
            settled[action.rank, action.name] = outcome.settle(action)
    found = [settled.pop((action.rank, action.name)) for action in chosen]
    return (*found, *settled.values())


def _stop_on_failure(context: RunContext) -> tuple[RunContext, list[Exception]]:
    """Return a context that is cancelled by an error of ``on_progress``, and these errors."""
    failures: list[Exception] = []
    if (on_progress := context.on_progress) is None:
        return context, failures

    def call(progress: Progress) -> None:
        try:
            on_progress(progress)
        except Exception as error:
            failures.append(error)
            raise

    cancel = StopToken(context.cancel, lambda: bool(failures))
    return replace(context, on_progress=call, cancel=cancel), failures


def _context_of(log: DeltaLog, context: RunContext) -> RunContext:
    return replace(context.of_log(log), warn=log.warn)


def maintain_tables(
    tables: Sequence[str],
    policy_of: PolicyOf,
    options: MaintainOptions,
    context: RunContext,
    *,
    dry_run: bool = False,
) -> MaintainReport:
    """Do the most useful work on some tables, within a budget; see ``docs/maintain.md``.

    No two addresses are of one table. A dry run only observes and decides; it writes nothing.

    Raises:
        UsageError: there is no table, or a table is given twice.
        Exception: that of ``on_progress``; no action begins after it.
    """
    if not tables or len({*map(canonical_uri, tables)}) < len(tables):
        raise UsageError("maintain needs at least one table, and each table only once")
    run = Maintenance(options, context.clock)
    policies = run.choose_tables({table: policy_of(table) for table in tables})
    context, failures = _stop_on_failure(context)
    logs: dict[str, DeltaLog] = {}
    with ThreadPoolExecutor(options.jobs, thread_name_prefix="deltactl-maintain") as pool:

        def observe(table: str) -> None:
            try:
                warn = naming_table(context.warn, table)
                logs[table] = log = DeltaLog.open(
                    table, context.storage_options, warn=warn, read_only=dry_run
                )
            except DeltactlError as error:
                run.errors[table] = error
                return
            run.observe(table, log.read_only(), policies[table], _context_of(log, context))

        list(pool.map(observe, policies))
        ordered = run.decide([*policies])
        found: dict[str, TableReport] = {}

        def act(table: str) -> None:
            try:
                log = None if dry_run else logs.pop(table, None)
                found[table] = (
                    run.preview(table)
                    if log is None
                    else run.act(table, log, _context_of(log, context))
                )
            except DeltactlError as error:
                run.errors[table] = error

        list(pool.map(act, ordered))
    if failures:
        raise failures[0]
    reports = tuple(found[table] for table in tables if table in found)
    errors = {it.facts.table: find_worst_error(it.errors) for it in reports if it.errors}
    return MaintainReport(reports, errors | run.errors, run.decision.note, run.skipped)
