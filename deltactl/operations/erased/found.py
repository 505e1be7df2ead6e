"""What a search finds and what it cannot read: of a task, and of a table and its clones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import sha256
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import InterruptedRunError
from deltactl.log.audit.stored_actions import HELD, NEXT
from deltactl.operations.erased.report import (
    BY_HAND,
    ErasedReport,
    Place,
    Unread,
    Where,
    mask_directories,
)
from deltactl.operations.erased.sought import Sought
from deltactl.operations.run_context import RunContext


@dataclass(slots=True)
class Searched:
    """The findings, of ``table`` (its address); the counts are those of :class:`ErasedReport`."""

    table: str = ""
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _named: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, place: str, name: str = "", *, files: int = 1, **values: Any) -> None:
        """Add values in a file, which counts once if it is named, or in several ``files``."""
        if name and place in BY_HAND:
            values["parts"] = (mask_directories(name),)
        key = self.table, place, name
        is_known = bool(name) and key in self._named
        self._named.add(key)
        self._add(Place(self.table, Where(place), 0 if is_known else files, **values))

    def add_unread(self, name: str, place: str, error: Exception) -> None:
        """Add a file that could not be read."""
        self.unread.append(Unread.of(name, place, error))

    def __iadd__(self, other: Searched) -> Self:
        for place in other.places.values():
            self._add(place)
        self.unread += other.unread
        self.counts.update(other.counts)
        return self

    def _add(self, place: Place) -> None:
        key = place.table, place.name
        self.places[key] = self.places[key].join(place) if key in self.places else place


@dataclass(slots=True, kw_only=True)
class Found(Searched):
    """The findings of a run; ``table`` is the one that is being searched.

    ``trusted_ms``: for each table, the time by which a vacuum and a log cleanup decide;
    ``sought``: what was searched for in each; ``deleted``: the predicates that select its rows by
    the names of the latest schema; ``clustered``: their clustering columns; ``manifests``: those
    that have symlink manifests.
    """

    context: RunContext
    now_ms: int
    trusted_ms: dict[str, int] = field(default_factory=dict)
    sought: list[Sought] = field(default_factory=list)
    deleted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    clustered: dict[str, str] = field(default_factory=dict)
    manifests: set[str] = field(default_factory=set)
    unsearchable: dict[str, None] = field(default_factory=dict)
    engine: tuple[str, str] = ("local", "")
    _digest: Any = field(default_factory=sha256)

    def ensure_running(self) -> None:
        """End the search if it was cancelled.

        Raises:
            InterruptedRunError: it was.
        """
        if self.context.is_cancelled:
            raise InterruptedRunError("interrupted")

    def note_searched(self, *parts: object) -> None:
        """Add something that was searched to the digest: buffers, or values."""
        for part in parts:
            is_bytes = isinstance(part, bytes | memoryview)
            self._digest.update(part if is_bytes else repr(part).encode("utf-8", "replace"))

    def report(self, tables: Sequence[tuple[str, int]], predicate: str | None) -> ErasedReport:
        """Return the report; without a predicate, values in names are masked."""
        versions = dict(tables)
        timed = map(self._with_time, self.places.values())
        places = tuple(
            replace(
                it,
                version=versions.get(it.table, 0),
                deleted=self.deleted.get(it.table, ()),
                clustered=self.clustered.get(it.table, ""),
            )
            for it in timed
        )
        unread = self.unread
        if predicate is None:
            clones = [table for table, _ in tables[1:]]
            shown = dict(zip(clones, self._masked(clones, "CLONE"), strict=True))
            tables = [(shown.get(table, table), version) for table, version in tables]
            places = tuple(self._redacted(it, shown.get(it.table, it.table)) for it in places)
            masked = self._masked([it.name for it in unread], "*")
            unread = [replace(it, name=name) for it, name in zip(unread, masked, strict=True)]
        self.note_searched(predicate, tables, sorted(self.counts.items()), places, unread)
        return ErasedReport(
            version=tables[0][1],
            searched_ms=self.now_ms,
            predicate=predicate,
            engine=self.engine[0],
            engine_reason=self.engine[1],
            tables=tuple(tables),
            places=places,
            unread=tuple(unread),
            unsearchable=tuple(self.unsearchable),
            counts=self.counts,
            digest=self._digest.hexdigest(),
        )

    def _with_time(self, place: Place) -> Place:
        """Return a place with its end: that of shared files is in the log of the clones."""
        until_ms = place.until_ms
        if place.name == Where.SHARED:
            clones = [it for it in self.places.values() if it.table != place.table]
            ends = [until_ms, *(it.until_ms for it in clones if it.name == Where.OF_SOURCE)]
            is_live = any(
                it.name in (Where.LIVE, Where.STORED, Where.BESIDE, Where.HIDDEN) for it in clones
            )
            known = [it for it in ends if it is not None and not is_live]
            until_ms = max(known) if len(known) == len(ends) else None
        if until_ms is not None and until_ms >= HELD:
            until_ms = None
        of = (*place.of, Where.LATEST) if place.until_ms == NEXT else place.of
        trusted_ms = self.trusted_ms.get(place.table, self.now_ms)
        waits = until_ms is not None and trusted_ms < until_ms <= self.now_ms
        timed = replace(place, until_ms=until_ms, waits=waits, of=of)
        return timed.after_manifests() if place.table in self.manifests else timed

    def _redacted(self, place: Place, table: str) -> Place:
        parts = self._masked(place.parts, "KEY" if place.name == Where.PROPERTIES else "*")
        deleted = ("PREDICATE",) if place.deleted else ()
        return replace(place, table=table, parts=tuple(dict.fromkeys(parts)), deleted=deleted)

    def _masked(self, names: Sequence[str], mask: str) -> list[str]:
        """Return names; instead of those that have a value, a mask."""
        texts = pa.array(names, pa.string())
        has_value = reduce(pc.or_, (it.anywhere_in(texts) for it in self.sought))
        masked: list[str] = pc.if_else(has_value, mask, texts).to_pylist()
        return masked
