"""Convert errors of the command-line parser to errors of deltactl, with a suggestion."""

from __future__ import annotations

import re
from typing import Any, Final

import typer

from deltactl.errors import UsageError
from deltactl.suggest import with_suggestion, without_risky

_NO_OPTION: Final = re.compile(r"No such option: (\S+)")
_NO_COMMAND: Final = re.compile(r"No such command '([^']*)'")
_NO_VALUE: Final = re.compile(r"Option '(\S+)' requires an argument")


def restate_usage_error(error: typer.TyperException, program: str) -> UsageError:
    """Convert an error of the parser into a ``UsageError``, with a suggestion if there is one."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else program
    message = error.format_message().rstrip(".")
    hint = f"See `{path} --help`."
    if ctx is not None and (found := _NO_OPTION.match(message)):
        known = without_risky(found[1], _long_options(ctx))
        message = with_suggestion(found[0], found[1], known)
    elif ctx is not None and (found := _NO_COMMAND.match(message)):
        known = [it.name for it in ctx.command.commands.values() if not it.hidden]
        message = with_suggestion(found[0], found[1], known)
    return UsageError(message, hint=hint)


def option_without_value(error: typer.TyperException) -> str | None:
    """Return the option that lacks its value; ``None`` if the error is another one."""
    found = _NO_VALUE.match(error.format_message())
    return None if found is None else found[1]


def _long_options(ctx: Any) -> list[str]:
    params = (p for p in ctx.command.get_params(ctx) if not getattr(p, "hidden", False))
    names = (name for p in params for name in (*p.opts, *p.secondary_opts))
    return [name for name in names if name.startswith("--")]
