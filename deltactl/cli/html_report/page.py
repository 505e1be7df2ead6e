"""Write a report as one self-contained HTML page: no network, no scripts.

The content is that of ``-o json``; sizes and times are formatted for people, and long lists are
cut, with a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from deltactl.cli.exits import MEANINGS, ExitCode, find_worst
from deltactl.cli.html_report.document import format_instant, render_document, render_footer
from deltactl.cli.html_report.html import Markup, element, foreign, join
from deltactl.cli.html_report.maintain import render_maintain
from deltactl.cli.html_report.optimize import render_optimize
from deltactl.cli.html_report.parts import (
    Head,
    render_badge,
    render_fields,
    render_items,
    render_table,
)
from deltactl.cli.html_report.vacuum import render_vacuum
from deltactl.cli.output.envelope import Envelope, ErrorInfo
from deltactl.cli.output.outcome import TableOutcome
from deltactl.units import format_count, format_duration

_MOST_TABLES: Final = 1000
_MOST_SECTIONS: Final = 100

_SECTIONS: Final[
    Mapping[str, Callable[[Envelope, Mapping[str, Any]], Iterator[Markup]]]
] = {"maintain": render_maintain, "optimize": render_optimize, "vacuum": render_vacuum}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about the run, for all tables; times in ms, command lines without secrets.

    ``to_do_it`` is the command line without options such as --dry-run.
    """

    command: str
    command_line: str
    to_do_it: str
    run_id: str
    began_ms: int
    took_ms: int


def render_report(outcomes: Sequence[TableOutcome], facts: RunFacts) -> str:
    """Return the page: one section per table, after an overview if there are several."""
    one = outcomes[0].table if len(outcomes) == 1 else None
    title = f"deltactl {facts.command}: {one or format_count(len(outcomes), 'table', 'tables')}"
    return render_document(title, *_render_body(outcomes, facts))


def _render_body(outcomes: Sequence[TableOutcome], facts: RunFacts) -> Iterator[Markup]:
    yield element(
        "header",
        element("h1", f"deltactl {facts.command}"),
        element("p", f"{format_instant(facts.began_ms)}, took {format_duration(facts.took_ms)}"),
    )
    yield element("main", *_render_tables(outcomes, facts), _render_commands(outcomes, facts))
    yield render_footer(facts.run_id)


def _render_tables(outcomes: Sequence[TableOutcome], facts: RunFacts) -> Iterator[Markup]:
    if len(outcomes) == 1:
        yield _render_section(outcomes[0], facts, 1)
        return
    yield _render_overview(outcomes)
    # Failures first.
    numbered = sorted(enumerate(outcomes, 1), key=lambda pair: pair[1].exit_code == 0)
    for number, outcome in sorted(numbered[:_MOST_SECTIONS]):
        yield _render_section(outcome, facts, number)
    more = len(outcomes) - _MOST_SECTIONS
    if more > 0:
        text = f"{more:,} more tables have no section here; use -o json for all tables."
        yield element("p", text, class_="faint")


def _render_overview(outcomes: Sequence[TableOutcome]) -> Markup:
    heads = [Head("table"), Head("ended"), Head("what")]
    rows = [
        (
            foreign(outcome.table),
            render_badge(*outcome.status),
            foreign(outcome.message),
        )
        for outcome in outcomes[:_MOST_TABLES]
    ]
    more = len(outcomes) - len(rows)
    last = [(f"{more:,} others", "", "-o csv lists them")] if more else []
    table = render_table(format_count(len(outcomes), "table", "tables"), heads, rows, last)
    return element("section", element("h2", "All tables"), table)


def _render_section(outcome: TableOutcome, facts: RunFacts, number: int) -> Markup:
    envelope = outcome.envelope
    heading = element("h2", foreign(outcome.table), id=f"table-{number}")
    status = element("p", render_badge(*outcome.status), " ", foreign(outcome.headline))
    parts = [heading, status]
    if envelope.error is not None:
        parts.append(_render_error(envelope.error))
    parts.append(render_items("Warnings", envelope.warnings))
    if isinstance(envelope.result, Mapping) and envelope.skipped is None:
        parts += _SECTIONS[facts.command](envelope, envelope.result)
    return element("section", *parts, aria_labelledby=f"table-{number}")


def _render_error(error: ErrorInfo) -> Markup:
    hint = element("p", foreign(error.hint)) if error.hint else Markup()
    first = element("p", element("strong", error.code), ": ", foreign(error.message))
    more = element("p", "More: ", element("code", f"deltactl explain {error.code}"))
    return element("div", first, hint, more, class_="error", role="note")


def _render_commands(outcomes: Sequence[TableOutcome], facts: RunFacts) -> Markup:
    lines = [element("h2", "The command"), _code(facts.command_line)]
    if any(outcome.envelope.dry_run for outcome in outcomes):
        lines += [
            element("p", "Nothing was changed. The same command without --dry-run or --check:"),
            _code(facts.to_do_it),
        ]
    code = find_worst(outcome.exit_code for outcome in outcomes)
    known = code in MEANINGS
    ended = f"{code}: {MEANINGS[ExitCode(code)]}" if known else str(code)
    fields = [("run", facts.run_id), ("exit status", ended)]
    return element("section", *lines, render_fields(fields))


def _code(line: str) -> Markup:
    return element("pre", element("code", join(line)), tabindex=0)
