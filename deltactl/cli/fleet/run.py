"""Run one command on several tables, a few at the same time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from typing import TYPE_CHECKING, Final

import typer

from deltactl.cli.exits import ExitCode, find_worst
from deltactl.cli.failures import explain_failure, show_traceback
from deltactl.cli.fleet.output import FleetOutput, TableOutput
from deltactl.cli.options.fleet import FleetOptions
from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.output import ReaderGone
from deltactl.errors import DeltactlError, InterruptedRunError, NotBegunError, TimeLimitError

if TYPE_CHECKING:
    from deltactl.cli.session import Session

_SECONDS_BETWEEN_LOOKS: Final = 0.2

RunTable = Callable[["Session"], None]
"""Runs the command in the session of one table; raises the same errors as a single run."""


class Fleet:
    """A run over several tables. Only the main thread prints results and receives signals."""

    def __init__(
        self,
        session: Session,
        options: FleetOptions,
        run_table: RunTable,
        *,
        is_text: bool = False,
        is_by_size: bool = False,
    ) -> None:
        """Take the session of the whole run; ``is_text`` as for ``FleetOutput``.

        With ``is_by_size``, outcomes are shown at the end, those with the most bytes first.
        """
        self._session, self._options, self._run_table = session, options, run_table
        self._is_text, self._is_by_size = is_text, is_by_size
        self._failed: str | None = None
        self._idle: set[str] = set()  # tables that the time limit stopped before any work was done
        self._unwritten: DeltactlError | None = None
        self._jobs = 1
        self._has_others = False

    def run(self, tables: Sequence[str], *, given: Sequence[str]) -> int:
        """Run the command on each table; return the exit status of the run.

        ``given`` are the same tables in the order in which a document shows them.
        """
        self._has_others = len(tables) > 1
        if not self._has_others:
            self._session.table = tables[0]  # for the hint of an error
        output = FleetOutput(self._session.output, self._session.command, is_text=self._is_text)
        outcomes = self._session.outcomes
        with (
            self._session.cancellation() as cancellation,
            self._session.sharing_spark(),
            closing(self._run_each(tables)) as coming,
        ):
            try:
                for outcome in coming:
                    outcomes.append(outcome)
                    if not self._is_by_size:
                        self._show(output, outcome)
            except BaseException:
                cancellation.token.set()  # before waiting for those that are running
                raise
        order = {table: number for number, table in enumerate(given)}
        outcomes.sort(key=lambda outcome: (-outcome.size_bytes, order[outcome.table]))
        for outcome in outcomes if self._is_by_size else ():
            self._show(output, outcome)
        sum_up = self._session.sum_up
        num_not_skipped = sum(outcome.envelope.skipped is None for outcome in outcomes)
        is_idle = 0 < num_not_skipped == len(self._idle)
        codes = [ExitCode.FAILURE] if is_idle else [outcome.exit_code for outcome in outcomes]
        code = find_worst(codes)
        if self._unwritten is not None:
            self._unwritten.exit_code = find_worst([*codes, self._unwritten.exit_code])
            raise self._unwritten
        output.finish(outcomes, code, None if sum_up is None else sum_up())
        return code

    def _show(self, output: FleetOutput, outcome: TableOutcome) -> None:
        """Print an outcome; if stdout cannot be written, the run goes on without its results."""
        if self._unwritten is not None:
            return
        try:
            output.show(outcome)
        except DeltactlError as error:
            self._unwritten = error
            if self._has_others:
                self._session.output.warn(f"{error.message}. The other tables run without results")

    def _run_each(self, tables: Sequence[str]) -> Generator[TableOutcome, None, None]:
        self._jobs = jobs = min(self._options.jobs, len(tables))
        if jobs == 1:  # in the main thread, which can ask for confirmation
            yield from map(self._run_one, tables)
            return
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="deltactl-table")
        try:
            left = {pool.submit(self._run_one, table) for table in tables}
            while left:
                # Short waits: another thread may get the signal, which ends no wait of this one.
                done, left = wait(left, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(cancel_futures=True)

    def _run_one(self, table: str) -> TableOutcome:
        output = TableOutput(self._session.output, table)
        session = self._session.for_table(table, output, self._jobs)
        code: int = ExitCode.DONE
        started = time.monotonic()
        try:
            self._ensure_may_begin()
            self._run_table(session)
        except typer.Exit as done:
            code = done.exit_code
        except (ReaderGone, SystemExit):
            raise
        except BaseException as raised:
            code = self._fail(session, output, explain_failure(raised), raised)
        return TableOutcome(
            table,
            code,
            output.envelope or session.envelope(),
            output.title,
            time.monotonic() - started,
            output.sections,
            session.size_bytes,
        )

    def _ensure_may_begin(self) -> None:
        self._session.raise_if_cancelled()
        if self._failed is not None:
            raise NotBegunError(
                f"skipped, because {self._failed} failed",
                hint="Fix the cause, then rerun. To continue after a failure, omit --fail-fast.",
            )

    def _fail(
        self, session: Session, output: TableOutput, error: DeltactlError, raised: BaseException
    ) -> int:
        if isinstance(
            error, InterruptedRunError
        ):  # perhaps typed as an answer to a question: stop all tables
            self._session.cancel(error.exit_code - 128 or signal.SIGINT)
        if isinstance(error, TimeLimitError):
            if error.exit_code != ExitCode.PARTIAL:
                self._idle.add(session.table or "")
            error.exit_code = ExitCode.PARTIAL  # a part of the run is done; see `run`
        if self._options.fail_fast and self._failed is None:
            self._failed = session.table
        output.emit_error(session.failed_envelope(), error)
        if session.options.debug:
            show_traceback(output, raised)
        return error.exit_code
