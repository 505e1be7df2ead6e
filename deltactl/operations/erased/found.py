"""Collect what a search finds, and what it could not read, over a table and its clones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from deltactl.errors import InterruptedRunError
from deltactl.operations.erased.report import UNSEEN, ErasedReport, Place, SearchCounts
from deltactl.operations.erased.tasks import Searched, Unread
from deltactl.operations.run_context import RunContext


@dataclass(slots=True)
class Found:
    """The findings; ``table`` is the address of the table that is being searched."""

    context: RunContext
    now_ms: int
    table: str = ""
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    unsearchable: dict[str, None] = field(default_factory=dict)
    unseen: dict[str, None] = field(default_factory=lambda: dict.fromkeys(UNSEEN))
    counts: SearchCounts = field(default_factory=SearchCounts)
    engine: tuple[str, str] = ("local", "")
    _digest: Any = field(default_factory=sha256)

    def ensure_running(self) -> None:
        """End the search if it was cancelled.

        Raises:
            InterruptedRunError: it was.
        """
        if self.context.is_cancelled:
            raise InterruptedRunError("interrupted")

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

    def take(self, searched: Searched) -> None:
        """Add the counts of data files, and those that could not be read."""
        self.counts.data_files += searched.num_files
        self.counts.rows += searched.num_rows
        self.counts.groups_skipped += searched.num_groups_skipped
        self.counts.gone += searched.num_gone
        self.unread += [replace(it, name=mask_values(it.name)) for it in searched.unread]

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
            unseen=tuple(self.unseen),
            counts=self.counts,
            digest=self._digest.hexdigest(),
        )


def mask_values(name: str) -> str:
    """Return the name of a file without the values in the names of its directories."""
    directory, slash, base = name.rpartition("/")
    return re.sub(r"=[^/]*", "=*", directory) + slash + base
