"""Define options that commands share: one definition each.

``cli/group.py`` adds the global options to every command; they may also be given before the
command. A command does not declare them: their values are in its ``Session``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Final, TypeVar

import typer

from deltactl.cli.options.declared import Options
from deltactl.cli.options.groups import Group
from deltactl.cli.output.output import LogFormat, OutputFormat
from deltactl.cli.output.progress import SECONDS_BETWEEN_LINES, ProgressForm
from deltactl.cli.parsing.suggest import with_suggestion
from deltactl.cli.settings.sources import Source, parse_flag, resolve_setting
from deltactl.errors import UsageError
from deltactl.storage.network.pacing import parse_rate
from deltactl.storage.secrets import is_secret

_REFERENCE: Final = "env:"
_DEFAULT_OUTPUT: Final = OutputFormat.TABLE
_DEFAULT_LOG: Final = LogFormat.TEXT
_DEFAULT_PROGRESS: Final = ProgressForm.AUTO

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Path or URI of the table", show_default=False)
]
IfNeededOption = Annotated[
    list[str] | None,
    typer.Option(
        "--if-needed",
        metavar="WHAT=THRESHOLD",
        help="Run only if there is enough to remove: at least N files (files=N), or files of at "
        "least SIZE (size=SIZE). If you give both, one of them is enough",
        show_default=False,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what the command would do, and change nothing")
]


@dataclass(frozen=True, slots=True)
class GlobalOptions(Options):
    """The global options of the command line."""

    storage_option: Annotated[
        list[str],
        typer.Option(
            "--storage-option",
            metavar="KEY=VALUE",
            help="Option for the storage of the table; may be repeated. For a secret, set an "
            "environment variable, and write KEY=env:VARIABLE",
            show_default=False,
        ),
    ] = field(default_factory=list)
    output: Annotated[
        OutputFormat | None,
        typer.Option(
            "--output",
            "-o",
            help=f"Format of the result  [default: {_DEFAULT_OUTPUT}]",
            show_default=False,
        ),
    ] = None
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print only warnings and errors: no progress, no notes, and no result of a run "
            "that succeeded. A dry run, and what only shows something, still print it",
        ),
    ] = False
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="Show log messages. -vv shows more messages",
            show_default=False,
        ),
    ] = 0
    debug: Annotated[
        bool,
        typer.Option("--debug", help="If the command fails, also show the traceback of the error"),
    ] = False
    no_color: Annotated[
        bool,
        typer.Option(
            "--no-color", help="Do not print colours. The variable NO_COLOR has the same effect"
        ),
    ] = False
    max_requests_per_second: Annotated[
        float | None,
        typer.Option(
            "--max-requests-per-second",
            metavar="N",
            help="Maximum number of requests per second to object stores  [default: no limit]",
            show_default=False,
        ),
    ] = None
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format",
            help=f"Format of warnings, notes, logs and errors on stderr  [default: {_DEFAULT_LOG}]",
            show_default=False,
            rich_help_panel=Group.OUTPUT,
        ),
    ] = None
    progress: Annotated[
        ProgressForm | None,
        typer.Option(
            "--progress",
            help="How to show progress on stderr. auto: a bar on a terminal, else plain. plain: "
            f"a line every {SECONDS_BETWEEN_LINES:g} seconds. json: the same lines as JSON. "
            f"none: no progress  [default: {_DEFAULT_PROGRESS}]",
            show_default=False,
            rich_help_panel=Group.OUTPUT,
        ),
    ] = None

    def merge(self, later: GlobalOptions) -> GlobalOptions:
        """Add the options after the command to those before it."""
        return GlobalOptions(
            storage_option=[*self.storage_option, *later.storage_option],
            output=later.output or self.output,
            quiet=self.quiet or later.quiet,
            verbose=self.verbose + later.verbose,
            debug=self.debug or later.debug,
            no_color=self.no_color or later.no_color,
            max_requests_per_second=(
                self.max_requests_per_second
                if later.max_requests_per_second is None
                else later.max_requests_per_second
            ),
            log_format=later.log_format or self.log_format,
            progress=later.progress or self.progress,
        )

    def resolve(self, sources: Sequence[Source]) -> GlobalOptions:
        """Fill in the options that are not on the command line from the other sources."""

        def choose(key: str, given: T | None, parse: Callable[[str], T], default: T) -> T:
            return resolve_setting(key, given, parse=parse, default=default, sources=sources).value

        return replace(
            self,
            output=choose("output", self.output, parse_output_format, _DEFAULT_OUTPUT),
            log_format=choose("log-format", self.log_format, _parse_log_format, _DEFAULT_LOG),
            progress=choose("progress", self.progress, _parse_progress, _DEFAULT_PROGRESS),
            debug=choose("debug", self.debug or None, parse_flag, False),
            quiet=choose("quiet", self.quiet or None, parse_flag, False),
            max_requests_per_second=parse_rate(
                choose("max-requests-per-second", self.max_requests_per_second, parse_rate, None)
            ),
        )


def parse_output_format(text: str) -> OutputFormat:
    """Parse the name of an output format.

    Raises:
        UsageError: there is no such format.
    """
    return parse_choice(text, OutputFormat, "an output format")


def _parse_log_format(text: str) -> LogFormat:
    return parse_choice(text, LogFormat, "a log format")


def _parse_progress(text: str) -> ProgressForm:
    return parse_choice(text, ProgressForm, "a form of progress")


def parse_choice(text: str, kind: type[E], what: str) -> E:
    """Parse one of a few names, in any case; ``what`` describes them in the error.

    Raises:
        UsageError: it is none of them; the message has the nearest.
    """
    try:
        return kind(text.strip().lower())
    except ValueError:
        raise UsageError(
            with_suggestion(f"{text!r} is not {what}", text, kind),
            hint=f"Use one of: {', '.join(kind)}.",
        ) from None


def parse_storage_options(pairs: Sequence[str]) -> Mapping[str, str]:
    """Parse ``KEY=VALUE`` pairs; the value may contain ``=``; the last value of a key applies.

    Raises:
        UsageError: a pair without ``=`` or without a key. The value, perhaps a secret, is not
            repeated.
    """
    return parse_pairs("--storage-option", pairs)


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


def parse_pairs(flag: str, pairs: Sequence[str]) -> dict[str, str]:
    """Parse the ``KEY=VALUE`` pairs of a repeated option; see ``parse_storage_options``."""
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"{flag} needs a key and a value", hint=f"Write {flag} KEY=VALUE.")
        options[key.strip()] = value
    return options
