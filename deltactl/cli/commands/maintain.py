"""``deltactl maintain``: parse options, observe all tables, act on each, print the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from deltactl.cli.exits import ExitCode
from deltactl.cli.options.common import (
    TableArgument,
    check_field,
    dry_run_field,
    max_concurrent_field,
)
from deltactl.cli.options.output_file import choose_output_file, written_at_end
from deltactl.cli.output.output import OutputFormat
from deltactl.cli.output.sections import describe_to_do
from deltactl.cli.parsing.argv import real_command
from deltactl.cli.session import Session
from deltactl.cli.settings.sources import NO, Setting, find_setting
from deltactl.clock import SystemClock
from deltactl.engine.memory import machine_memory_bytes
from deltactl.errors import DeltactlError, find_worst_error
from deltactl.operations.maintain.options import MaintainOptions
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.option_fields import output_option, selection_option
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.maintain.report import TableReport, TableSample
    from deltactl.operations.maintain.run import Maintenance


@dataclass(slots=True)
class _Fleet:
    """The state of a run over all tables: warnings of the first look, results, samples."""

    run: Maintenance
    warnings: dict[str, list[str]] = field(default_factory=dict)
    reports: dict[str, TableReport] = field(default_factory=dict)
    samples: dict[str, TableSample] = field(default_factory=dict)


SETTINGS: Final = (MaintainPolicy,)
"""Options that only settings have."""

_UNUSED: Final = ("quarantine", "keep-last", "retain")


@dataclass(frozen=True, slots=True)
class MaintainFlags:
    """Options that only the command line has."""

    policy: str | None = selection_option(
        None,
        "Read the policy from this file, in the format of deltactl.toml. The file overrides the "
        "environment and the other settings files, but not options on the command line",
        metavar="FILE",
        is_basic=True,
    )
    metrics: str | None = output_option(
        None,
        "Also write metrics to this file, in the Prometheus text format, for the textfile "
        "collector of node_exporter",
        metavar="FILE",
        is_settable=True,
    )
    max_concurrent: int | None = max_concurrent_field("Number of tasks to run at the same time")
    check: bool = check_field("an action is due")
    dry_run: bool = dry_run_field()


def command(
    session: Session, table: TableArgument, options: MaintainOptions, flags: MaintainFlags
) -> None:
    """Maintain many tables within a budget, the best actions first.

    The command reads the log of each table and finds the actions that are due: optimize,
    checkpoint, manifest, log-cleanup and vacuum. It ranks the actions of all tables by benefit per
    cost, and runs the best actions until the budget is used up.

    The settings (the policy) are in the section [maintain] of deltactl.toml. A vacuum keeps every
    file at least until the retention of its table ends.

    \b
    Examples:
      deltactl maintain 's3://lake/*' --dry-run
      deltactl maintain 's3://lake/*' --budget 20GiB --budget 30min
      deltactl maintain --tables-from tables.txt --check
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    from deltactl.operations.maintain.actions import to_rows

    fleet = session.shared
    assert isinstance(fleet, _Fleet)
    if (reason := fleet.run.skipped.get(table)) is not None:
        _note(fleet, table, ExitCode.DONE, None)
        session.present(tuple, rows=to_rows(()), skipped=reason)
        return
    for warning in fleet.warnings.get(table, ()):
        session.output.warn(warning)
    try:
        report = (
            fleet.run.preview(table)
            if flags.dry_run or flags.check
            else _act(session, fleet, table, flags.max_concurrent)
        )
    except DeltactlError as error:
        _note(fleet, table, error.exit_code, None)
        raise
    fleet.reports[table] = report
    _present(session, fleet, table, report, is_check=flags.check)


def _act(session: Session, fleet: _Fleet, table: str, max_concurrent: int | None) -> TableReport:
    run = fleet.run
    if not run.has_work(table):  # no engine, and no store that may write
        return run.rest(table)
    log = session.open_table(table)
    memory = run.options.memory_bytes
    engine = session.engine(max_concurrent=max_concurrent, memory_bytes=memory)
    with session.run_context("maintain", engine) as context:
        return run.act(table, log, context)


def _present(
    session: Session, fleet: _Fleet, table: str, report: TableReport, *, is_check: bool
) -> None:
    from deltactl.cli.pages.maintain import describe_maintain
    from deltactl.operations.maintain.actions import to_rows

    error = _find_error(session, report)
    needs_work = is_check and report.is_due and error is None
    code = ExitCode.WORK_NEEDED if needs_work else ExitCode.DONE
    _note(fleet, table, code if error is None else error.exit_code, report)
    session.present(
        lambda: describe_maintain(report),
        rows=to_rows(report.actions),
        error=error,
        is_work_needed=needs_work,
        version_before=report.version_before,
        version_after=report.version_after,
        is_idle=not report.is_due,
        result=report.to_dict(),
    )


def _find_error(session: Session, report: TableReport) -> DeltactlError | None:
    """Return the error of a table: a signal that stopped it, else the worst error of an action."""
    if report.interrupted:
        num_done = sum(it.state == "done" for it in report.actions)
        done = f"{format_count(num_done, 'action')} finished"
        stopped = session.find_interruption(done, is_part_done=report.is_part_done)
        if stopped is not None:
            return stopped
    if not report.errors:
        return None
    return find_worst_error(report.errors)


def _note(fleet: _Fleet, table: str, code: int, report: TableReport | None) -> None:
    from deltactl.operations.maintain.report import TableSample

    fleet.samples[table] = TableSample(table, code, SystemClock().now_ms(), report)


@contextmanager
def plan_ahead(session: Session, tables: Sequence[str], jobs: int) -> Iterator[Sequence[str]]:
    """Observe all tables and choose actions; at the end print totals, and write metrics.

    Raises:
        UsageError: an option or the policy of a table is invalid.
        PartialSuccessError: the run succeeded, and the metrics could not be written.
    """
    from deltactl.operations.maintain.run import Maintenance

    options = session.take(MaintainOptions)
    memory = options.memory_bytes or machine_memory_bytes() // 2
    options = replace(options, jobs=min(jobs, len(tables) or 1), memory_bytes=memory)
    metrics = _parse_metrics(session)
    run = Maintenance(options, SystemClock(), sums_tombstones=metrics is not None)
    fleet = session.shared = _Fleet(run)
    for pattern, error in session.unlisted.items():
        _note(fleet, pattern, error.exit_code, None)
    session.sum_up = lambda: _sum_up(fleet)
    with session.cancellation():
        _observe(session, fleet, tables)
    # Skipped tables come first, so that a time limit cannot change their status.
    ordered = [*run.skipped, *run.decide([it for it in tables if it not in run.skipped])]
    if run.decision.note is not None:
        session.output.warn(run.decision.note)
    write: AbstractContextManager[None] = nullcontext()
    if metrics is not None:
        write = written_at_end(
            "--metrics", lambda _: _write_metrics(metrics, session, fleet), session.output.warn
        )
    with write:
        try:
            yield ordered
        except typer.Exit:
            _finish(session, fleet)
            raise
        _finish(session, fleet)


def _parse_metrics(session: Session) -> Path | None:
    name = session.take(MaintainFlags).metrics
    if name is None:
        return None
    example = "/var/lib/node_exporter/deltactl.prom"
    return choose_output_file("--metrics", name, example, session.named_files())


def _observe(session: Session, fleet: _Fleet, tables: Sequence[str]) -> None:
    from deltactl.cli.fleet.output import HeldOutput
    from deltactl.operations.run_context import RunContext

    jobs = fleet.run.options.jobs
    held = {table: HeldOutput(session.output, table) for table in tables}
    fleet.warnings = {table: output.warnings for table, output in held.items()}
    children = {table: session.for_table(table, output, jobs) for table, output in held.items()}
    policies = fleet.run.choose_tables(
        {table: child.take(MaintainPolicy) for table, child in children.items()}
    )
    _warn_of_unused(session, policies)
    _warn_of_profiles(session, tables)

    def look(table: str) -> None:
        child = children[table]
        try:
            session.raise_if_cancelled()
            log = child.open_table(table, read_only=True)
        except DeltactlError as error:
            fleet.run.errors[table] = error
            return
        context = RunContext.of(child.output.warn, storage_options=child.storage_options)
        fleet.run.observe(table, log, policies[table], context)

    with ThreadPoolExecutor(jobs, thread_name_prefix="deltactl-look") as pool:
        list(pool.map(look, policies))


def _warn_of_unused(session: Session, policies: Mapping[str, MaintainPolicy]) -> None:
    """Warn once of settings by which ``vacuum`` would keep more than maintain does."""
    unused: dict[str, None] = {}
    for table, policy in policies.items():
        if "vacuum" not in policy.actions:
            continue
        sources = session.settings.sources_for("vacuum", table)
        found: dict[str, Setting | None] = {key: find_setting(sources, key) for key in _UNUSED}
        if policy.retain is not None:  # its own, or one that both use
            found.pop("retain")
        places = (it.place for it in found.values() if it and it.text.strip().lower() not in NO)
        unused |= dict.fromkeys(places)
    if unused:
        session.output.warn(
            f"maintain does not use these settings of vacuum: {', '.join(unused)}. It deletes for "
            "good what has passed the retention. To delete less, set `retain` in the section "
            "[maintain], or omit vacuum from its `actions` and run `deltactl vacuum`"
        )


def _warn_of_profiles(session: Session, tables: Sequence[str]) -> None:
    """Warn once of profiles that match no table; tables given by name may be a part of all."""
    from deltactl.operations.find_tables import is_glob

    params = session.ctx.params
    if params["tables_from"] is None and not any(map(is_glob, params["table"] or ())):
        return
    if idle := session.settings.find_idle_profiles(tables):
        session.output.warn(
            f"no table of this run matches the patterns of {', '.join(idle)}: what it sets applies "
            "to none. `deltactl config TABLE` shows which settings a table has"
        )


def _sum_up(fleet: _Fleet) -> dict[str, Any]:
    from deltactl.operations.maintain.actions import sum_effects

    reports = fleet.reports.values()
    return {
        "predicted": sum_effects(report.predicted for report in reports).to_dict(),
        "measured": sum_effects(report.measured for report in reports).to_dict(),
        "left": sum(len(report.left) for report in reports),
        "failed_tables": sum(
            sample.report is None and sample.exit_code != 0 for sample in fleet.samples.values()
        ),
    }


def _finish(session: Session, fleet: _Fleet) -> None:
    """Print totals as text if there are several tables."""
    from deltactl.cli.pages.maintain import describe_totals

    output = session.output
    is_shown = any(output.has_page(outcome.envelope) for outcome in session.outcomes)
    if is_shown and output.form is OutputFormat.TABLE and fleet.reports:
        reports = list(fleet.reports.values())
        is_due = any(action.state == "planned" for it in reports for action in it.actions)
        to_do = [describe_to_do(real_command(session.argv))] if is_due else []
        output.print_sections(chain(describe_totals(reports), to_do), is_more=True)


def _write_metrics(path: Path, session: Session, fleet: _Fleet) -> None:
    from deltactl.operations.maintain.report import TableSample, render_metrics
    from deltactl.storage.local.store import LocalStore

    for outcome in session.outcomes:  # also of tables on which the command was not called
        sample = fleet.samples.get(outcome.table)
        sample = sample or TableSample(outcome.table, outcome.exit_code, SystemClock().now_ms())
        fleet.samples[outcome.table] = replace(sample, exit_code=outcome.exit_code)
    samples = [fleet.samples[table] for table in sorted(fleet.samples)]
    LocalStore(str(path.parent)).put(path.name, render_metrics(samples).encode())
