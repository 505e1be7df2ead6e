"""Tables whose files and commits have ages, and vacuums of them at a fixed time."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from deltactl.clock import Clock
from deltactl.engine.local import LocalEngine
from deltactl.errors import ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.clone_notes import CloneNote, write_note
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.run import VacuumReport, vacuum_table
from deltactl.storage.store import Store
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.stores import MemoryStore, fresh_store, opened_as
from tests.support.table_builder import (
    LOG,
    START_MS,
    Action,
    Column,
    TableBuilder,
    canonical,
    commit_path,
    from_z85,
)

T = TypeVar("T")

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = START_MS + 1000 * DAY
COLUMNS = (Column("id"), Column("p", "string"))


class DatedStore(ForwardingStore):
    """Dates what is written by a clock, as a store does whose clock is right (or ``behind``)."""

    def __init__(self, inner: MemoryStore, clock: Clock, behind_ms: int = 0) -> None:
        super().__init__(inner)
        self._memory, self._clock, self._behind_ms = inner, clock, behind_ms

    def put(self, name: str, data: bytes) -> None:
        super().put(name, data)
        self._date(name)

    def put_if_absent(self, name: str, data: bytes) -> None:
        super().put_if_absent(name, data)
        self._date(name)

    def _date(self, name: str) -> None:
        self._memory.set_modified(name, self._clock.now_ms() - self._behind_ms)


class Scene:
    """A table in memory, partitioned by ``p``; ``ago`` says how old what happens is."""

    def __init__(self, *features: str, properties: dict[str, str] | None = None) -> None:
        self.store = fresh_store()
        self.store.advance(NOW - START_MS)
        self.clock = FixedClock(NOW)
        self.said: list[str] = []
        self._row = itertools.count()
        self.builder: TableBuilder
        self.ago(100, lambda: self._create(features, properties or {}))

    def _create(self, features: Sequence[str], properties: dict[str, str]) -> None:
        self.builder = TableBuilder(
            self.store, COLUMNS, partition_by=["p"], features=features, properties=properties
        )

    def ago(self, days: float, act: Callable[[], T]) -> T:
        """Let something happen so many days ago: what it writes is dated so."""
        when = NOW - int(days * DAY)
        before = set(self.store.contents())
        if hasattr(self, "builder"):
            self.builder._now_ms = when - 1000
        result = act()
        for name in set(self.store.contents()) - before:
            self.store.set_modified(name, when)
        return result

    def rows(self, p: str = "a", count: int = 3) -> list[dict[str, Any]]:
        return [{"id": next(self._row), "p": p} for _ in range(count)]

    def append(self, days: float, *partitions: str) -> list[str]:
        """One commit with a file in each of the partitions, given as letters."""
        files = [self.rows(p) for p in partitions or ("a",)]
        return self.ago(days, lambda: self.builder.append(*files))

    def remove(self, days: float, *paths: str) -> int:
        return self.ago(days, lambda: self.builder.remove(*paths))

    def delete_rows(self, days: float, path: str, *positions: int, kind: str = "u") -> int:
        return self.ago(days, lambda: self.builder.delete_rows(path, positions, kind))

    def plant(self, days: float, *names: str) -> None:
        """Files that no commit names."""

        def put() -> None:
            for name in names:
                self.store.put(name, b"planted")

        self.ago(days, put)

    def restore_file(self, days: float, add: Action) -> int:
        return self.ago(days, lambda: self.builder.commit({"add": add}, operation="RESTORE"))

    def clone(self, days: float, *paths: str, noted: bool = True) -> Scene:
        """A shallow clone that names these files, and their vectors, by absolute address."""
        clone = Scene("deletionVectors")
        adds = [self.absolute(self.builder.find(path)) for path in paths]
        actions = [{"add": add} for add in adds]
        clone.ago(days, lambda: clone.builder.commit(*actions, operation="CLONE"))
        if noted:
            note = self.note_of(clone, days)
            self.ago(days, lambda: write_note(self.store, note))
        return clone

    def note_of(self, clone: Scene, days: float) -> CloneNote:
        metadata = clone.builder.state.metadata
        assert metadata is not None
        noted_ms = NOW - int(days * DAY)
        return CloneNote(clone.store.uri, self.builder.version, noted_ms, metadata["id"])

    def absolute(self, add: Action) -> Action:
        """The same file, as a shallow clone names it."""
        found = {**add, "path": f"{self.store.uri}/{add['path']}"}
        vector = add.get("deletionVector")
        if vector is not None:
            (name,) = vector_names(self, vector) & self.names()
            place = {"storageType": "p", "pathOrInlineDv": f"{self.store.uri}/{name}"}
            found["deletionVector"] = {**vector, **place}
        return found

    def names(self) -> set[str]:
        """All files but those of the log and of deltactl itself."""
        return {
            name for name in self.store.contents() if not name.startswith((f"{LOG}/", "_deltactl/"))
        }

    def dated(self, behind_ms: int = 0) -> DatedStore:
        return DatedStore(self.store, self.clock, behind_ms)

    def vacuum(
        self,
        store: Store | None = None,
        *,
        dry_run: bool = False,
        orphans: Orphans = "all",
        **options: Any,
    ) -> VacuumReport:
        store = store or self.dated()
        fixed = {"mode": "full", "max_orphan_fraction": 1.0}
        settings: dict[str, Any] = {**fixed, **options}
        with opened_as(store):
            log, chosen = DeltaLog(store, ignore_warning), VacuumOptions(**settings)
            return vacuum_table(log, chosen, self.context(), orphans=orphans, dry_run=dry_run)

    def context(self) -> RunContext:
        return RunContext(
            warn=self.said.append,
            engine=LocalEngine(workers=1),
            clock=self.clock,
            sleep=lambda seconds: None,
        )

    def plan(self, **options: Any) -> dict[str, str]:
        """Names that would go, with the reason of each."""
        files = self.vacuum(dry_run=True, **options).plan.files.to_pylist()
        return {row["path"]: row["reason"] for row in files}

    def needed(self, version: int) -> set[str]:
        """Data files and deletion vectors of a version, by names under the root."""
        found = set()
        for add in self.builder.state_at(version).files.values():
            found.add(decoded(add["path"]))
            vector = add.get("deletionVector")
            if vector is not None:
                found |= {name for name in self.names() if name in vector_names(self, vector)}
        return found

    def live_rows(self) -> Any:
        from deltactl.table import Table

        rows = Table(self.store.uri, store=self.store).scan().read_all().to_pylist()
        return sorted(map(canonical, rows))


def decoded(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path)


def vector_names(scene: Scene, vector: dict[str, Any]) -> set[str]:
    """The name of a vector's file, worked out without the code under test."""
    if vector["storageType"] == "i":
        return set()
    text = vector["pathOrInlineDv"]
    if vector["storageType"] == "p":
        return {text.removeprefix(f"{scene.store.uri}/")}
    return {f"deletion_vector_{uuid.UUID(bytes=from_z85(text[-20:]))}.bin"}


__all__ = ["DAY", "HOUR", "NOW", "DatedStore", "Scene", "commit_path", "vector_names"]
