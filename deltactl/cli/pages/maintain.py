"""The sections of the reports of ``maintain``: ranked actions, predicted and measured effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltactl.cli.output.sections import Column, Fact, Kind, Section, Table, Tone, list_rows
from deltactl.cli.parsing.argv import typed_command
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.maintain.actions import Action, Effect, TableFacts
    from deltactl.operations.maintain.report import Outcome, TableReport


def _summarise(report: TableReport) -> str:
    rest = f"; {len(report.left):,} left" if report.left else ""
    count = sum(it.state == ("planned" if report.dry_run else "done") for it in report.actions)
    if not count:
        nothing = "Nothing was done" if report.is_due and not report.dry_run else "Nothing to do"
        return f"{nothing}{rest}"
    effect = report.predicted if report.dry_run else report.measured
    return (
        f"{format_count(count, 'action')} {'to do' if report.dry_run else 'done'}: "
        f"{format_count(effect.files_removed, 'file')} fewer, "
        f"{format_size(effect.bytes_read)} read{rest}"
    )


def describe_maintain(report: TableReport) -> Iterator[Section]:
    """Return the actions of one table."""
    tone = Tone.STRONG if report.dry_run else Tone.GOOD
    title, facts = tone(_summarise(report)), list(_list_facts(report.facts))
    if report.outcomes:
        yield Section(title)
        yield _describe_outcomes(report.outcomes)
        yield Section(Tone.STRONG("The table before the run"), facts=facts)
    else:
        yield Section(title, facts=facts)
    ranked = [it for it in report.actions if it.rank and (it.state == "planned" or report.outcomes)]
    if ranked:
        yield _describe_actions(ranked, is_aside=bool(report.outcomes))
    yield from _describe_left(report.left)
    problems = [(name, error.message) for name, error in report.facts.problems.items()]
    columns = [Column("action"), Column("why", Kind.DETAIL)]
    yield from list_rows("Not possible", Tone.CAUTION, columns, problems)


def _list_facts(facts: TableFacts) -> Iterator[Fact]:
    small = ""
    if facts.small_files is not None:
        small = f", {facts.small_files:,} small ({format_size(facts.small_bytes or 0)})"
    yield "version", str(facts.version)
    yield "files", f"{facts.num_files:,} ({format_size(facts.size_bytes)}){small}"
    deleted = f"{facts.deleted_rows:,} of {facts.rows:,}"
    yield "deleted rows", deleted if facts.deleted_rows else None
    if facts.hot_partitions:
        hot = format_count(facts.hot_partitions, "partition")
        written = format_count(facts.files_a_day, "file")
        yield "being written", f"{hot} of {facts.partitions:,}, {written} a day"
    if facts.unclustered_bytes is not None:
        yield "not clustered", format_size(facts.unclustered_bytes)
    yield "log", f"{format_count(facts.tail_commits, 'commit')} since the checkpoint"
    if facts.reclaimable_bytes is not None:
        files = format_count(facts.reclaimable_files or 0, "file")
        yield "removable", f"{files} ({format_size(facts.reclaimable_bytes)})"
    past = "past the retention by this machine's clock only"
    if facts.waiting_files:
        yield "waiting", f"{format_count(facts.waiting_files, 'file')} {past}"
    if facts.waiting_log_files:
        commits = format_count(facts.waiting_log_files, "commit")
        command = typed_command(["checkpoint", facts.table, "--cleanup-only"])
        yield "waiting", f"{commits} {past}. If it is right, run `{command}` on a terminal"


def _describe_actions(
    actions: Sequence[Action], *, most: int = 20, has_tables: bool = False, is_aside: bool = False
) -> Section:
    columns = [
        Column("rank", Kind.NUMBER),
        Column("table", Kind.PATH),
        Column("action"),
        Column("files", Kind.NUMBER),
        Column("read", Kind.BYTES),
        Column("time", Kind.SECONDS, spare=1),
        Column("score", Kind.NUMBER, spare=2),
        Column("partition", Kind.PATH),
        Column("state"),
        Column("reason", Kind.DETAIL, tone=Tone.FAINT),
    ]
    rows = [
        (
            it.rank,
            it.table if has_tables else "",
            it.name + (" (part)" if it.is_part else ""),
            _fewer(it.predicted),
            it.predicted.bytes_read,
            it.predicted.seconds,
            _format_score(it.score),
            it.partition or "-",
            it.state if is_aside else "",
            it.reason,
        )
        for it in sorted(actions, key=lambda action: action.rank)
    ]
    table = Table(columns, rows, most=most)
    return Section(Tone.STRONG("Actions by rank"), table=table, is_aside=is_aside)


def _format_score(score: float) -> str:
    """Return a score with two significant digits: a prediction is not more exact."""
    if score < 1:
        return f"{score:.2f}"
    return f"{round(score, min(2 - len(str(int(score))), 0)):,.0f}"


def _fewer(effect: Effect) -> str:
    return f"{-effect.files_removed:+,}" if effect.files_removed else "0"


def _describe_outcomes(outcomes: Sequence[Outcome]) -> Section:
    columns = [
        Column("action"),
        Column("files", Kind.NUMBER),
        Column("predicted", Kind.NUMBER),
        Column("freed", Kind.BYTES),
        Column("read", Kind.BYTES),
        Column("predicted", Kind.BYTES),
        Column("time", Kind.SECONDS, spare=1),
        Column("predicted", Kind.SECONDS, spare=2),
        Column("note", Kind.DETAIL),
    ]
    rows = [_outcome_row(outcome) for outcome in outcomes]
    return Section(Tone.STRONG("Measured and predicted"), table=Table(columns, rows))


def _outcome_row(outcome: Outcome) -> Sequence[Any]:
    predicted, it = outcome.predicted, outcome.measured
    parts = sum(action.partition is not None for action in outcome.actions)
    name = f"{outcome.name} of {parts:,}" if parts > 1 else outcome.name
    if it is None:
        note = outcome.note if outcome.error is None else outcome.error.message
        return name, "-", _fewer(predicted), "-", "-", predicted.bytes_read, "-", "-", note
    fewer, read = (_fewer(it), _fewer(predicted)), (it.bytes_read, predicted.bytes_read)
    versions = ", ".join(map(str, outcome.versions))
    note = outcome.note or (f"version {versions}" if versions else "")
    return name, *fewer, it.bytes_freed, *read, it.seconds, predicted.seconds, note


def _describe_left(left: Sequence[Action], *, has_tables: bool = False) -> Iterator[Section]:
    """Return the number of actions not done by reason, because most have the same reason."""
    groups: dict[tuple[str, str], list[Action]] = {}
    for action in left:
        groups.setdefault((action.name, action.why_left or ""), []).append(action)
    columns = [
        Column("count", Kind.NUMBER),
        Column("action"),
        Column("table", Kind.PATH),
        Column("partition", Kind.PATH),
        Column("reason", Kind.TEXT),
    ]
    rows = [
        (
            len(group),
            name,
            _common([it.table for it in group]) if has_tables else "",
            _common([it.partition or "" for it in group]),
            why,
        )
        for (name, why), group in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    return list_rows("Not done", Tone.STRONG, columns, rows)


def _common(names: Sequence[str]) -> str:
    return names[0] if len({*names}) == 1 else "several"


def describe_totals(reports: Sequence[TableReport]) -> Iterator[Section]:
    """Return the due actions of all tables by rank, or the totals of what was done."""
    from deltactl.operations.maintain.actions import sum_effects

    planned = [it for report in reports for it in report.actions if it.state == "planned"]
    if planned:
        yield _describe_actions(planned, most=50, has_tables=True)
    measured = [report for report in reports if report.outcomes]
    if measured:
        columns = [
            Column("all tables"),
            Column("files fewer", Kind.NUMBER),
            Column("read", Kind.BYTES),
            Column("freed", Kind.BYTES),
            Column("requests saved per scan", Kind.NUMBER),
            Column("time", Kind.SECONDS),
        ]
        sums = {
            "measured": sum_effects(report.measured for report in measured),
            "predicted": sum_effects(report.predicted for report in measured),
        }
        rows = [
            (name, it.files_removed, it.bytes_read, it.bytes_freed, it.requests_saved, it.seconds)
            for name, it in sums.items()
        ]
        yield Section(Tone.STRONG("Measured and predicted"), table=Table(columns, rows))
    left = [action for report in reports for action in report.left]
    yield from _describe_left(left, has_tables=True)
