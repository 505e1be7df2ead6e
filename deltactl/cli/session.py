"""Hold the session of a command: output, progress, signals, engines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from deltactl.cli.engines import ChosenEngine, SharedSpark, open_engine, shared_spark
from deltactl.cli.exits import ExitCode
from deltactl.cli.options.common import GlobalOptions, TimeLimit
from deltactl.cli.options.declared import error_at, find_typed, is_typed, spell_flag, spell_given
from deltactl.cli.options.engine import EngineOptions
from deltactl.cli.options.leases import is_dry_run
from deltactl.cli.output.envelope import Envelope
from deltactl.cli.output.output import Output, OutputFormat, guess_format, guess_log_format
from deltactl.cli.output.progress import progress
from deltactl.cli.output.rows import Rows
from deltactl.cli.output.sections import Section, Sections, Tone
from deltactl.cli.parsing.argv import real_command
from deltactl.cli.signals import Cancellation, cancel_on_signals, idling, limit_time
from deltactl.cli.table_access import TableAccess
from deltactl.clock import SystemClock
from deltactl.engine.base import Engine, OnProgress
from deltactl.errors import (
    DeltactlError,
    InterruptedRunError,
    UsageError,
    find_secret,
    mask_address,
)
from deltactl.option_names import NAME_ONLY, options_spelled
from deltactl.storage.network.counts import requests_sent

if TYPE_CHECKING:
    from deltactl.cli.output.outcome import TableOutcome
    from deltactl.operations.run_context import RunContext


_log = logging.getLogger(__name__)


class Session(TableAccess):
    """One run of the program. Commands get it with ``Session.of(ctx)``."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        # For errors of the parser; `begin` replaces both after a successful parse.
        form = guess_format(argv) or OutputFormat.TABLE
        self.run_id = SystemClock().new_id()
        output = Output(
            form,
            environ=environ,
            log_format=guess_log_format(argv, environ),
            log_fields={"run_id": self.run_id, "command": None, "table": None},
        )
        super().__init__(environ, GlobalOptions(output=form, debug="--debug" in argv), output)
        self.argv = tuple(argv)
        self._chosen: Engine | None = None  # the engine for tasks that read little
        self._is_refused = False
        self._sent_before = requests_sent()
        self._cancellation = Cancellation()
        self._spark: SharedSpark | None = None
        # The version and the commit in ``operations.leases.LastRun``.
        self.caught_up: tuple[int, str] | None = None
        self.table_id: str | None = None  # from its metadata, once a command has read it
        self.chosen_version: int | None = None  # that of a time in the options
        self.has_skipped = self._is_dry_run = False
        self.size_bytes = 0  # of the files of the table, if the tables are sorted by it
        # Results of the tables that have ended, if there are several.
        self.outcomes: list[TableOutcome] = []
        self._is_of_several = False
        self._jobs = 1  # runs that share this process with this one, itself included
        self.shared: Any = None  # set by ``plan_ahead`` of a command, for all its tables
        self.sum_up: Callable[[], Any] | None = None  # totals over all tables, at the end
        self.wrong_settings: UsageError | None = None  # a file of settings is wrong, and ignored
        self.unlisted: dict[str, DeltactlError] = {}  # for words that name no table
        self._stack = ExitStack()

    @staticmethod
    def of(ctx: typer.Context) -> Session:
        """Return the session of a command's context."""
        session = ctx.obj
        assert isinstance(session, Session)
        return session

    def ensure_typed(self) -> None:
        """Refuse invalid options, and those without an effect, perhaps with one for another task.

        Raises:
            UsageError: there is one.
        """
        for it in self.ctx.command.declared.values():
            if (value := find_typed(self.ctx, it)) is not None:
                with error_at(f"--{it.name}"):
                    it.convert(value)
        for name, it in self.ctx.parent.command.declared.items():
            if name not in self.ctx.command.declared and is_typed(self.ctx.parent, name):
                raise UsageError(f"{self.command} has no option --{it.name}")
        own = self.ctx.command.own.values()
        typed = [it for it in own if is_typed(self.ctx, it.field)]
        for task in typed:
            allowed = task.option.alone_with
            for it in typed if allowed is not None else ():
                if it is not task and it.field not in allowed:
                    raise UsageError(f"--{task.name} and --{it.name} cannot be combined")

    def begin(self, ctx: Any) -> None:
        """Take the global options of a parsed command line, right before the command runs.

        Raises:
            UsageError: a variable or a file of settings is invalid.
        """
        from deltactl.cli.output.log_handler import log_to  # which help does not need

        self._stack.enter_context(options_spelled(self.spell_option))
        self.ctx, self.command = ctx, ctx.command.name
        self._is_dry_run = is_dry_run(ctx.params)
        table = ctx.params.get("table")
        self.table = self.admit(table) if isinstance(table, str) else None
        self.options = options = self.take(GlobalOptions)
        environ = {**self.environ, "NO_COLOR": "1"} if options.no_color else self.environ
        self.output = Output(
            options.output,
            environ=environ,
            quiet=options.quiet,
            log_format=options.log_format,
            log_fields={"run_id": self.run_id, "command": self.command, "table": self.table},
        )
        self._stack.enter_context(log_to(self.output, options.verbose))
        self._warn_of_secrets("--storage-option", options.storage_option)
        self._sent_before = requests_sent()

    def spell_option(self, name: str, value: object) -> str:
        """Return an option of the command that runs, as it is typed or set."""
        if value is NAME_ONLY:
            sources = self.settings.sources_for(self.command, self.table)
            return spell_given(self.ctx, sources, name)
        flag = spell_flag(self.ctx.command.declared.values(), name, value)
        # The rerun asks for confirmation, too.
        is_asked = name == "expect_files" and not (self.ctx.params["yes"] or sys.stdin.isatty())
        return f"{flag} --yes" if is_asked else flag

    def limit_time(self) -> None:
        """Start the time limit."""
        limit = self.take(TimeLimit)
        self._stack.enter_context(
            limit_time(self._cancellation, limit.timeout_ms, self.output.note)
        )

    def admit(self, address: str) -> str:
        """Return the address of a table without secrets; one with secrets is in ``unlisted``."""
        if find_secret(address) is None:
            return address
        from deltactl.storage.open import refuse_secrets

        shown = mask_address(address)
        try:
            refuse_secrets(address)
        except UsageError as error:
            self.unlisted[shown] = error
        return shown

    def end(self) -> None:
        """Log the requests to object stores, and release the resources of the run."""
        sent = requests_sent() - self._sent_before
        if sent.total:
            _log.info("%s", sent)
        self._stack.close()

    def for_table(self, table: str, output: Output, jobs: int) -> Session:
        """Return the session of one table of several, ``jobs`` of which run at a time.

        It has a run id of its own: the id is in the names of new files, and a sync copies files of
        one table to another under the same names.
        """
        session = copy(self)
        session.run_id = SystemClock().new_id()
        if output is not self.output:
            output.log_fields["run_id"] = session.run_id
        session.table, session.output, session._jobs = table, output, jobs
        session._chosen, session._is_of_several, session.size_bytes = None, True, 0
        session.caught_up, session.has_skipped, session.table_id = None, False, None
        session._named_options, session._opened = None, []
        return session

    @property
    def shares_process(self) -> bool:
        """Return whether other tables are processed at the same time."""
        return self._jobs > 1

    def label(self, text: str) -> str:
        """Return a text, prefixed with the table if there are several."""
        return f"{self.table}: {text}" if self._is_of_several else text

    def failed_envelope(self) -> Envelope:
        """Return the envelope of a run that failed, with the version of the table that it read."""
        is_changed = self.command != "clone"  # whose versions are those of the new table
        version = self._opened[0].first_read if self._opened and is_changed else None
        return self.envelope(version_before=version)

    def envelope(self, **parts: Any) -> Envelope:
        """Return the envelope of this command and table; ``parts`` are its other fields."""
        if self._chosen is not None and "engine" in parts:
            parts.setdefault("engine_reason", self._chosen.reason)
        self.has_skipped = parts.get("skipped") is not None
        return Envelope(self.command, self.table, dry_run=self._is_dry_run, **parts)

    def present(
        self,
        sections: Sections,
        *,
        rows: Rows | None = None,
        headline: str | None = None,
        error: DeltactlError | None = None,
        is_work_needed: bool = False,
        shows_command: bool = True,
        needed_flags: Sequence[str] = (),
        **parts: Any,
    ) -> None:
        """Print the result of the run, and end the run with its exit status.

        ``sections``, ``rows`` and ``headline`` are those of ``Output.emit``, ``parts`` further
        fields of the envelope; ``version_after`` is ``version_before`` if it is not given.
        ``shows_command``: after a dry run, show how to do it, which also needs ``needed_flags``.

        Raises:
            DeltactlError: ``error``, which is also in the envelope.
            Exit: with the exit status 3, if ``is_work_needed``.
        """
        parts.setdefault("version_after", parts.get("version_before"))
        envelope = self.envelope(**parts)
        envelope.published_only = any(log.is_published_only for log in self._opened)
        if isinstance(error, InterruptedRunError):  # raised by code that does not know the cause
            error = (
                self._cancellation.find_error(
                    error.message, hint=error.hint, is_part_done=error.is_part_done
                )
                or error
            )
        envelope.is_needed = is_work_needed
        if error is not None:  # each error is worse than needed work
            envelope.fail(error)
        elif is_work_needed:
            envelope.exit_code = ExitCode.WORK_NEEDED
        if envelope.skipped is not None:
            sections = partial(tuple, [Section((Tone.GOOD("Skipped"), f": {envelope.skipped}"))])
        has_work = envelope.dry_run and not envelope.is_idle and envelope.skipped is None
        can_do = has_work and shows_command and error is None and not self._is_refused
        words = (*self.argv, *(flag for flag in needed_flags if flag not in self.argv))
        to_do = real_command(words, self.chosen_version) if can_do else None
        self.output.emit(envelope, sections=sections, rows=rows, headline=headline, to_do=to_do)
        if error is not None:
            raise error
        if is_work_needed:
            raise typer.Exit(ExitCode.WORK_NEEDED)

    def progress(self, label: str) -> AbstractContextManager[OnProgress]:
        """Show progress in this context; it yields the callback for the engine."""
        return progress(
            self.output,
            self.label(label),
            form=self.options.progress,
            may_draw=not self.shares_process,
        )

    def engine(
        self, *, max_concurrent: int | None = None, memory_bytes: int | None = None
    ) -> AbstractContextManager[ChosenEngine]:
        """Return the engine of this run; what it starts is stopped at the end of the context.

        ``max_concurrent`` tasks run at once, and in this process within ``memory_bytes``.

        Raises:
            UsageError: an option or variable about engines is invalid.
        """
        return open_engine(
            self.take(EngineOptions).choose_place(),
            environ=self.environ,
            table=self.table or "",
            warn=self.output.warn,
            note=self.output.note,
            verbose=self.options.verbose,
            max_concurrent=max_concurrent,
            memory_bytes=memory_bytes,
            jobs=self._jobs,
            spark=self._spark,
            cancel=self._cancellation.token,
        )

    @contextmanager
    def sharing_spark(self) -> Iterator[None]:
        """Let the sessions of tables that begin in this context share one Spark session."""
        with shared_spark(self.output.lock, self._cancellation.token) as self._spark:
            yield
        self._spark = None

    def cancellation(self) -> AbstractContextManager[Cancellation]:
        """Let signals cancel the work in this context instead of aborting it."""
        return cancel_on_signals(self.output.note, self._cancellation)

    @contextmanager
    def run_context(
        self, label: str | None, engine: AbstractContextManager[Engine] | None = None
    ) -> Iterator[RunContext]:
        """Return what an operation needs in addition to the table and its options.

        Signals cancel the work in this context. Progress is shown with the label, if there is one.
        Without ``engine``, the engine is one for tasks that read little: Spark only if an option
        selects it.

        Raises:
            UsageError: an option or variable about engines is invalid.
        """
        from deltactl.operations.run_context import RunContext, do_nothing

        with (
            engine or self.engine() as opened,
            self.cancellation() as cancellation,
            nullcontext() if label is None else self.progress(label) as on_progress,
        ):
            if engine is None:
                self._chosen = opened
            context = RunContext.of(
                self.output.warn, opened, self.storage_options, cancellation.token, on_progress
            )
            yield replace(
                context,
                run_id=self.run_id,
                begin_changes=self.begin_changes or do_nothing,
                on_refusal=self._note_refusal,
            )

    def _note_refusal(self) -> None:
        self._is_refused = True

    def find_interruption(
        self, done: str, *, is_part_done: bool, hint: str | None = "Rerun to finish the rest."
    ) -> DeltactlError | None:
        """Return the error of a run that a signal or the time limit stopped, if one did.

        ``done``: the part of the message that says what was finished.
        """
        return self._cancellation.find_error(
            f"interrupted; {done}", hint=hint, is_part_done=is_part_done
        )

    def raise_if_cancelled(
        self, message: str = "interrupted before it started", *, hint: str | None = "Rerun."
    ) -> None:
        """Raise an error if a signal or the time limit has stopped the run.

        Raises:
            InterruptedRunError: a signal arrived.
            TimeLimitError: the time is up.
        """
        self._cancellation.raise_if_cancelled(message, hint=hint)

    def idling(self) -> AbstractContextManager[None]:
        """Mark the run as idle in this context: a signal then stops it at once."""
        return idling(self._cancellation)

    def cancel(self, signal_number: int) -> None:
        """Stop the whole run as a signal would."""
        if self._cancellation.signal_number is None and self._cancellation.expired_ms is None:
            self._cancellation.signal_number = signal_number
        self._cancellation.token.set()
