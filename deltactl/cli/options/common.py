"""Define options that commands share: one definition each.

``cli/group.py`` adds the global options to every command; they may also be given before the
command. A command does not take them: their values are in its ``Session``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from deltactl.cli.output.output import LogFormat, OutputFormat
from deltactl.cli.output.progress import SECONDS_BETWEEN_LINES, ProgressForm
from deltactl.errors import UsageError
from deltactl.option_fields import (
    Pairs,
    ensure_declared,
    execution_option,
    output_option,
    safety_option,
)
from deltactl.storage.network.pacing import Rate
from deltactl.storage.secrets import is_secret
from deltactl.units import DurationMs

_REFERENCE: Final = "env:"


def argument(metavar: str, text: str) -> Any:
    """Return the annotation of a positional argument."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


TableArgument = Annotated[str, argument("TABLE", "Path or URI of the table")]


def dry_run_field() -> bool:
    """Declare ``--dry-run``."""
    text = "Show what the command would do, and change nothing"
    return safety_option(False, text, is_basic=True)


def yes_field() -> bool:
    """Declare ``--yes``."""
    return safety_option(False, "Do not ask for confirmation", is_basic=True)


def check_field(what: str) -> bool:
    """Declare ``--check``, for what has the exit status 3."""
    text = f"Change nothing, and exit with status 3 if {what}"
    return safety_option(False, text, is_basic=True)


def max_concurrent_field(what: str) -> int | None:
    """Declare ``--max-concurrent``, the number of ``what``."""
    return execution_option(None, what, default="number of cores", least=1, is_settable=True)


@dataclass(frozen=True, slots=True)
class DryRunFlags:
    """The options of a command that does not ask, and that only the command line has."""

    dry_run: bool = dry_run_field()


@dataclass(frozen=True, slots=True)
class ConfirmationFlags:
    """The options of a command that asks, and that only the command line has."""

    yes: bool = yes_field()
    dry_run: bool = dry_run_field()


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The global options of the command line."""

    storage_option: Pairs = execution_option(
        {},
        "Option for the storage of the table; may be repeated. For a secret, set an environment "
        "variable, and write KEY=env:VARIABLE",
        metavar="KEY=VALUE",
        is_repeated=True,
    )
    output: OutputFormat = output_option(
        OutputFormat.TABLE, "Format of the result", short="o", is_settable=True, is_basic=True
    )
    quiet: bool = output_option(
        False,
        "Print only warnings and errors: no progress, no notes, and no result of a run that "
        "succeeded. A dry run, and what only shows something, still print it",
        short="q",
        is_settable=True,
    )
    verbose: int = output_option(
        0, "Show log messages. -vv shows more messages", short="v", default="", is_counted=True
    )
    debug: bool = output_option(
        False, "If the command fails, also show the traceback of the error", is_settable=True
    )
    no_color: bool = output_option(
        False, "Do not print colours. The variable NO_COLOR has the same effect"
    )
    max_requests_per_second: Rate | None = execution_option(
        None,
        "Maximum number of requests per second to object stores",
        metavar="N",
        default="no limit",
        is_settable=True,
    )
    log_format: LogFormat = output_option(
        LogFormat.TEXT, "Format of warnings, notes, logs and errors on stderr", is_settable=True
    )
    progress: ProgressForm = output_option(
        ProgressForm.AUTO,
        "How to show progress on stderr. auto: a bar on a terminal, else plain. plain: a line "
        f"every {SECONDS_BETWEEN_LINES:g} seconds. json: the same lines as JSON. none: no progress",
        is_settable=True,
    )


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The report of a run."""

    report: str | None = output_option(
        None,
        "Also write the plan, the result and charts as an HTML page to this file. If the file "
        "exists, it is replaced",
        metavar="FILE",
        is_settable=True,
    )


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long a run may take."""

    timeout_ms: DurationMs | None = execution_option(
        None,
        "Stop the run after this time, and keep the finished work",
        default="no limit",
        least=1,
        is_settable=True,
    )

    def __post_init__(self) -> None:
        """Refuse zero, which would stop each run at once."""
        ensure_declared(self)


def resolve_references(options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Replace each ``env:NAME`` by the value of that variable; process lists show only the name.

    Raises:
        UsageError: the variable is not set.
    """
    resolved = dict(options)
    for key, value in options.items():
        if not value.startswith(_REFERENCE):
            continue
        name = value.removeprefix(_REFERENCE)
        if name not in environ:
            raise UsageError(
                f"--storage-option {key} refers to the environment variable {name}, which is not "
                "set",
                hint="Set the variable, or name one that is set.",
            )
        resolved[key] = environ[name]
    return resolved


def exposed_secrets(options: Mapping[str, str]) -> list[str]:
    """Return the keys whose values are secrets and are visible in process lists."""
    return [
        key
        for key, value in options.items()
        if is_secret(key, value) and not value.startswith(_REFERENCE)
    ]
