"""Parse simple values of the command line directly, and leave all others to Typer.

Typer builds a pydantic adapter for each parameter, used or not. That takes most of the time to
parse a command line, for strings, numbers and choices that need only a comparison. A value that
is not clearly valid goes to Typer, which reports the error.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, get_args, get_origin

_INTEGER: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_DECIMAL: Final = re.compile(r"(0|[1-9][0-9]{0,9})(\.[0-9]{1,9})?")
_OTHERWISE: Final[Any] = object()


def with_plain_values(params: list[Any]) -> list[Any]:
    """Let parameters parse simple values themselves; for a command's ``get_params``.

    Click and Typer convert values in ``process_value``. If they stop calling it, parsing falls
    back to Typer's own.
    """
    for param in params:
        if not isinstance(getattr(param, "process_value", None), partial):
            param.process_value = partial(_process_value, param, param.process_value)
    return params


def _process_value(param: Any, typer_reads: Any, ctx: Any, value: Any) -> Any:
    plain = _read(param, value)
    if plain is _OTHERWISE:
        return typer_reads(ctx, value)
    return plain if param.callback is None else param.callback(ctx, param, plain)


def _read(param: Any, value: Any) -> Any:
    is_several = param.nargs == -1 or getattr(param, "multiple", False)
    if value is None:
        return _OTHERWISE if param.required else (() if is_several else None)
    declared = getattr(param, "type_descriptor", None)
    if declared is None or declared.parameter_info.parser is not None:
        return _OTHERWISE
    if not is_several:
        return _read_one(param, declared.annotation, value)
    kinds = get_args(declared.annotation)
    if len(kinds) != 1 or not isinstance(value, list | tuple) or (param.required and not value):
        return _OTHERWISE
    values = [_read_one(param, kinds[0], one) for one in value]
    return _OTHERWISE if any(one is _OTHERWISE for one in values) else values


def _read_one(param: Any, kind: Any, value: Any) -> Any:
    if kind is str:
        return value if isinstance(value, str) else _OTHERWISE
    if kind is int:
        return _read_number(param, kind, _INTEGER, value)
    if kind is float:
        return _read_number(param, kind, _DECIMAL, value)
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else _OTHERWISE
    if isinstance(kind, type) and issubclass(kind, Enum):
        hits = (member for member in kind if value is member or value == str(member.value))
        return next(hits, _OTHERWISE)
    return _OTHERWISE


def _read_number(param: Any, kind: Any, form: re.Pattern[str], value: Any) -> Any:
    if isinstance(value, str) and form.fullmatch(value):
        value = kind(value)
    is_fit = (
        type(value) is kind
        and (param.min is None or value >= param.min)
        and (param.max is None or value <= param.max)
    )
    return value if is_fit else _OTHERWISE
