"""Write a report as one self-contained HTML page: no network, no scripts.

The content is that of the terminal; long lists are cut, with a note.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl import __version__
from deltactl.cli.exits import MEANINGS, ExitCode, find_worst
from deltactl.cli.html_report.html import Markup, element, foreign
from deltactl.cli.html_report.sections import render_line, render_sections, render_table
from deltactl.cli.html_report.style import STYLE
from deltactl.cli.output.envelope import ErrorInfo
from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.sections import Column, Kind, Section, Styled, Table
from deltactl.units import format_count, format_duration, format_timestamp

_MOST_TABLES: Final = 1000
_MOST_SECTIONS: Final = 100


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
    title = f"deltactl {facts.command}: {one or format_count(len(outcomes), 'table')}"
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"deltactl {__version__}"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    body = element("body", *_render_body(outcomes, facts))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _render_body(outcomes: Sequence[TableOutcome], facts: RunFacts) -> Iterator[Markup]:
    began = f"{format_timestamp(facts.began_ms)[:19].replace('T', ' ')} UTC"
    yield element(
        "header",
        element("h1", f"deltactl {facts.command}"),
        element("p", f"{began}, took {format_duration(facts.took_ms)}"),
    )
    run = element("h2", "The command"), *render_sections(_describe_run(outcomes, facts))
    yield element("main", *_render_tables(outcomes), element("section", *run))
    made = f"Written by deltactl {__version__}, run {facts.run_id}. Times are UTC."
    yield element("footer", element("p", made))


def _render_tables(outcomes: Sequence[TableOutcome]) -> Iterator[Markup]:
    if len(outcomes) == 1:
        yield _render_section(outcomes[0], 1)
        return
    yield _render_overview(outcomes)
    # Failures first.
    numbered = sorted(enumerate(outcomes, 1), key=lambda pair: pair[1].exit_code == 0)
    for number, outcome in sorted(numbered[:_MOST_SECTIONS]):
        yield _render_section(outcome, number)
    more = len(outcomes) - _MOST_SECTIONS
    if more > 0:
        text = f"{more:,} more tables have no section here; use -o json for all tables."
        yield element("p", text, class_="faint")


def _render_overview(outcomes: Sequence[TableOutcome]) -> Markup:
    columns = [Column("table", Kind.PATH), Column("ended"), Column("what", Kind.DETAIL)]
    rows = [(it.table, Styled(*it.status), it.message) for it in outcomes]
    name = format_count(len(outcomes), "table")
    table = render_table(Table(columns, rows, more="-o csv lists them"), name, _MOST_TABLES)
    return element("section", element("h2", "All tables"), table)


def _render_section(outcome: TableOutcome, number: int) -> Markup:
    envelope = outcome.envelope
    word, tone = outcome.status
    badge = element("span", word, class_=f"badge {tone}")
    parts = [
        element("h2", foreign(outcome.table), id=f"table-{number}"),
        element("p", badge, " ", render_line(outcome.summary), class_="summary"),
    ]
    if envelope.error is not None:
        parts.append(_render_error(envelope.error))
    if envelope.warnings:
        warnings = Table([Column("", Kind.DETAIL)], [(warning,) for warning in envelope.warnings])
        parts += [element("h3", "Warnings"), render_table(warnings, "Warnings")]
    parts += render_sections(outcome.sections())
    return element("section", *parts, aria_labelledby=f"table-{number}")


def _render_error(error: ErrorInfo) -> Markup:
    hint = element("p", foreign(error.hint)) if error.hint else Markup()
    first = element("p", element("strong", error.code), ": ", foreign(error.message))
    more = element("p", "More: ", element("code", f"deltactl explain {error.code}"))
    return element("div", first, hint, more, class_="error", role="note")


def _describe_run(outcomes: Sequence[TableOutcome], facts: RunFacts) -> Iterator[Section]:
    yield Section(code=facts.command_line)
    if any(outcome.envelope.dry_run for outcome in outcomes):
        to_do = "Nothing was changed. The same command without --dry-run or --check:"
        yield Section(notes=[to_do], code=facts.to_do_it)
    code = find_worst(outcome.exit_code for outcome in outcomes)
    meaning = f": {MEANINGS[ExitCode(code)]}" if code in MEANINGS else ""
    yield Section(facts=[("run", facts.run_id), ("exit status", f"{code}{meaning}")])
