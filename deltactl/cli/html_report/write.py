"""``--report FILE``: write the run as an HTML page, after everything else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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
from deltactl.errors import DeltactlError, StorageError

if TYPE_CHECKING:
    from deltactl.cli.session import Session


@dataclass(frozen=True, slots=True)
class Report:
    """The page of a run, and when the run started."""

    path: Path
    began_ms: int = field(default_factory=lambda: SystemClock().now_ms())
    _began: float = field(default_factory=time.monotonic)

    @classmethod
    def take(cls, session: Session) -> Report | None:
        """Take the option, and check that the page can be written.

        Raises:
            UsageError: it cannot; nothing was done yet.
        """
        name = session.take(ReportOptions).report
        if name is None:
            return None
        from deltactl.cli.options.output_file import choose_output_file

        return cls(choose_output_file("--report", name, "run.html"))

    def write(self, session: Session, raised: BaseException | None) -> None:
        """Write the page at the end of a run, with ``raised`` if it failed.

        Raises:
            DeltactlError: it cannot be written.
        """
        from deltactl.cli.html_report.page import RunFacts, render_report
        from deltactl.storage.local.store import LocalStore

        facts = RunFacts(
            command=session.command or "",
            command_line=typed_command(session.argv),
            to_do_it=real_command(session.argv),
            run_id=session.run_id,
            began_ms=self.began_ms,
            took_ms=int((time.monotonic() - self._began) * 1000),
        )
        page = render_report(session.outcomes or [_single(session, raised)], facts)
        LocalStore(str(self.path.parent)).put(self.path.name, page.encode())


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
    table = session.shown_table or "all tables"
    return TableOutcome(table, code, envelope, output.title, sections=output.sections)


@contextmanager
def write_at_end(session: Session, report: Report | None) -> Iterator[None]:
    """Write the page when the context ends, however it ends.

    If the run itself failed, its error is raised, and a page that cannot be written is a warning.

    Raises:
        StorageError: the run succeeded, and its page could not be written.
    """
    raised: BaseException | None = None
    try:
        yield
    except BaseException as error:
        raised = error
        raise
    finally:
        if report is not None:
            _write(session, report, raised)


def _write(session: Session, report: Report, raised: BaseException | None) -> None:
    try:
        report.write(session, raised)
    except DeltactlError as error:
        problem = f"the --report file could not be written: {error.message}"
        if raised is None:
            raise StorageError(f"the run succeeded, but {problem}", hint=error.hint) from error
        session.output.warn(problem)
