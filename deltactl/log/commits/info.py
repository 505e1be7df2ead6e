"""Read ``commitInfo`` of a commit, and the time of a version.

Source: PROTOCOL.md, "Commit Provenance Information" and "In-Commit Timestamps".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltactl.errors import CorruptLogError
from deltactl.protocol.properties import TableProperties

if TYPE_CHECKING:  # Arrow is not needed to read a commitInfo
    from deltactl.protocol.actions import Metadata


class RawFloat(float):
    """A number with a fraction or exponent that keeps its text."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> RawFloat:
        """Create the number from its text."""
        number = super().__new__(cls, text)
        number.text = text
        return number


_DECODER = json.JSONDecoder(parse_float=RawFloat)


def parse_commit_info(name: str, data: bytes) -> dict[str, Any] | None:
    """Return the first ``commitInfo`` in the content of a commit; ``None`` if it has none.

    Other lines are not parsed. Numbers with a fraction are :class:`RawFloat`.

    Raises:
        CorruptLogError: the line with the ``commitInfo`` is not JSON.
    """
    return next(find_actions(name, data, "commitInfo"), None)


def find_actions(name: str, data: bytes, action: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of one kind of action in a commit. Only lines with its name are parsed.

    Raises:
        CorruptLogError: such a line is not JSON; the message has the file and the line.
    """
    needle = f'"{action}"'.encode()
    found = data.find(needle)
    while found >= 0:
        start, end = data.rfind(b"\n", 0, found) + 1, data.find(b"\n", found)
        end = len(data) if end < 0 else end
        try:
            node = parse_json_line(data[start:end])
        except (ValueError, RecursionError) as error:
            number = data.count(b"\n", 0, start) + 1
            raise CorruptLogError(f"{name}, line {number}: not valid JSON ({error})") from error
        value = node.get(action) if isinstance(node, dict) else None
        if isinstance(value, dict):
            yield value
        found = data.find(needle, end)


def parse_json_line(line: bytes) -> Any:
    """Parse one line of a log file as a JSON value.

    Raises:
        ValueError, RecursionError: the line is not JSON, or is nested too deep.
    """
    text = line.strip().decode()
    value, end = _DECODER.raw_decode(text)
    if end != len(text):
        raise ValueError(f"text follows the object: char {end}")
    return value


def in_commit_timestamp(info: dict[str, Any] | None) -> int | None:
    """Return the ``inCommitTimestamp`` of a commit in ms; ``None`` if it has none."""
    value = None if info is None else info.get("inCommitTimestamp")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def uses_in_commit_timestamp(metadata: Metadata, version: int) -> bool:
    """Return whether the time of a version is its in-commit timestamp.

    The properties of the latest version decide this.
    """
    since = TableProperties(metadata.configuration).in_commit_since
    return since is not None and version >= since
