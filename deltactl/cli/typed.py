"""What the user typed, made into what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def next_command(argv: Sequence[str]) -> str:
    """The command that was typed, without what kept it from acting, and without secrets."""
    words, is_secret = ["deltactl"], False
    for word in argv:
        if word in ("--dry-run", "--check"):
            continue
        if is_secret or word.startswith("--storage-option="):
            words.append(_mask(word))
        else:
            words.append(shlex.quote(word))
        is_secret = word == "--storage-option"
    return " ".join(words)


def _mask(word: str) -> str:
    """A storage option without its value, which may be a password."""
    option, equals, pair = word.rpartition("--storage-option=")
    return f"{option}{equals}{pair.partition('=')[0]}=..."
