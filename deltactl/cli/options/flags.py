"""Spell the options in texts of operations as flags of the command line."""

from __future__ import annotations

from collections.abc import Iterable

from deltactl.cli.options.declared import Declared
from deltactl.keywords import keyword_of
from deltactl.option_names import NAME_ONLY


def spell_flag(options: Iterable[Declared], name: str, value: object = NAME_ONLY) -> str:
    """Return an option of a command with its value, as it is typed."""
    if name == "deep" and value is False:
        return "--shallow"
    flag = name.replace("_", "-")
    flag = next((it.name for it in options if keyword_of(it.field) == name), flag)
    return f"--{flag}" if value is NAME_ONLY or isinstance(value, bool) else f"--{flag} {value}"
