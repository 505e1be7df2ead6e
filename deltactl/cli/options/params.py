"""Fill in options that are not on the command line, from the environment and from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Final

import typer
from typer.core import TyperOption

from deltactl.cli.options.declared import is_typed
from deltactl.cli.settings.settable import SETTABLE
from deltactl.cli.settings.sources import Source, parse_flag
from deltactl.errors import UsageError
from deltactl.units import parse_duration, parse_size


def _parse_time_or_size(text: str) -> int:
    try:
        return parse_duration(text)
    except UsageError:
        return parse_size(text)


# Commands parse these themselves; here they are only checked, so that an error names the source.
_LOOKS: Final[Mapping[str, Callable[[str], Any]]] = {
    "AGE": parse_duration,
    "SIZE": parse_size,
    "TIME": parse_duration,
    "TIME|SIZE": _parse_time_or_size,
}


def fill_in_settings(ctx: Any, sources: Sequence[Source]) -> None:
    """Replace defaults by the values of the sources, in the parameters of a parsed command.

    Raises:
        UsageError: the value is invalid for the option; the message names its source.
    """
    for param in ctx.command.params:
        key = settable_name(param)
        if key is None or param.name in ctx.command.declared or is_typed(ctx, param.name):
            continue
        found = next((hit for source in sources if (hit := source.find(key))), None)
        if found is not None:
            ctx.params[param.name] = convert_setting(ctx, param, *found)


def settings_of(command: Any) -> set[str]:
    """Return the names of the settings of a command."""
    return {name for param in command.params if (name := settable_name(param)) is not None}


def settable_name(param: Any) -> str | None:
    """Return the name of the setting of an option, if it has one."""
    if not isinstance(param, TyperOption):
        return None
    names = (name.removeprefix("--") for name in param.opts)
    return next((name for name in names if name in SETTABLE), None)


def ensure_alone(ctx: Any, command: Callable[..., None], action: str, *companions: str) -> None:
    """Refuse options of a command that have no effect with an option for another action.

    Args:
        ctx: the parsed command.
        command: its function; options of all commands are allowed.
        action: the parameter of the other action.
        companions: parameters that are allowed with it.

    Raises:
        UsageError: there is another one; the message names the first.
    """
    if not is_typed(ctx, action):
        return
    flags = {option.name: option.opts[0] for option in ctx.command.params}
    for name in signature(command).parameters:
        if name not in ("ctx", "table", action, *companions) and is_typed(ctx, name):
            raise UsageError(f"{flags[action]} and {flags[name]} cannot be combined")


def convert_setting(ctx: Any, param: TyperOption, place: str, text: str) -> Any:
    """Return the value of an option from the text of a source.

    Raises:
        UsageError: the text is not valid for the option; the message has its place.
    """
    try:
        if param.is_flag:
            return parse_flag(text)
        texts = [part.strip() for part in text.split(",")] if param.multiple else [text]
        for part in texts:
            _LOOKS.get(param.metavar or "", str)(part)
        return param.process_value(ctx, texts if param.multiple else text)
    except UsageError as error:
        raise UsageError(f"{place}: {error.message}", hint=error.hint) from error
    except typer.TyperException as error:
        from deltactl.cli.parsing.usage_errors import restate_usage_error

        restated = restate_usage_error(error, "")
        raise UsageError(f"{place}: {restated.message}") from error
