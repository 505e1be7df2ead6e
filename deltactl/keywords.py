"""Build the options of an operation from the keyword arguments of a method of the library.

The keywords are the fields of the options class, without ``_ms``. A field of type
``Annotated[T, function]`` takes the argument of the function: ``"7d"`` or a ``timedelta``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from inspect import signature
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from deltactl.errors import UsageError
from deltactl.option_fields import METADATA
from deltactl.suggest import find_nearest, without_risky
from deltactl.value_types import ensure_type, to_int

T = TypeVar("T")


def build_options(kind: type[T], options: T | None, keywords: Mapping[str, Any]) -> T:
    """Return options with the fields that keywords give; the others are those of ``options``.

    Raises:
        TypeError: there is no such keyword, or ``options`` are of another class.
        UsageError: a value is not valid.
    """
    if not isinstance(options, kind | None):
        raise TypeError(f"options must be {kind.__name__}, not {type(options).__name__}")
    known = keyword_types(kind)
    values = {}
    for keyword, value in keywords.items():
        if keyword not in known:
            declared = {it.name: it.metadata.get(METADATA) for it in fields(kind)}  # type: ignore[arg-type]
            flags = {it.flag: keyword_of(name) for name, it in declared.items() if it}
            near = flags.get(keyword) or find_nearest(keyword, without_risky(keyword, known))
            others = f"Did you mean {near!r}?" if near else f"Use one of: {', '.join(known)}"
            raise TypeError(f"unexpected keyword argument {keyword!r}. {others}")
        name, hint_of_type = known[keyword]
        values[name] = _convert(keyword, value, hint_of_type)
    if options is not None:
        return replace(options, **values)  # type: ignore[type-var]
    return kind(**values)


def _convert(keyword: str, value: Any, hint: Any) -> Any:
    value = to_int(value, argument_type(hint))
    ensure_type(keyword, value, argument_type(hint))
    convert = find_converter(hint)
    if value is None or convert is None:
        return value
    try:
        return convert(value)
    except UsageError as error:
        raise UsageError(f"{keyword}: {error.message}", hint=error.hint) from None


def keyword_types(kind: type) -> dict[str, tuple[str, Any]]:
    """Return the field and the type of each keyword."""
    hints = get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)]
    return {keyword_of(name): (name, hints[name]) for name in names}


def keyword_of(field: str) -> str:
    """Return the keyword of a field."""
    return field.removesuffix("_ms")


def without_none(hint: Any) -> Any:
    """Return ``T`` for ``T | None``, and other types as they are."""
    members = [member for member in get_args(hint) if member is not NoneType]
    is_optional = len(members) == 1 and NoneType in get_args(hint)
    return members[0] if is_optional else hint


def find_converter(hint: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts an argument to a field of this type, if one is needed."""
    hint = without_none(hint)
    collection = get_origin(hint)
    if collection is Annotated:
        converter: Callable[[Any], Any] = hint.__metadata__[0]
        return converter
    return collection if collection in (tuple, frozenset) else None


def argument_type(hint: Any) -> Any:
    """Return the type of the keyword of a field of this type."""
    if get_origin(hint) is Annotated:
        convert = hint.__metadata__[0]
        return get_type_hints(convert)[next(iter(signature(convert).parameters))]
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(map(argument_type, get_args(hint)))]  # noqa: UP007
    return hint
