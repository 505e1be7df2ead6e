"""Name options in texts: by keyword in the library, by flag on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

NAME_ONLY: Final = object()
"""The value of an option that a text names without a value."""

Spelling: TypeAlias = Callable[[str, object], str]


def _spell_keyword(name: str, value: object) -> str:
    return name if value is NAME_ONLY else f"{name}={value!r}"


# One for the process and not for each thread: a command runs in several threads.
_spellings: Final[list[Spelling]] = [_spell_keyword]


def option(name: str, value: object = NAME_ONLY) -> str:
    """Return an option as the user writes it: ``full=True`` or ``--full``."""
    return _spellings[-1](name, value)


@contextmanager
def options_spelled(spelling: Spelling) -> Iterator[None]:
    """Spell the options in texts that are made in the block in another way."""
    _spellings.append(spelling)
    try:
        yield
    finally:
        _spellings.remove(spelling)
