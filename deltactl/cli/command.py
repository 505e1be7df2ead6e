"""Run a command on one table, or on each of several tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from inspect import signature
from itertools import zip_longest
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from deltactl.cli.failures import explain_failure
from deltactl.cli.help import ALL, describe_command, write_help
from deltactl.cli.html_report.write import write_report
from deltactl.cli.leases import take_lease
from deltactl.cli.options.common import TimeLimit
from deltactl.cli.options.declared import Declared
from deltactl.cli.options.fleet import (
    FleetOptions,
    asks_for_sizes,
    asks_for_text,
    refuse_options_for_one_table,
)
from deltactl.cli.options.leases import LeaseOptions
from deltactl.cli.output.output import CI_FORMATS, TEXT_FORMATS, ReaderGone, stdout_errors
from deltactl.cli.parsing.usage_errors import option_without_value
from deltactl.cli.session import Session
from deltactl.cli.settings.sources import check_variables
from deltactl.cli.startup import load_arrow, take_as_typed
from deltactl.errors import UsageError

PlanAhead = Callable[[Session, Sequence[str], int], AbstractContextManager[Sequence[str]]]
"""``plan_ahead(session, tables, jobs)``: looks at all tables before the command runs on each.

The context yields the tables in the order in which to run; it ends after the last one.
"""


def _missing_value(ctx: Any, name: str) -> UsageError:
    """Return the error for an option without its value: it says which values there are."""
    option = next((it for it in ctx.command.declared.values() if name in it.names), None)
    hint = f"See `{ctx.command_path} --help`."
    if option is not None:
        value = "|".join(option.choices) or option.placeholder
        hint = f"Write `{name} {value}`: {option.help.rstrip('.')}. {hint}"
    return UsageError(f"{name} needs a value", hint=hint)


@contextmanager
def _one_document(session: Session) -> Iterator[None]:
    """Print a JSON document when the context ends, with the error that ended it."""
    session.output.keeps_document = True
    try:
        yield
    except typer.Exit:
        session.output.release(None)
        raise
    except (ReaderGone, SystemExit):
        raise
    except BaseException as raised:
        session.output.release(explain_failure(raised))
        raise
    session.output.release(None)


class Command(TyperCommand):
    """A command with the global options; the session begins before the command runs."""

    function: Callable[..., None]
    classes: Mapping[str, type]
    """The parameters of the function that take the options of a class."""
    own: Mapping[str, Declared]
    """The options of these classes, by field."""
    declared: Mapping[str, Declared]
    """All options, those that commands share included."""
    all_settings: Callable[[], Collection[str]] = staticmethod(lambda: ())
    """The settings of all commands of the program."""
    shared: Collection[type] = ()
    """The classes of the other options."""
    needs_arrow = True
    explains_settings = False
    """Whether the command also runs with a wrong file of settings, and shows what is wrong."""
    plan_ahead: PlanAhead | None = None

    @property
    def settings(self) -> set[str]:
        """Return the names of the settings of this command."""
        return {it.name for it in self.declared.values() if it.option.is_settable}

    @property
    def typed_only(self) -> set[str]:
        """Return the names of the options that are no settings."""
        return {it.name for it in self.declared.values() if not it.option.is_settable}

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        return take_as_typed(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; ``--help`` prints here, and stdout may be a closed pipe."""
        with stdout_errors():
            try:
                return super().parse_args(ctx, list(self._with_bare_values(args)))
            except typer.TyperException as error:
                name = option_without_value(error)
                if name is None:
                    raise
                raise _missing_value(ctx, name) from error

    def _with_bare_values(self, args: Sequence[str]) -> Iterator[str]:
        """Yield the words; an option that no value of it follows gets the one without a value."""
        bare = {name: it for it in self.declared.values() if it.option.bare for name in it.names}
        for word, following in zip_longest(args, args[1:], fillvalue=""):
            option = bare.get(word)
            if option is None or option.accepts(following):
                yield word
            else:
                yield f"{word}={option.option.bare}"

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text: examples first, options by group."""
        doc, is_all = describe_command(self), ctx.meta.get(ALL, False)
        write_help(doc, formatter, ctx.command_path, is_all=is_all)

    def invoke(self, ctx: Any) -> Any:  # Any: the type of this context is private to Typer
        """Move the global options into the session, then run the command with the rest."""
        session = Session.of(ctx)
        if ctx.params.get("policy") is not None:
            session.settings.put_first(Path(ctx.params["policy"]), self.name or "")
        if self.explains_settings:
            session.wrong_settings = session.settings.ignore_wrong_files(
                self.name or "", self.settings, self.all_settings
            )
        session.begin(ctx)
        session.settings.check(self.name or "", self.settings, self.all_settings)
        check_variables(
            session.environ, self.settings, self.typed_only, self.all_settings, session.output.warn
        )
        session.ensure_typed()
        session.output.shows_success = (
            not session.options.quiet
            or TimeLimit not in self.shared  # the page is all that it does
            or asks_for_text(ctx.params)
        )
        if asks_for_text(ctx.params) and session.output.form not in TEXT_FORMATS:
            raise UsageError(
                f"-o {session.output.form} has no SQL statements",
                hint="Omit -o, or use -o json.",
            )
        session.limit_time()
        with _one_document(session), write_report(session):
            if FleetOptions in self.shared:
                options = replace(session.take(FleetOptions), table=ctx.params["table"] or [])
                return self._invoke_tables(ctx, session, options)
            if session.output.form in CI_FORMATS:
                raise UsageError(
                    f"{self.name} does not support -o {session.output.form}",
                    hint="Use -o json for programs, or -o table for people.",
                )
            return self._invoke_one(ctx, session)

    def _invoke_one(self, ctx: Any, session: Session) -> Any:
        if session.table in session.unlisted:
            raise session.unlisted[session.table]
        if session.table is not None and self.needs_arrow:
            load_arrow()
        if LeaseOptions not in self.shared:
            return self._call(ctx, session)
        with take_lease(session, ctx.params) as skipped:
            if skipped is None:
                return self._call(ctx, session)
            session.present(tuple, skipped=skipped)
        return None

    def _call(self, ctx: Any, session: Session) -> None:
        """Call the function with what its parameters ask for."""
        given: dict[str, Any] = {}
        for name in signature(self.function).parameters:
            if name == "session":
                given[name] = session
            elif name in self.classes:
                given[name] = session.take(self.classes[name])
            else:
                given[name] = ctx.params[name]
        self.function(**given)

    def _invoke_tables(self, ctx: Any, session: Session, options: FleetOptions) -> Any:
        """Run on one table, or on each of several in a separate session."""
        from deltactl.cli.fleet.tables import expand_tables

        tables, is_single = expand_tables(options, session)
        with self._plan(session, tables, options.jobs) as ordered:
            if session.output.form in CI_FORMATS or not is_single:
                return self._invoke_each(ctx, session, options, tables, ordered)
            session.table = ctx.params["table"] = tables[0]
            session.output.log_fields["table"] = session.table
            return self._invoke_one(ctx, session)

    @contextmanager
    def _plan(self, session: Session, tables: Sequence[str], jobs: int) -> Iterator[Sequence[str]]:
        """Yield the tables in the order in which to run."""
        if self.plan_ahead is None:
            yield tables
            return
        load_arrow()
        listed = [table for table in tables if table not in session.unlisted]
        with self.plan_ahead(session, listed, jobs) as planned:
            yield [*planned, *session.unlisted]

    def _invoke_each(
        self,
        ctx: Any,
        session: Session,
        options: FleetOptions,
        tables: Sequence[str],
        ordered: Sequence[str],
    ) -> None:
        """Run on each table as it is ``ordered``; ``tables`` is the order of the results."""
        from deltactl.cli.fleet.run import Fleet

        if len(tables) > 1:
            refuse_options_for_one_table(ctx)

        def run_table(child: Session) -> None:
            twin = copy(ctx)
            twin.obj, twin.params = child, {**ctx.params, "table": child.table}
            self._invoke_one(twin, child)

        fleet = Fleet(
            session,
            options,
            run_table,
            is_text=asks_for_text(ctx.params),
            is_by_size=asks_for_sizes(ctx.params),
        )
        code = fleet.run(ordered, given=tables)
        if code:
            raise typer.Exit(code)
