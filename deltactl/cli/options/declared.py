"""Declare options that many commands share, as the fields of a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter, Signature
from typing import Any, Self, TypeVar, get_type_hints


@dataclass(frozen=True, slots=True)
class Options:
    """A class whose fields are options: each is annotated with its ``typer.Option``."""

    @classmethod
    def take(cls, params: dict[str, Any]) -> Self:
        """Move these options out of parsed parameters; without a value, the default applies."""
        return take_options(cls, params)


Taken = TypeVar("Taken", bound=Options)


def take_options(options: type[Taken], params: dict[str, Any]) -> Taken:
    """Move the options of a class out of parsed parameters; see ``Options.take``."""
    given = {name: params.pop(name, None) for name in _declared(options)}
    return options(**{name: value for name, value in given.items() if value is not None})


def declare(options: type[Options]) -> Callable[..., None]:
    """Return a function with these options as its signature: the only form that Typer reads."""

    def declaration(**_: Any) -> None:
        raise NotImplementedError

    hints = _declared(options)
    defaults = {f.name: None if f.default is MISSING else f.default for f in fields(options)}
    declaration.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=hint)
            for name, hint in hints.items()
        ]
    )
    declaration.__annotations__ = hints
    return declaration


def _declared(options: type[Options]) -> dict[str, Any]:
    """Return the annotations of the fields that are options, in their order."""
    hints = get_type_hints(options, include_extras=True)
    names = (f.name for f in fields(options))
    return {name: hints[name] for name in names if hasattr(hints[name], "__metadata__")}
