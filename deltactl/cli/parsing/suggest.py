"""What a wrong word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Give the known word that is most like ``word``, whatever its case, if one is like it."""
    from difflib import get_close_matches

    by_lower = {str(name).lower(): str(name) for name in known}  # members of enums too
    lowered = word.lower()
    matches = get_close_matches(lowered, by_lower, n=1, cutoff=0.6)
    # A start is as good as a slip: "loc" is far from "local" by letters.
    starts = [name for name in by_lower if lowered and name.startswith(lowered)]
    nearest = matches or (starts if len(starts) == 1 else [])
    return by_lower[nearest[0]] if nearest else None


def with_suggestion(message: str, word: str, known: Iterable[str]) -> str:
    """Put what was probably meant behind a message, if a known word is like the wrong one."""
    nearest = find_nearest(word, known)
    return message if nearest is None else f"{message}. Did you mean {nearest!r}?"
