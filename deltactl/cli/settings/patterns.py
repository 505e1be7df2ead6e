"""Match tables with the patterns of a profile, in any spelling of their addresses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from functools import cache
from glob import escape
from pathlib import Path

from deltactl.errors import StorageError
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import common_address, is_local_uri


def matches_table(patterns: Sequence[str], table: str, folder: Path) -> bool:
    """Return whether a pattern matches a table, in any spelling of their addresses.

    A relative pattern is one of the working directory, or of ``folder``, that of its file.
    """
    matcher = _matcher(tuple(patterns), (Path.cwd(), folder.absolute()))
    return any(map(matcher.fullmatch, _spellings(table)))


@cache
def _matcher(patterns: Sequence[str], places: Sequence[Path]) -> re.Pattern[str]:
    globs = {glob for pattern in patterns for glob in _globs(pattern, places)}
    return re.compile("|".join(map(translate, globs)))


def _globs(pattern: str, places: Sequence[Path]) -> Iterator[str]:
    """Yield a pattern as it was written, and those that it leads to from the ``places``."""
    yield from _remote_spellings(pattern)
    path = _local_path(pattern)
    if path is None:
        return
    for place in places:
        yield os.path.normpath(os.path.join(escape(str(place)), path))  # noqa: PTH118 - not a path
        for head, rest in _split_pattern(place, path):
            for literal in (str(head), os.path.realpath(head)):
                yield os.path.join(escape(literal), *rest)  # noqa: PTH118 - not a path


def _split_pattern(place: Path, path: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """Yield the leading directories of a pattern, which may be links, and the names after them.

    A name such as ``env[1]`` is a pattern, and also that of a directory if there is one.
    """
    head = place / path.anchor
    parts = path.parts[1:] if path.anchor else path.parts
    for number, part in enumerate(parts):
        if not os.path.exists(head / part):  # noqa: PTH110 - also without access
            yield head, parts[number:]
            return
        if escape(part) != part:
            yield head, parts[number:]
        head /= part
    yield head, ()


def _spellings(table: str) -> set[str]:
    """Return an address as it was written, and those that it leads to from here.

    A setting can keep files from a vacuum, so it applies to each spelling of a table.
    """
    path = _local_path(table)
    local = () if path is None else (str(path.absolute()), os.path.realpath(path))
    return {*_remote_spellings(table), *local}


def _remote_spellings(address: str) -> tuple[str, ...]:
    """Return an address as it was written, and of a remote one the usual form."""
    written = address.rstrip("/") or "/"
    return (written,) if is_local_uri(written) else (written, common_address(written))


def _local_path(address: str) -> Path | None:
    """Return the path of a local address; ``None`` if it is remote, or of another host."""
    written = address.rstrip("/") or "/"
    if not is_local_uri(written):
        return None
    try:
        path = uri_to_path(written)
    except StorageError:
        return None
    return Path(os.path.expanduser(path))  # noqa: PTH111 - as in ``open_store``
