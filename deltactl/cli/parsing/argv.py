"""Rebuild the command line of the run, for hints."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deltactl.errors import mask_address, quote_word

PROGRAM: Final = "deltactl"
PREDICATE: Final = "PREDICATE"
_SECRET_FLAGS: Final = (
    "--storage-option",
    "--source-storage-option",
    "--spark-conf",
    "--spark-remote",
)
_PREDICATES: Final = ("--where", "--erased")
_LOOKS: Final = ("--dry-run", "--check")
_TIMES: Final = {"--to-timestamp": "--to-version", "--timestamp": "--version"}


def typed_command(argv: Sequence[str]) -> str:
    """Return the command line of the run, without secrets."""
    words, before = [_program()], ""
    for word in _redact(argv) if "--redact" in argv else argv:
        flag = before if before in (*_SECRET_FLAGS, *_PREDICATES) else word.partition("=")[0]
        if flag in _SECRET_FLAGS and flag != word:
            words.append(_mask(word))
        else:  # a masked predicate would be another one
            words.append(quote_word(word if flag in _PREDICATES else mask_address(word)))
        before = word
    return " ".join(words)


def _redact(argv: Sequence[str]) -> list[str]:
    """Return the words without the predicate of ``--erased``."""
    words = [re.sub(r"(?s)^--erased=.*", f"--erased={PREDICATE}", word) for word in argv]
    pairs = zip(["", *words], words, strict=False)
    return [PREDICATE if before == "--erased" else word for before, word in pairs]


def _program() -> str:
    """Return the name of the program, with its path if the shell would not find it."""
    typed = sys.argv[0]
    is_found = Path(typed).name != PROGRAM or shutil.which(PROGRAM) is not None
    return PROGRAM if is_found else quote_word(typed)


def real_command(argv: Sequence[str], version: int | None = None) -> str:
    """Return the command line of the run without options such as --dry-run, and without secrets.

    ``version``: that of the time in the options, because a time such as ``12h`` is another one when
    the command is run.
    """
    words = [word for word in argv if word not in _LOOKS]
    return typed_command(words if version is None else _with_version(words, version))


def _with_version(argv: Sequence[str], version: int) -> list[str]:
    """Return the words with ``--version`` in place of ``--timestamp``, and so on."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] in _TIMES:
            words[-1:] = [_TIMES[words[-1]], str(version)]
            continue
        flag, equals, _ = word.partition("=")
        words.append(f"{_TIMES[flag]}={version}" if equals and flag in _TIMES else word)
    return words


def _mask(word: str) -> str:
    """Return ``KEY=VALUE``, with or without its option, without the value: it may be a password."""
    flag, pair = "", word
    if word.startswith("--"):
        flag, _, pair = word.partition("=")
        flag += "="
    key, equals, _ = pair.partition("=")
    return flag + shlex.quote(key) + ("=..." if equals else "")
