"""Rebuild the command line of the run, for hints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

_SECRET_FLAGS: Final = ("--storage-option", "--spark-conf", "--spark-remote")
_LOOKS: Final = ("--dry-run", "--check")
_PASSWORD: Final = re.compile(r"(://[^/@:]*):[^/@]*@")
_SIGNATURE: Final = re.compile(r"(://[^?]*\?)(?=.*(?:sig|token|key)=).+", re.IGNORECASE)


def typed_command(argv: Sequence[str]) -> str:
    """Return the command line of the run, without secrets."""
    words, is_secret = ["deltactl"], False
    for word in argv:
        if is_secret or word.startswith(tuple(f"{flag}=" for flag in _SECRET_FLAGS)):
            words.append(_mask(word))
        else:
            words.append(shlex.quote(mask_address(word)))
        is_secret = word in _SECRET_FLAGS
    return " ".join(words)


def real_command(argv: Sequence[str]) -> str:
    """Return the command line of the run without options such as --dry-run, and without secrets."""
    return typed_command([word for word in argv if word not in _LOOKS])


def mask_address(address: str) -> str:
    """Return an address without the password or the signature that it may contain."""
    return _SIGNATURE.sub(r"\1...", _PASSWORD.sub(r"\1:...@", address))


def _mask(word: str) -> str:
    """Return ``KEY=VALUE``, with or without its option, without the value: it may be a password."""
    flag, pair = "", word
    if word.startswith("--"):
        flag, _, pair = word.partition("=")
        flag += "="
    key, equals, _ = pair.partition("=")
    return flag + shlex.quote(key) + ("=..." if equals else "")
