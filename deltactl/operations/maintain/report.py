"""The result of ``maintain``: predicted and measured values, and actions that were not done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deltactl.errors import DeltactlError, InterruptedRunError, UnsupportedFeatureError
from deltactl.operations.maintain.actions import Action, Effect, TableFacts, sum_effects
from deltactl.operations.maintain.options import Budget
from deltactl.operations.maintain.policy import ActionName
from deltactl.operations.short_repr import ShortRepr
from deltactl.units import to_duration_ms

_METRICS: Final = (
    ("small_files", "Files smaller than three quarters of the target size"),
    ("table_files", "Live files"),
    ("table_bytes", "Bytes of all live files"),
    ("time_travel_bytes", "Bytes of removed files that are kept for time travel"),
    ("log_tail_commits", "Commits since the last checkpoint"),
    ("reclaimable_bytes", "Bytes that a vacuum would free"),
    ("due_actions", "Actions that may be done now"),
    ("last_success_timestamp_seconds", "Time when maintain last succeeded on the table"),
    ("seconds", "Seconds that the last maintain run spent on the table"),
    ("exit_status", "Exit status of the last maintain run for the table"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one call of an operation, for one action or several partitions at once.

    ``measured`` is ``None`` if it failed, or was stopped before anything was done. ``failed`` are
    the partitions with bins that failed or were lost, each with a reason; the others are done, also
    if there is an ``error``. ``note`` says what is worth knowing. ``was_done``: there was nothing
    left to do, because another run, or an action before, had done it. ``is_stopped``: the time or a
    signal ended it before the end; ``unfinished`` are the partitions with bins that were not done,
    ``None`` if it is not known.
    """

    name: ActionName
    actions: tuple[Action, ...]
    predicted: Effect
    measured: Effect | None = None
    versions: tuple[int, ...] = ()
    note: str | None = None
    error: DeltactlError | None = None
    was_done: bool = False
    is_stopped: bool = False
    unfinished: frozenset[str] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)

    def settle(self, action: Action) -> Action:
        """Return one of the actions with its result."""
        by_partition = self.failed.keys() <= {it.partition for it in self.actions} and self.failed
        why = self.failed.get(action.partition or "") if by_partition else None
        if self.error is not None and not by_partition:
            why = self.error.message
        if why is not None:
            return action.left(why, "failed")
        rest = self.unfinished
        if self.is_stopped and (rest is None or (action.partition or "") in rest):
            return action.left(self.note or "stopped")
        return replace(action, state="done")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "action": self.name,
            "ranks": [action.rank for action in self.actions if action.rank],
            "partitions": sum(action.partition is not None for action in self.actions),
            "predicted": self.predicted.to_dict(),
            "measured": None if self.measured is None else self.measured.to_dict(),
            "versions": list(self.versions),
            "note": self.note,
            "was_done": self.was_done,
            "error": None if self.error is None else self.error.message,
        }


@dataclass(frozen=True, slots=True, repr=False)
class TableReport(ShortRepr):
    """The result for one table.

    ``actions``: all due actions, with their state; ``outcomes``: the finished calls. ``errors``:
    all failures, and problems of enabled actions that are not possible; but that deltactl does not
    support optimize of the table is no error, so that the other actions can be unattended.
    """

    facts: TableFacts
    budget: Budget
    actions: tuple[Action, ...]
    outcomes: tuple[Outcome, ...] = ()
    dry_run: bool = False
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def version_before(self) -> int:
        """Return the version that was observed."""
        return self.facts.version

    @property
    def version_after(self) -> int:
        """Return the last version that was committed, else the one that was observed."""
        return max((v for it in self.outcomes for v in it.versions), default=self.facts.version)

    @property
    def is_due(self) -> bool:
        """Return whether an action may be done now, within the budget or not."""
        return any(action.rank for action in self.actions)

    @property
    def is_part_done(self) -> bool:
        """Return whether an action was done, or a part of one."""
        return any(it.measured is not None for it in self.outcomes)

    @property
    def errors(self) -> tuple[DeltactlError, ...]:
        """Return all errors, those of the actions that were tried first."""
        tried = [it.error for it in self.outcomes if it.error is not None]
        refused = [
            error
            for name, error in self.facts.problems.items()
            if name != "optimize" or not isinstance(error, UnsupportedFeatureError)
        ]
        return (*tried, *refused)

    @property
    def left(self) -> tuple[Action, ...]:
        """Return due actions that were not done."""
        return tuple(action for action in self.actions if action.why_left is not None)

    @property
    def predicted(self) -> Effect:
        """Return the sum of the predictions: of done actions, or in a dry run of planned ones.

        Actions that were already done are excluded, as in the measured sum.
        """
        if self.dry_run:
            return sum_effects(it.predicted for it in self.actions if it.state == "planned")
        done = (it for it in self.outcomes if it.measured is not None and not it.was_done)
        return sum_effects(it.predicted for it in done)

    @property
    def measured(self) -> Effect:
        """Return the sum of the measured effects."""
        return sum_effects(it.measured for it in self.outcomes if it.measured is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes, times in seconds."""
        budget = self.budget
        return {
            "facts": self.facts.to_dict(),
            "budget": {
                "bytes": budget.bytes,
                "time_ms": None if budget.time is None else to_duration_ms(budget.time),
                "requests": budget.requests,
            },
            "due": self.is_due,
            "actions": [action.to_dict() for action in self.actions],
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
            "problems": [
                {"action": name, "code": error.code, "message": error.message}
                for name, error in self.facts.problems.items()
            ],
            "totals": {
                "predicted": self.predicted.to_dict(),
                "measured": None if self.dry_run else self.measured.to_dict(),
                "left": len(self.left),
            },
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True, repr=False)
class MaintainReport(ShortRepr):
    """The result for all tables.

    ``errors``: by table, the worst error of each that has one, also of an action that failed.
    ``note`` is set if no action fits into the budget. ``skipped``: tables that the policy leaves
    out, and the reason; their logs were not read.
    """

    tables: tuple[TableReport, ...] = ()
    errors: Mapping[str, DeltactlError] = field(default_factory=dict)
    note: str | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_due(self) -> bool:
        """Return whether an action may be done now."""
        return any(table.is_due for table in self.tables)

    @property
    def interrupted(self) -> bool:
        """Return whether the run was stopped before it finished all tables."""
        refused = any(isinstance(error, InterruptedRunError) for error in self.errors.values())
        return refused or any(table.interrupted for table in self.tables)

    @property
    def predicted(self) -> Effect:
        """Return the sum of the predictions for all tables."""
        return sum_effects(table.predicted for table in self.tables)

    @property
    def measured(self) -> Effect:
        """Return the sum of the measured effects for all tables."""
        return sum_effects(table.measured for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return one dictionary for each table, in their order, and the errors by table."""
        return {
            "tables": [{"table": it.facts.table, **it.to_dict()} for it in self.tables],
            "errors": {
                name: {"code": error.code, "message": error.message}
                for name, error in self.errors.items()
            },
            "note": self.note,
            "skipped": dict(self.skipped),
            "interrupted": self.interrupted,
        }


@dataclass(frozen=True, slots=True)
class TableSample:
    """A table for the metrics: its report, if there is one, and its exit status.

    ``ended_ms`` is when its run ended, ms since 1970 UTC.
    """

    table: str
    exit_code: int
    ended_ms: int
    report: TableReport | None = None

    def values(self) -> dict[str, float | None]:
        """Return the value of each metric; ``None`` if it is not known."""
        report = self.report
        found: dict[str, float | None] = {"exit_status": int(self.exit_code)}
        if report is None:
            return found
        facts = report.facts
        success_ms = facts.last_run_ms
        if self.exit_code == 0 and not report.dry_run:
            success_ms = self.ended_ms
        return found | {
            "small_files": facts.small_files,
            "table_files": facts.num_files,
            "table_bytes": facts.size_bytes,
            "time_travel_bytes": facts.time_travel_bytes,
            "log_tail_commits": facts.tail_commits,
            "reclaimable_bytes": facts.reclaimable_bytes,
            "due_actions": sum(action.rank > 0 for action in report.actions),
            "last_success_timestamp_seconds": None if success_ms is None else success_ms / 1000,
            "seconds": round(report.seconds, 3),
        }


def render_metrics(samples: Sequence[TableSample]) -> str:
    """Return the text: sizes and counts as they were when the run began, without timestamps."""
    known = [(sample.table, sample.values()) for sample in samples]
    return "".join(_render(name, about, known) for name, about in _METRICS)


def _render(name: str, about: str, known: Iterable[tuple[str, dict[str, float | None]]]) -> str:
    full = f"deltactl_{name}"
    lines = [
        f'{full}{{table="{_escape(table)}"}} {value!r}\n'
        for table, values in known
        if (value := values.get(name)) is not None
    ]
    if not lines:
        return ""
    return f"# HELP {full} {about}\n# TYPE {full} gauge\n" + "".join(lines)


def _escape(text: str) -> str:
    """Escape the value of a label, as the format requires; names of tables need not be UTF-8."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
