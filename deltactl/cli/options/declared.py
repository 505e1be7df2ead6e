"""Build the parameters of the command line from fields that declare options, and take their values.

A value comes from the command line, else from a variable or a file of settings, else from the
default of the field.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache
from inspect import Parameter, Signature
from math import inf
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from deltactl.cli.settings.sources import Setting, Source, find_setting, parse_flag
from deltactl.errors import UsageError
from deltactl.keywords import find_converter, keyword_of, without_none
from deltactl.option_fields import METADATA, Option
from deltactl.option_names import NAME_ONLY
from deltactl.suggest import with_suggestion
from deltactl.units import (
    format_compact_size,
    format_duration,
    to_bytes,
    to_duration_ms,
    to_timedelta,
    to_timestamp_ms,
)

T = TypeVar("T")

_ANNOTATED: Final[Any] = Annotated

# The values of options with these placeholders name files, so they need not be UTF-8.
_ADDRESSES: Final = frozenset({"DIR", "FILE", "TABLE", "URI"})
_PLACEHOLDERS: Final[Mapping[Any, str]] = {
    int: "N",
    float: "X",
    to_bytes: "SIZE",
    to_duration_ms: "TIME",
    to_timedelta: "TIME",
    to_timestamp_ms: "WHEN",
}
_FORMATS: Final[Mapping[Any, Callable[[Any], str]]] = {
    to_bytes: format_compact_size,
    to_duration_ms: format_duration,
    to_timedelta: lambda duration: format_duration(to_duration_ms(duration)),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """An option of a command: a field, its type without ``None``, and its default."""

    field: str
    hint: Any
    preset: Any
    option: Option

    @property
    def name(self) -> str:
        """Return the name without dashes, which is also that of the setting."""
        name = self.option.flag or keyword_of(self.field).replace("_", "-")
        return f"no-{name}" if self.preset is True else name

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names as they are typed."""
        short = self.option.short
        return (*([f"-{short}"] if short else []), f"--{self.name}")

    @property
    def is_flag(self) -> bool:
        """Return whether the option has no value."""
        return self.hint is bool

    @property
    def choices(self) -> tuple[str, ...]:
        """Return all values, if they can be listed."""
        if isinstance(self.hint, type) and issubclass(self.hint, Enum):
            return tuple(str(it.value) for it in self.hint)
        return get_args(self.hint) if get_origin(self.hint) is Literal else self.option.choices

    @property
    def kind(self) -> Any:
        """Return the type of one value; it is a text unless it is one of a flag or a number."""
        of = get_args(self.hint)
        kind = of[0] if self.is_repeated and of else self.hint
        return kind if kind in (bool, int, float) else str

    @property
    def is_repeated(self) -> bool:
        """Return whether the option may be given several times."""
        return self.option.is_repeated or get_origin(self.hint) in (tuple, frozenset)

    @property
    def default(self) -> str | None:
        """Return the default as help shows it."""
        if self.option.default is not None or self.preset is None or self.is_flag:
            return self.option.default
        if isinstance(self.preset, Collection) and not isinstance(self.preset, str):
            return None
        return str(_FORMATS.get(find_converter(self.hint), str)(self.preset))

    @property
    def placeholder(self) -> str:
        """Return what stands for the value in help; empty without a value."""
        if self.is_flag or self.option.is_counted:
            return ""
        kind = find_converter(self.hint) or self.hint
        return self.option.metavar or "|".join(self.choices) or _PLACEHOLDERS[kind]

    @property
    def limits(self) -> str:
        """Return the limits of a number; empty without any."""
        least, most = self.option.least, self.option.most
        if least is None or self.kind not in (int, float):
            return ""
        return f"x>={least:g}" if most is None else f"{least:g}<=x<={most:g}"

    @property
    def heading(self) -> str:
        """Return names and placeholder as help shows them: ``-n, --limit N``."""
        return " ".join(filter(None, (", ".join(self.names), self.placeholder)))

    @property
    def help(self) -> str:
        """Return the text of help, with the default and the limits of a number."""
        default = f"default: {self.default}" if self.default else ""
        extra = "; ".join(filter(None, (default, self.limits)))
        return f"{self.option.help}  [{extra}]" if extra else self.option.help

    @property
    def parameter(self) -> Parameter:
        """Return the parameter of a function from which Typer builds the option."""
        kind: Any = list[str] if self.is_repeated else str
        kind = bool if self.is_flag else int if self.option.is_counted else kind
        info = typer.Option(*reversed(self.names), count=self.option.is_counted)
        without = {bool: False, int: 0}.get(kind)
        annotation = _ANNOTATED[kind if without is not None else kind | None, info]
        return Parameter(self.field, Parameter.KEYWORD_ONLY, default=without, annotation=annotation)

    def convert(self, value: Any) -> Any:
        """Return the value of the field for a text or texts, or for whether a flag is given.

        Raises:
            UsageError: the value is not valid.
        """
        if self.is_flag:
            return not value if self.preset is True else value
        if self.option.is_counted:
            return value
        value = list(map(self._read, value)) if self.is_repeated else self._read(value)
        if isinstance(self.hint, type) and issubclass(self.hint, Enum):
            return self.hint(value)
        converter = find_converter(self.hint)
        return value if converter is None else converter(value)

    def accepts(self, text: str) -> bool:
        """Return whether a text is a value of the option."""
        try:
            self.convert(text)
        except UsageError:
            return False
        return True

    def parse(self, setting: Setting) -> Any:
        """Return the value of the field for a setting.

        Raises:
            UsageError: the text is not valid; the message says where it is.
        """
        with error_at(setting.place):
            if self.is_flag:
                return self.convert(parse_flag(setting.text))
            texts = [text.strip() for text in setting.text.split(",")]
            return self.convert(texts if self.is_repeated else setting.text.strip())

    def _read(self, text: str) -> Any:
        """Return a choice or a number; other texts as they are."""
        if self.choices:
            if text.lower() not in self.choices:
                message = with_suggestion(f"{text!r} is not possible", text, self.choices)
                raise UsageError(message, hint=f"Use one of: {', '.join(self.choices)}.")
            return text.lower()
        if self.kind is str:
            from deltactl.storage.names import is_utf8  # not for help

            if not (self.placeholder in _ADDRESSES or is_utf8(text)):
                hint = "Use a terminal whose encoding is UTF-8."
                raise UsageError(f"{text!r} is not valid UTF-8", hint=hint)
            return text
        try:
            value = self.kind(text)
        except ValueError:
            kind = "whole number" if self.kind is int else "number"
            raise UsageError(f"{text!r} is not a {kind}") from None
        least, most = self.option.least, self.option.most
        if not (-inf if least is None else least) <= value <= (inf if most is None else most):
            raise UsageError(f"{text} is not in the range {self.limits}")
        return value


@contextmanager
def error_at(place: str) -> Iterator[None]:
    """Let errors of the block say where the value is from."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place}: {error.message}", hint=error.hint) from error


@cache
def declared_options(kind: Any) -> tuple[Declared, ...]:
    """Return the options that a class declares, in the order of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        Declared(
            field.name,
            without_none(hints[field.name]),
            field.default if field.default_factory is MISSING else field.default_factory(),
            field.metadata[METADATA],
        )
        for field in fields(kind)
        if METADATA in field.metadata
    )


def sign(
    function: Callable[..., Any],
    kinds: Iterable[type],
    options: Iterable[Declared],
    *,
    help_all: Any,
) -> Callable[..., None]:
    """Return a function with the arguments of ``function`` and of classes, and with options.

    Its signature is the only form that Typer reads; it is not called.
    """

    def declaration(**_: Any) -> None:
        raise NotImplementedError

    parameters = {
        name: _argument(name, hint)
        for owner in (function, *kinds)
        for name, hint in _arguments(owner).items()
    }
    parameters |= {it.field: it.parameter for it in options if it.option.has_flag}
    parameters["help_all"] = Parameter(
        "help_all", Parameter.KEYWORD_ONLY, default=False, annotation=_ANNOTATED[bool, help_all]
    )
    declaration.__doc__ = function.__doc__
    declaration.__signature__ = Signature(list(parameters.values()))  # type: ignore[attr-defined]
    declaration.__annotations__ = {name: it.annotation for name, it in parameters.items()}
    return declaration


def option_classes(function: Callable[..., Any]) -> dict[str, type]:
    """Return the parameters of a command that take the options of a class."""
    hints = get_type_hints(function)
    return {name: kind for name, kind in hints.items() if hasattr(kind, "__dataclass_fields__")}


def _arguments(owner: Any) -> dict[str, Any]:
    """Return the positional arguments: what is annotated with ``typer.Argument``."""
    hints = get_type_hints(owner, include_extras=True)
    return {
        name: hint
        for name, hint in hints.items()
        if get_origin(hint) is Annotated and hasattr(hint.__metadata__[0], "param_decls")
    }


def _argument(name: str, hint: Any) -> Parameter:
    kind = hint.__origin__
    is_optional = get_origin(kind) is list or type(None) in get_args(kind)
    default = None if is_optional else Parameter.empty
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def is_typed(ctx: Any, name: str) -> bool:
    """Return whether a parameter was given on the command line, and not by a setting."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def take_options(ctx: Any, kind: type[T], sources: Sequence[Source]) -> T:
    """Return the options of a class. Its field ``origins``, if any, says where each one is from.

    Raises:
        UsageError: a value is not valid; the message says where it is from.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for option in declared_options(cast("Any", kind)):
        if option.field not in ctx.command.declared:
            continue
        typed = find_typed(ctx, option)
        found = None
        if option.option.is_settable and typed is None:
            found = find_setting(sources, option.name)
        if typed is None and found is None:
            if option.preset is MISSING:
                values[option.field] = False
            continue
        origins[option.field] = place = f"--{option.name}" if found is None else found.place
        if found is not None:
            values[option.field] = option.parse(found)
            continue
        with error_at(place):
            values[option.field] = option.convert(typed)
    if hasattr(kind, "origins"):
        values["origins"] = origins
    return kind(**values)


def find_typed(ctx: Any, option: Declared) -> Any:
    """Return the value of the command line; ``None`` without one.

    A global option may be given before and after the command.
    """
    places = (it for it in (ctx.parent, ctx) if it is not None and is_typed(it, option.field))
    given = [it.params[option.field] for it in places]
    if option.is_repeated and given:
        return [text for texts in given for text in texts]
    if option.option.is_counted and given:
        return sum(given)
    return given[-1] if given else None


def spell_flag(options: Iterable[Declared], name: str, value: object = NAME_ONLY) -> str:
    """Return an option with its value as it is typed, for a keyword of the library."""
    if name == "deep" and value is False:
        return "--shallow"
    flag = name.replace("_", "-")
    flag = next((it.name for it in options if name in _keywords_of(it)), flag)
    return f"--{flag}" if value is NAME_ONLY or isinstance(value, bool) else f"--{flag} {value}"


def _keywords_of(option: Declared) -> tuple[str, ...]:
    """Return the names of an option as a keyword: one that is repeated has a plural."""
    keyword = keyword_of(option.field)
    plural = (f"{keyword}s",) if option.is_repeated else ()
    return (keyword, *plural, *filter(None, [option.option.sets]))


def spell_given(ctx: Any, sources: Sequence[Source], name: str) -> str:
    """Return an option as the user gave it: its flag, or the variable or key that sets it."""
    options: Collection[Declared] = ctx.command.declared.values()
    own = next((it for it in options if name in _keywords_of(it)), None)
    if own is not None and (not own.option.is_settable or find_typed(ctx, own) is not None):
        return f"--{own.name}"
    found = find_setting(sources, name.replace("_", "-") if own is None else own.name)
    if found is None and own is not None and not own.option.has_flag:
        return own.name  # from a profile
    return spell_flag(options, name) if found is None else found.place
