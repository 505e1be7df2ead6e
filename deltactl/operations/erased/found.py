"""What a search finds and what it cannot read: of a task, and of a table and its clones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import InterruptedRunError
from deltactl.operations.erased.report import UNSEEN, ErasedReport, Place, Unread, Where
from deltactl.operations.erased.sought import Sought
from deltactl.operations.run_context import RunContext


@dataclass(frozen=True, slots=True)
class Hit:
    """Values in one place: rows or entries of a file, or entries of several ``files``.

    ``name`` is the file; empty if it is not needed. ``part`` is what has the values.
    """

    place: str
    name: str = ""
    rows: int | None = None
    entries: int | None = None
    part: str | None = None
    files: int = 1


@dataclass(slots=True)
class Searched:
    """The result of a task, with the counts that :class:`ErasedReport` has."""

    hits: list[Hit] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Searched) -> Searched:
        """Add another result."""
        self.hits += other.hits
        self.unread += other.unread
        self.counts.update(other.counts)
        return self


@dataclass(slots=True)
class Found:
    """The findings; ``table`` is the address of the table that is being searched."""

    context: RunContext
    now_ms: int
    table: str = ""
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    unsearchable: dict[str, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    engine: tuple[str, str] = ("local", "")
    _named: set[tuple[str, str, str]] = field(default_factory=set)
    _digest: Any = field(default_factory=sha256)

    def ensure_running(self) -> None:
        """End the search if it was cancelled.

        Raises:
            InterruptedRunError: it was.
        """
        if self.context.is_cancelled:
            raise InterruptedRunError("interrupted")

    def add(self, hit: Hit, until_ms: int | None = None) -> None:
        """Add values in one place of the table; a file counts once."""
        where = Where(hit.place)
        place = self.places.setdefault((self.table, where), Place(self.table, where))
        key = self.table, where, hit.name
        place.files += 0 if hit.name and key in self._named else hit.files
        if hit.rows is None:
            self._named.add(key)
            place.entries = (place.entries or 0) + (hit.entries or 0)
        else:
            place.rows = (place.rows or 0) + hit.rows
        place.until_ms = max(filter(None, (place.until_ms, until_ms)), default=None)
        if hit.part is not None:
            place.parts[hit.part] = None

    def add_unread(self, name: str, place: str, error: Exception) -> None:
        """Add a file that could not be read."""
        self.unread.append(Unread.of(name, place, error))

    def mask_names(self, sought: Sought) -> None:
        """Mask the names of unread files that have a value."""
        names = pa.array([it.name for it in self.unread], pa.string())
        for place in pc.indices_nonzero(sought.in_texts(names, True)).to_pylist():
            self.unread[place] = replace(self.unread[place], name="*")

    def note_searched(self, *parts: object) -> None:
        """Add something that was searched to the digest: buffers, or values."""
        for part in parts:
            is_bytes = isinstance(part, bytes | memoryview)
            self._digest.update(part if is_bytes else repr(part).encode("utf-8", "replace"))

    def report(self, tables: Sequence[tuple[str, int]], predicate: str | None) -> ErasedReport:
        """Return the report."""
        places = tuple(self.places.values())
        self.note_searched(predicate, tables, sorted(self.counts.items()), places, self.unread)
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
            unseen=UNSEEN,
            counts=self.counts,
            digest=self._digest.hexdigest(),
        )
