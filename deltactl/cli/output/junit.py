"""Print outcomes as a JUnit report (``-o junit``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from deltactl.cli.output.envelope import Envelope
from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.page import Page
from deltactl.cli.output.text import safe_text

_WIDTH: Final = 120


def render_failed_run(envelope: Envelope) -> str:
    """Return the report of a run that failed before its first table."""
    outcome = TableOutcome(envelope.table or "all tables", envelope.exit_code, envelope)
    return render_junit([outcome], envelope.command or "")


def render_junit(outcomes: Sequence[TableOutcome], command: str) -> str:
    """Return a report with one test case per table; findings and needed work are failures."""
    errors = sum(outcome.envelope.error is not None for outcome in outcomes)
    needed = sum(bool(outcome.codes) for outcome in outcomes)
    skipped = sum(outcome.envelope.skipped is not None for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    counts = (
        f'tests="{len(outcomes)}" failures="{needed}" errors="{errors}" skipped="{skipped}" '
        f'time="{seconds:.3f}"'
    )
    suite = _attribute(f"deltactl {command}")
    cases = "".join(_render_case(outcome, command) for outcome in outcomes)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites {counts}>\n"
        f"  <testsuite name={suite} {counts}>\n{cases}  </testsuite>\n"
        "</testsuites>"
    )


def _render_case(outcome: TableOutcome, command: str) -> str:
    name, kind = _attribute(outcome.table), _attribute(f"deltactl.{command}")
    inside = ""
    error, message = outcome.envelope.error, _attribute(outcome.message)
    for code in outcome.codes:
        found = "\n".join(_list_lines(outcome, code))
        inside += f"      <failure type={_attribute(code)} message={message}>{found}</failure>\n"
    if error is not None:
        hint, message = escape(safe_text(error.hint or "")), _attribute(error.message)
        inside += f"      <error type={_attribute(error.code)} message={message}>{hint}</error>\n"
    if outcome.envelope.skipped is not None:
        inside += f"      <skipped message={_attribute(outcome.envelope.skipped)}/>\n"
    if outcome.envelope.warnings:
        warnings = "\n".join(escape(safe_text(text)) for text in outcome.envelope.warnings)
        inside += f"      <system-err>{warnings}</system-err>\n"
    return (
        f'    <testcase classname={kind} name={name} time="{outcome.seconds:.3f}">\n'
        f"{inside}    </testcase>\n"
    )


def _list_lines(outcome: TableOutcome, code: str) -> Iterator[str]:
    """Return what a page shows of the findings with a code."""
    page = Page(_WIDTH)
    page.show(section for section in outcome.sections() if section.finding == code)
    return map(escape, page.plain_lines())


def _attribute(text: str) -> str:
    return quoteattr(safe_text(text))
