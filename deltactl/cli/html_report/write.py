"""``--report FILE``: write the run as an HTML page, after everything else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from deltactl.cli.exits import ExitCode
from deltactl.cli.failures import explain_failure
from deltactl.cli.options.common import ReportOptions
from deltactl.cli.output.envelope import ErrorInfo
from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.output import ReaderGone
from deltactl.cli.parsing.argv import real_command, typed_command
from deltactl.clock import SystemClock

if TYPE_CHECKING:
    from deltactl.cli.session import Session


@contextmanager
def write_report(session: Session) -> Iterator[None]:
    """Write the page that ``--report`` asks for when the context ends, however it ends.

    Raises:
        UsageError: the page could not be written; nothing was done yet.
        PartialSuccessError: the run succeeded, and its page could not be written.
    """
    name = session.take(ReportOptions).report
    if name is None:
        yield
        return
    from deltactl.cli.options.output_file import choose_output_file, written_at_end
    from deltactl.storage.local.store import LocalStore

    path = choose_output_file("--report", name, "run.html", session.named_files())
    began_ms, began = SystemClock().now_ms(), time.monotonic()

    def write(raised: BaseException | None) -> None:
        page = _render(session, began_ms, int((time.monotonic() - began) * 1000), raised)
        LocalStore(str(path.parent)).put(path.name, page.encode())

    with written_at_end("--report", write, session.output.warn):
        yield


def _render(session: Session, began_ms: int, took_ms: int, raised: BaseException | None) -> str:
    from deltactl.cli.html_report.page import RunFacts, render_report

    facts = RunFacts(
        command=session.command or "",
        command_line=typed_command(session.argv),
        to_do_it=real_command(session.argv, session.chosen_version),
        run_id=session.run_id,
        began_ms=began_ms,
        took_ms=took_ms,
    )
    return render_report(session.outcomes or [_single(session, raised)], facts)


def _single(session: Session, raised: BaseException | None) -> TableOutcome:
    """Return the outcome of the run on one table."""
    output, code = session.output, int(ExitCode.DONE)
    envelope = output.envelope or session.envelope()
    if isinstance(raised, typer.Exit):
        code = raised.exit_code
    elif raised is not None and not isinstance(raised, ReaderGone):
        error = explain_failure(raised)
        code = error.exit_code
        envelope.error = ErrorInfo.of(error)
    table = session.table or "all tables"
    return TableOutcome(table, code, envelope, output.title, sections=output.sections)
