"""Parse names of tables in catalogs, such as ``uc://main.sales.orders``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from deltactl.catalog.kinds import KINDS
from deltactl.errors import UsageError


@dataclass(frozen=True, slots=True)
class TableName:
    """A name, or a pattern if a part contains ``*``.

    ``place`` is the server or account before the first slash; it may be empty.
    """

    scheme: str
    place: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        """Return the name as it is written."""
        place = f"{self.place}/" if self.place else ""
        return f"{self.scheme}://{place}{'.'.join(self.parts)}"

    @property
    def is_pattern(self) -> bool:
        """Return whether a part contains ``*``."""
        return any("*" in part for part in self.parts)

    def with_parts(self, *parts: str) -> TableName:
        """Return another name in the same catalog."""
        return TableName(self.scheme, self.place, parts)

    def matches(self, *parts: str) -> bool:
        """Return whether the first parts of a name match this pattern; case does not matter."""
        pairs = zip(self.parts, parts, strict=False)
        return all(fnmatchcase(part.lower(), pattern.lower()) for pattern, part in pairs)


def parse_name(address: str) -> TableName:
    """Return the parts of a name or pattern.

    Raises:
        UsageError: there is no such kind of catalog, or its names have other parts.
    """
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    kind = KINDS.get(scheme)
    if kind is None:
        forms = " or ".join(each.syntax(key) for key, each in KINDS.items())
        raise UsageError(f"{address!r} is not a name in a catalog", hint=f"Write {forms}.")
    place, slash, words = rest.rpartition("/")
    parts = tuple(words.split("."))
    hint = f"Write {kind.syntax(scheme)}; * in a part matches any characters."
    if "@" in (place if slash else parts[0]):
        raise UsageError("the name of a table contains a user or password", hint=hint)
    if slash and not (kind.place and place and "/" not in place):
        raise UsageError(f"{address!r} has a slash where none is possible", hint=hint)
    if len(parts) != len(kind.parts) or not all(map(str.strip, parts)):
        raise UsageError(
            f"{address!r} does not have the {len(kind.parts)} parts of a name in {kind.title}",
            hint=hint,
        )
    if re.search(r"[\s\x00-\x1f?\[\]#%`\"']", rest):
        raise UsageError(f"{address!r} has a character that no name contains", hint=hint)
    return TableName(scheme, place, parts)


def nearest_names(name: str, known: Iterable[str]) -> str:
    """Return the end of a message with the names most similar to ``name``; it may be empty."""
    from difflib import get_close_matches

    # Only the last parts differ.
    by_last = {each.rpartition(".")[2]: each for each in known}
    found = [by_last[last] for last in get_close_matches(name.rpartition(".")[2], by_last)]
    return f". Did you mean {' or '.join(found)}?" if found else ""
