"""Declare an option once: as a field of a class of options.

The command line, its help, the settings and the library read the declaration. The type of a field
says how a value is given: ``Annotated[T, function]`` takes what the function takes, such as "7d".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
)

from deltactl.errors import UsageError
from deltactl.option_names import option
from deltactl.value_types import ensure_type, to_int

P = ParamSpec("P")
T = TypeVar("T")

REQUIRED: Final[Any] = MISSING
"""Instead of a default: the class needs the option, and a flag is false without it."""
METADATA: Final = "option"
"""The key of an ``Option`` in the metadata of its field."""


class Group(StrEnum):
    """Headings of options, in the order of help and manual pages."""

    SELECTION = "Selection"
    LAYOUT = "Layout"
    EXECUTION = "Execution"
    SAFETY = "Safety"
    OUTPUT = "Output"


@dataclass(frozen=True, slots=True)
class Option:
    """What the command line says about an option, and who may set it.

    Without ``flag``, it is named as the field; without ``default``, help shows that of the field.
    Options that control how a run works may be set for all runs (``is_settable``). Options that
    select what a run changes, or that disable a safety rule, must be given on each command line.
    Those without ``has_flag`` are settings only.
    ``--help`` shows those that most people need (``is_basic``), ``--help-all`` and the manual all.
    ``table_property`` applies if nothing else sets the value. ``sets`` is the option of another
    command that it sets under another name, as a keyword. ``alone_with``: the option starts
    another task, and no other options of the command may be given with it. ``bare`` is the value of
    an option without a value.
    """

    help: str
    metavar: str | None = None
    group: Group = Group.EXECUTION
    flag: str | None = None
    short: str | None = None
    default: str | None = None
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    has_flag: bool = True
    is_settable: bool = False
    is_basic: bool = False
    is_repeated: bool = False
    is_counted: bool = False
    is_for_one_table: bool = False
    table_property: str | None = None
    sets: str | None = None
    alone_with: Collection[str] | None = None
    bare: str | None = None


def _field_of(make: Callable[P, Option], **fixed: Any) -> Callable[Concatenate[T, P], T]:
    def declare(default: T, /, *args: P.args, **kwargs: P.kwargs) -> T:
        metadata = {METADATA: replace(make(*args, **kwargs), **fixed)}
        if isinstance(default, dict):
            return field(default_factory=lambda: copy(default), metadata=metadata)
        return field(default=default, metadata=metadata)

    return declare


# Each returns a field, of its default and the parts of its ``Option``.
selection_option = _field_of(Option, group=Group.SELECTION)
layout_option = _field_of(Option, group=Group.LAYOUT)
execution_option = _field_of(Option, group=Group.EXECUTION)
safety_option = _field_of(Option, group=Group.SAFETY)
output_option = _field_of(Option, group=Group.OUTPUT)
setting = _field_of(Option, is_settable=True, has_flag=False)


def ensure_declared(options: Any) -> None:
    """Refuse values outside of the types and limits that a class declares for its fields.

    Raises:
        UsageError: naming the option.
    """
    hints = _hints(cast("Any", type(options)))
    for each in fields(options):
        about: Option | None = each.metadata.get(METADATA)
        given = getattr(options, each.name)
        value = to_int(given, hints[each.name])
        if value is not given:
            object.__setattr__(options, each.name, value)
        ensure_type(each.name, value, hints[each.name])
        if about is None or value is None:
            continue
        name, least, most = option(each.name.removesuffix("_ms")), about.least, about.most
        if least is not None and most is not None and not least <= value <= most:
            raise UsageError(f"{name} must be between {least:g} and {most:g}")
        if least is not None and not value >= least:
            raise UsageError(f"{name} must {'be more than zero' if least else 'not be negative'}")


_hints = cache(get_type_hints)


def to_pairs(pairs: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    """Return keys and values; in texts, the first ``=`` ends the key.

    Raises:
        UsageError: a text has no ``=`` or no key. The value, perhaps a secret, is not repeated.
    """
    if isinstance(pairs, Mapping):
        return pairs
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.strip()):
            raise UsageError("a key and a value are needed", hint="Write KEY=VALUE.")
        found[key.strip()] = value
    return found


Pairs: TypeAlias = Annotated[Mapping[str, str], to_pairs]
"""The type of an option with keys and values."""
