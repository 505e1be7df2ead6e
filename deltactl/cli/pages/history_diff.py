"""Print the changes between two versions, and the commits that changed a partition, as text."""

from __future__ import annotations

from collections.abc import Mapping

from deltactl.cli.output.page import Cell, Column, Page, Styled, Tone
from deltactl.cli.pages.history import (
    CHANGE_COLUMNS,
    change_cells,
    drop_empty_columns,
    format_partition,
    render_commits,
)
from deltactl.log.commits.changes import FileCounts
from deltactl.operations.history.blame import BlameReport
from deltactl.operations.history.changes import Change
from deltactl.operations.history.diff import VersionDiff
from deltactl.units import format_count, format_size, format_timestamp

_SHOWN_PARTITIONS = 20


def render_diff(page: Page, diff: VersionDiff) -> None:
    """Render the differences between two versions."""
    page.fields(
        [
            ("from", _version(diff.first, diff.timestamps_ms[0])),
            ("to", _version(diff.last, diff.timestamps_ms[1])),
            ("added", Styled(_describe(diff.added), Tone.GOOD)),
            ("removed", Styled(_describe(diff.removed), Tone.CAUTION)),
        ]
    )
    if diff.num_remarked:
        files = format_count(diff.num_remarked, "file", "files")
        page.line(f"{files} are in both versions and only changed their deletion vector")
    _render_partitions(page, diff)
    _render_changes(page, "columns", {c.column: (c.before, c.after) for c in diff.columns})
    _render_changes(page, "properties", diff.properties)
    _render_changes(page, "table", diff.facts)


def _version(version: int, timestamp_ms: int | None) -> str:
    when = "" if timestamp_ms is None else f", {format_timestamp(timestamp_ms)}"
    return f"version {version}{when}"


def _describe(counts: FileCounts) -> str:
    size = "? bytes" if counts.size_bytes is None else format_size(counts.size_bytes)
    rows = "? rows" if counts.num_rows is None else format_count(counts.num_rows, "row", "rows")
    return f"{format_count(counts.num_files, 'file', 'files')}, {size}, {rows}"


def _render_partitions(page: Page, diff: VersionDiff) -> None:
    if not any(part.partition_values for part in diff.partitions):
        return
    page.line()
    columns = [Column("partition", elastic=True, is_path=True), *CHANGE_COLUMNS]
    shown = diff.partitions[:_SHOWN_PARTITIONS]
    lines: list[list[Cell]] = [
        [format_partition(part.partition_values), *change_cells(part)] for part in shown
    ]
    page.table(*drop_empty_columns(columns, lines))
    more = len(diff.partitions) - len(shown)
    if more:
        page.line(Styled(f"and {more:,} more partitions (-o csv lists all)", Tone.FAINT))


def _render_changes(
    page: Page, heading: str, changes: Mapping[str, tuple[str | None, str | None]]
) -> None:
    if not changes:
        return
    page.line()
    page.line(Styled(heading, Tone.STRONG))
    for name, (before, after) in changes.items():
        if before is None:
            page.line("  ", Styled("+ ", Tone.GOOD), name, Styled(" = ", Tone.FAINT), after or "")
        elif after is None:
            page.line("  ", Styled("- ", Tone.BAD), name, Styled(" = ", Tone.FAINT), before)
        else:
            page.line("  ", Styled("~ ", Tone.CAUTION), name, f": {before} -> {after}")


def render_blame(page: Page, report: BlameReport, now_ms: int) -> None:
    """Render the commits that changed a partition, and what each of them changed."""
    asked = report.asked
    heading = asked.sql or "" if asked.partition is None else format_partition(asked.partition)
    page.line(Styled(heading, Tone.STRONG))
    page.line()
    if not report.rows:
        page.line("no commit in the log added or removed files in this partition")
        return
    changes = {
        version: Change(
            change.added.num_files,
            change.added.size_bytes,
            change.removed.num_files,
            change.removed.size_bytes,
            change.added.num_rows,
            change.removed.num_rows,
        )
        for version, change in report.changes.items()
    }
    render_commits(page, report.rows, changes, now_ms)
    if report.num_unread:
        page.line()
        older = format_count(report.num_unread, "older version")
        page.line(Styled(f"{older} not shown: use --all", Tone.FAINT))
