"""Print the report of ``maintain`` as text: ranked actions, predicted and measured values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.parsing.argv import real_command, typed_command
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.maintain.actions import Action, Effect
    from deltactl.operations.maintain.facts import TableFacts
    from deltactl.operations.maintain.report import Outcome, TableReport

_SHOWN: Final = 20
_SHOWN_OF_FLEET: Final = 50


def summarise(report: TableReport) -> str:
    """Return what was done, or would be, in one line."""
    left = len(report.left)
    rest = f"; {left:,} left" if left else ""
    if report.dry_run:
        due = [action for action in report.actions if action.state == "planned"]
        if not due:
            return f"nothing to do{rest}"
        return f"{format_count(len(due), 'action')} to do: {_brief(report.predicted)}{rest}"
    done = sum(action.state == "done" for action in report.actions)
    if not done:
        return f"nothing was done{rest}" if report.is_due else f"nothing to do{rest}"
    return f"{format_count(done, 'action')} done: {_brief(report.measured)}{rest}"


def format_score(score: float) -> str:
    """Return a score with two significant digits: a prediction is not more exact."""
    if score < 1:
        return f"{score:.2f}"
    places = 1 - len(str(int(score))) + 1
    return f"{round(score, min(places, 0)):,.0f}"


def _brief(effect: Effect) -> str:
    return (
        f"{format_count(effect.files_removed, 'file')} fewer, {format_size(effect.bytes_read)} read"
    )


def render_report(page: Page, report: TableReport, argv: Sequence[str]) -> None:
    """Render the actions of one table; ``argv`` is the command."""
    headline = summarise(report)
    tone = Tone.STRONG if report.dry_run else Tone.GOOD
    page.line(Styled(headline[0].upper() + headline[1:], tone), f", version {report.facts.version}")
    page.line()
    page.fields(list(_list_facts(report)))
    planned = [action for action in report.actions if action.state == "planned"]
    if planned:
        page.line()
        planned.sort(key=lambda action: action.rank)
        _render_actions(page, planned, _SHOWN, with_table=False)
    if report.outcomes:
        page.line()
        _render_outcomes(page, report.outcomes)
    _render_left(page, report.left)
    for name, error in report.facts.problems.items():
        page.line(Styled(f"{name} is not possible: ", Tone.CAUTION), error.message)
    if report.dry_run and planned:
        _render_command(page, argv)


def _render_command(page: Page, argv: Sequence[str]) -> None:
    page.line()
    page.line(Styled("Nothing was changed.", Tone.STRONG), " To do it: ")
    page.line(f"  {real_command(argv)}")


def _list_facts(report: TableReport) -> Iterator[tuple[str, str]]:
    facts = report.facts
    size = format_size(facts.size_bytes)
    small = "" if facts.small_files is None else f", {facts.small_files:,} small"
    yield "files", f"{facts.num_files:,} ({size}){small}"
    if facts.deleted_rows:
        yield "deleted rows", f"{facts.deleted_rows:,} of {facts.rows:,}"
    if facts.hot_partitions:
        hot = format_count(facts.hot_partitions, "partition")
        yield "being written", f"{hot} of {facts.partitions:,}, {facts.files_a_day:,} files a day"
    if facts.unclustered_bytes is not None:
        yield "not clustered", format_size(facts.unclustered_bytes)
        if facts.expected_skipping is not None:
            yield "would be skipped", f"{facts.expected_skipping:.0%} by a clustering column"
    yield "log", f"{format_count(facts.tail_commits, 'commit')} since the checkpoint"
    if facts.reclaimable_bytes is not None:
        files = format_count(facts.reclaimable_files or 0, "file")
        yield "removable", f"{files} ({format_size(facts.reclaimable_bytes)})"
    if facts.waiting_files:
        yield "waiting", _describe_waiting(facts, facts.waiting_files, "file")
    if facts.waiting_log_files:
        yield "waiting", _describe_waiting(facts, facts.waiting_log_files, "commit")


def _describe_waiting(facts: TableFacts, count: int, what: str) -> str:
    words = ["vacuum", facts.table, "--force-retention"]
    if what == "commit":
        words = ["checkpoint", facts.table, "--cleanup-only", "--yes"]
    return (
        f"{format_count(count, what)} past the retention by this machine's clock only. If it is "
        f"right, run `{typed_command(words)}`"
    )


def _render_actions(page: Page, actions: Sequence[Action], most: int, *, with_table: bool) -> None:
    columns = [
        Column("rank", right=True),
        *([Column("table", elastic=True, is_path=True)] if with_table else []),
        Column("action"),
        Column("files", right=True),
        Column("read", right=True),
        Column("time", right=True, spare=1),
        Column("score", right=True, spare=2),
        Column("partition", elastic=True, is_path=True),
    ]
    shown = actions[:most]
    grid = Page(page.width, is_whole=page.is_whole)
    grid.table(columns, [_action_row(action, with_table) for action in shown])
    header, *rows = grid.lines
    page.lines.append(header)
    for row, action in zip(rows, shown, strict=True):  # reasons are too long for a column
        page.lines.append(row)
        page.line("      ", Styled(action.reason, Tone.FAINT))
    more = len(actions) - most
    if more > 0:
        page.line(Styled(f"and {more:,} more actions (-o json lists all)", Tone.FAINT))


def _action_row(action: Action, with_table: bool) -> list[str]:
    predicted = action.predicted
    return [
        str(action.rank),
        *([action.table] if with_table else []),
        action.name + (" (part)" if action.is_part else ""),
        f"{-predicted.files_removed:+,}" if predicted.files_removed else "0",
        format_size(predicted.bytes_read),
        f"{predicted.seconds:.1f} s",
        format_score(action.score),
        action.partition or "-",
    ]


def _render_outcomes(page: Page, outcomes: Sequence[Outcome]) -> None:
    columns = [
        Column("action"),
        Column("files", right=True),
        Column("predicted", right=True),
        Column("freed", right=True),
        Column("read", right=True),
        Column("predicted", right=True),
        Column("time", right=True, spare=1),
        Column("predicted", right=True, spare=2),
        Column("", elastic=True),
    ]
    page.table(columns, [_outcome_row(outcome) for outcome in outcomes])


def _outcome_row(outcome: Outcome) -> list[str]:
    predicted, measured = outcome.predicted, outcome.measured
    name = outcome.name
    parts = sum(action.partition is not None for action in outcome.actions)
    if parts > 1:
        name = f"{name} of {parts:,}"  # type: ignore[assignment]
    if measured is None:
        why = outcome.note if outcome.error is None else outcome.error.message
        return [name, "-", str(-predicted.files_removed), "-", "-", "-", "-", "-", why or ""]
    versions = ", ".join(map(str, outcome.versions))
    said = outcome.note or (f"version {versions}" if versions else "")
    return [
        name,
        f"{-measured.files_removed:+,}" if measured.files_removed else "0",
        f"{-predicted.files_removed:+,}" if predicted.files_removed else "0",
        format_size(measured.bytes_freed),
        format_size(measured.bytes_read),
        format_size(predicted.bytes_read),
        f"{measured.seconds:.1f} s",
        f"{predicted.seconds:.1f} s",
        said,
    ]


def _render_left(page: Page, left: Sequence[Action]) -> None:
    """Render the number of actions not done by reason, because most have the same reason."""
    if not left:
        return
    counts = Counter((action.name, action.why_left or "") for action in left)
    page.line()
    page.line(Styled("Not done", Tone.STRONG))
    for (name, why), count in counts.most_common(_SHOWN):
        page.line(f"  {format_count(count, name, name)}  {why}")
    if len(counts) > _SHOWN:
        page.line(Styled(f"  and {len(counts) - _SHOWN:,} other reasons", Tone.FAINT))


def render_totals(page: Page, reports: Sequence[TableReport], argv: Sequence[str]) -> None:
    """Render the due actions of all tables by rank, or the totals of what was done."""
    planned = [a for report in reports for a in report.actions if a.state == "planned"]
    if planned:
        page.line()
        planned.sort(key=lambda action: action.rank)
        _render_actions(page, planned, _SHOWN_OF_FLEET, with_table=True)
    measured = [report for report in reports if report.outcomes]
    if measured:
        page.line()
        page.fields(list(_list_totals(measured)))
    _render_left(page, [action for report in reports for action in report.left])
    if planned:
        _render_command(page, argv)


def _list_totals(reports: Sequence[TableReport]) -> Iterator[tuple[str, str]]:
    from deltactl.operations.maintain.actions import sum_effects

    done = sum_effects(report.measured for report in reports)
    said = sum_effects(report.predicted for report in reports)
    yield "files fewer", f"{done.files_removed:,}, predicted {said.files_removed:,}"
    yield "read", f"{format_size(done.bytes_read)}, predicted {format_size(said.bytes_read)}"
    yield "freed", f"{format_size(done.bytes_freed)}, predicted {format_size(said.bytes_freed)}"
    yield "requests saved per scan", f"{done.requests_saved:,}, predicted {said.requests_saved:,}"
    yield "time", f"{done.seconds:.1f} s, predicted {said.seconds:.1f} s"


def flatten(report: TableReport) -> list[dict[str, Any]]:
    """Return a row for each action, for csv and ndjson."""
    rows = []
    for action in report.actions:
        row = action.to_dict()
        predicted = row.pop("predicted")
        rows.append(row | {f"predicted_{name}": value for name, value in predicted.items()})
    return rows
