"""Collect what a search finds, and what it could not read, over a table and its clones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from deltactl.operations.erased.report import ErasedReport, Place, SearchCounts
from deltactl.operations.erased.tasks import Unread


@dataclass(slots=True)
class Found:
    """The findings; ``table`` is the address of the table that is being searched."""

    now_ms: int
    table: str = ""
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    unsearchable: dict[str, None] = field(default_factory=dict)
    counts: SearchCounts = field(default_factory=SearchCounts)
    engine: tuple[str, str] = ("local", "")
    _digest: Any = field(default_factory=sha256)

    def add(
        self,
        name: str,
        *,
        files: int,
        rows: int | None = None,
        entries: int | None = None,
        until_ms: int | None = None,
        part: str | None = None,
    ) -> None:
        """Add findings of one place of the table."""
        place = self.places.setdefault((self.table, name), Place(self.table, name))
        place.files += files
        place.rows = rows if place.rows is None else place.rows + (rows or 0)
        place.entries = entries if place.entries is None else place.entries + (entries or 0)
        place.until_ms = max(filter(None, (place.until_ms, until_ms)), default=None)
        if part is not None:
            place.parts[part] = None

    def add_unread(self, name: str, place: str, error: Exception) -> None:
        """Add a file that could not be read."""
        self.unread.append(Unread.of(mask_values(name), place, error))

    def note_searched(self, *parts: object) -> None:
        """Add something that was searched to the digest."""
        self._digest.update(repr(parts).encode("utf-8", "backslashreplace"))

    def report(self, tables: Sequence[tuple[str, int]], predicate: str | None) -> ErasedReport:
        """Return the report."""
        places = tuple(self.places.values())
        self.note_searched(predicate, tables, self.counts, places, self.unread)
        return ErasedReport(
            version=tables[0][1],
            searched_ms=self.now_ms,
            predicate=predicate,
            engine=self.engine[0],
            engine_reason=self.engine[1],
            tables=tuple(tables),
            places=places,
            unread=tuple(self.unread),
            unsearchable=tuple(self.unsearchable),
            counts=self.counts,
            digest=self._digest.hexdigest(),
        )


def mask_values(name: str) -> str:
    """Return the name of a file without the values in the names of its directories."""
    directory, slash, base = name.rpartition("/")
    return re.sub(r"=[^/]*", "=*", directory) + slash + base
