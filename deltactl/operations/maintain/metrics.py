"""Write metrics of the tables for Prometheus (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.operations.maintain.report import TableReport

_METRICS: Final = (
    ("small_files", "Files smaller than three quarters of the target size"),
    ("table_bytes", "Bytes of all live files"),
    ("log_tail_commits", "Commits since the last checkpoint"),
    ("reclaimable_bytes", "Bytes that a vacuum would free"),
    ("due_actions", "Actions that may be done now"),
    (
        "last_success_timestamp_seconds",
        "Time when maintain last finished all due actions on the table",
    ),
    ("seconds", "Seconds that the last maintain run spent on the table"),
    ("exit_status", "Exit status of the last maintain run for the table"),
)


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
            "table_bytes": facts.size_bytes,
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
    """Escape the value of a label, as the format requires."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
