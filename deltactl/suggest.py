"""Suggest corrections for misspelled words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_RISKY: Final = re.compile(r"(?:--)?(?:allow|drop|force|ignore|include|no|yes)(?:[-_]|$)")


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most similar to ``word``, ignoring case; ``None`` without one."""
    from difflib import get_close_matches

    by_lower = {str(name).lower(): str(name) for name in known}  # for members of enums too
    lowered = word.lower()
    matches = get_close_matches(lowered, by_lower, n=1, cutoff=0.6)
    # A prefix counts as similar: "loc" differs from "local" in too many characters.
    starts = [name for name in by_lower if lowered and name.startswith(lowered)]
    nearest = matches or (starts if len(starts) == 1 else [])
    return by_lower[nearest[0]] if nearest else None


def with_suggestion(message: str, word: str, known: Iterable[str]) -> str:
    """Append the suggestion to a message, if a known word is similar."""
    nearest = find_nearest(word, known)
    return message if nearest is None else f"{message}. Did you mean {nearest!r}?"


def without_risky(word: str, options: Iterable[str]) -> list[str]:
    """Return the options that can be suggested for a word.

    Some options switch off rules that protect data. Only a word that is almost theirs means them.
    """
    from difflib import SequenceMatcher

    return [
        name
        for name in options
        if not _RISKY.match(name) or SequenceMatcher(None, name, word.lower()).ratio() > 0.9
    ]
