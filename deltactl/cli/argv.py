"""The command line that was typed, told back to who typed it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_SECRET_FLAGS = ("--storage-option", "--spark-conf", "--spark-remote")


def real_command(argv: Sequence[str]) -> str:
    """The command that was typed, without what kept it from acting, and without secrets."""
    words, is_secret = ["deltactl"], False
    for word in argv:
        if word in ("--dry-run", "--check"):
            continue
        if is_secret or word.startswith(tuple(f"{flag}=" for flag in _SECRET_FLAGS)):
            words.append(_mask(word))
        else:
            words.append(shlex.quote(word))
        is_secret = word in _SECRET_FLAGS
    return " ".join(words)


def _mask(word: str) -> str:
    """``KEY=VALUE``, perhaps behind its flag, without the value: it may be a password."""
    flag, pair = "", word
    if word.startswith("--"):
        flag, _, pair = word.partition("=")
        flag += "="
    key, equals, _ = pair.partition("=")
    return flag + shlex.quote(key) + ("=..." if equals else "")
