"""Check values of arguments and options against their declared types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from operator import index
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from deltactl.errors import UsageError

_SHOWN: Final = 80
_UNIONS: Final = (Union, UnionType)
_LISTS: Final = {tuple: Sequence, Sequence: Sequence, frozenset: Collection, Collection: Collection}


def ensure_type(name: str, value: Any, hint: Any) -> None:
    """Refuse a value that is not of a type, such as ``int | None`` or ``Sequence[str]``.

    Raises:
        UsageError: it has the name, the type, and the wrong value or a wrong part of it.
    """
    if wrong := _find_wrong(value, hint):
        is_part = wrong[0] is not value
        is_hidden = is_part and isinstance(value, Mapping)  # a key or value may be secret
        text = type(wrong[0]).__name__ if is_hidden else repr(wrong[0])
        shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
        if is_part:
            shown = f"{'a dictionary' if is_hidden else 'a list'} with {shown}"
        raise UsageError(f"{name} must be {_describe(hint)}; got {shown}")


def to_int(value: Any, hint: Any) -> Any:
    """Return integers of other types, such as NumPy's, as ``int`` if the type has integers."""
    if int not in (hint, *get_args(hint)):
        return value
    if isinstance(value, list | tuple):
        return tuple(to_int(part, int) for part in value)
    if not isinstance(value, int):
        with suppress(TypeError):
            return index(value)
    return value


def _find_wrong(value: Any, hint: Any) -> list[Any]:
    """Return the parts of a value that do not have the type."""
    kind, members = get_origin(hint), get_args(hint)
    if kind in _UNIONS:
        found = [_find_wrong(value, member) for member in members]
        parts = [wrong for wrong in found if wrong and wrong[0] is not value]
        return [] if [] in found else parts[0] if parts else [value]
    if kind is Literal:
        return [] if isinstance(value, str) and value in members else [value]
    if kind is Mapping and isinstance(value, Mapping):
        return [part for pair in value.items() for part in pair if not isinstance(part, str)]
    if kind in _LISTS:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, _LISTS[kind]):
            return [value]
        return [wrong for part in value for wrong in _find_wrong(part, members[0])]
    return [] if _is_of(value, kind or hint) else [value]


def _is_of(value: Any, kind: Any) -> bool:
    if isinstance(value, bool) and kind in (int, float):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _describe(hint: Any) -> str:
    kind, members = get_origin(hint), get_args(hint)
    if kind in _UNIONS:
        return " or ".join(map(_describe, members))
    if kind is Literal:
        return f"one of: {', '.join(members)}"
    if kind is Mapping:
        return "a dictionary of texts"
    if kind in _LISTS:
        return f"a list of {_describe(members[0])}"
    if hint is NoneType:
        return "None"
    name, module = (kind or hint).__name__, (kind or hint).__module__
    # Other modules of the library have classes of the same name, such as multiprocessing.Event.
    return f"{module}.{name}" if module == "threading" else name
