"""Wrong command lines, said in our own words and with a guess at what was meant."""

from __future__ import annotations

import re
from typing import Any, Final

import typer

from deltactl.cli.suggest import suggest
from deltactl.errors import UsageError

_NO_OPTION: Final = re.compile(r"No such option: (\S+)")
_NO_CHOICE: Final = re.compile(r"'([^']*)' is not one of (.*)", re.DOTALL)


def restate_usage_error(error: typer.TyperException, program: str) -> UsageError:
    """Turn what the parser found wrong into an error of ours, with a suggestion if there is one."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else program
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    hint = f"see `{path} --help`"
    if ctx is not None and (found := _NO_OPTION.match(message)):
        option = found[1]
        return UsageError(f"No such option: {option}{_nearest_option(ctx, option)}", hint=hint)
    if found := _NO_CHOICE.search(message):
        value, choices = found[1], re.findall(r"'([^']*)'", found[2])
        return UsageError(_dot(message, suggest(value, choices)), hint=hint)
    return UsageError(message, hint=hint)


def _nearest_option(ctx: Any, option: str) -> str:
    params = (p for p in ctx.command.get_params(ctx) if not getattr(p, "hidden", False))
    names = (name for p in params for name in (*p.opts, *p.secondary_opts))
    return _dot("", suggest(option, (name for name in names if name.startswith("--"))))


def _dot(message: str, suggestion: str) -> str:
    return f"{message}.{suggestion}" if suggestion else message
