"""Small tables with a past, as they lie there before anybody is at work."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.explorer import naive
from tests.explorer.invariants import Promise
from tests.explorer.programs import program_id
from tests.explorer.sim_catalog import StagedCommit, encode_known
from tests.explorer.world import CATALOG, Entry, Worlds
from tests.support.stores import fresh_store
from tests.support.table_builder import (
    START_MS,
    Action,
    Column,
    TableBuilder,
    commit_path,
    encode_lines,
)

DAY = 24 * 3_600_000
NOW = START_MS + 1000 * DAY
COLUMNS = (Column("id"), Column("v"), Column("p", "string"))


@dataclass(frozen=True)
class Scene:
    """A table. ``adds`` are the live files by a name of ours, as the log has them."""

    files: Mapping[str, tuple[bytes, int]]
    adds: Mapping[str, Action]
    schema: Action
    promise: Promise
    version: int

    def stored_in(self, worlds: Worlds) -> dict[str, Entry]:
        files = {name: Entry(worlds.keep(data), ms) for name, (data, ms) in self.files.items()}
        return {**files, **(self._staged(worlds) if worlds.rules.has_catalog else {})}

    def _staged(self, worlds: Worlds) -> dict[str, Entry]:
        """A next version that changes nothing, and is not published yet; and the catalog."""
        data, ms = self.files[commit_path(self.version)]
        (info,) = (it["commitInfo"] for it in naive.parse_lines(data) if "commitInfo" in it)
        info = {**info, "inCommitTimestamp": info["inCommitTimestamp"] + 1}
        version, content = self.version + 1, encode_lines([{"commitInfo": info}])
        staged = StagedCommit(version, f"{version:020d}.{program_id(-1, 0)}.json", len(content), ms)
        known = encode_known(self.version, staged)
        return {
            staged.info.name: Entry(worlds.keep(content), ms),
            CATALOG: Entry(worlds.keep(known), ms),
        }


class _Past:
    """Builds a table event by event, each so many days ago."""

    def __init__(self, *features: str, **properties: str) -> None:
        self.store = fresh_store()
        self._ids = itertools.count(1)
        self.builder: TableBuilder
        self.ago(100, lambda: self._create(features, properties))

    def _create(self, features: tuple[str, ...], properties: Mapping[str, str]) -> None:
        self.builder = TableBuilder(
            self.store, COLUMNS, partition_by=["p"], features=features, properties=properties
        )

    def ago(self, days: int, act: Callable[[], Any]) -> Any:
        before = set(self.store.contents())
        if hasattr(self, "builder"):
            self.builder._now_ms = NOW - days * DAY
        result = act()
        for name in set(self.store.contents()) - before:
            self.store.set_modified(name, NOW - days * DAY)
        return result

    def append(self, days: int, *partitions: str) -> list[str]:
        """One commit with a file of two rows in each of the partitions."""
        files = [[self._row(p), self._row(p)] for p in partitions]
        paths: list[str] = self.ago(days, lambda: self.builder.append(*files))
        return paths

    def _row(self, p: str) -> dict[str, Any]:
        number = next(self._ids)
        return {"id": number, "v": 1000 - number, "p": p}

    def scene(self, promise: Promise, **named: str) -> Scene:
        infos = {name: self.store.stat_many([name])[0] for name in self.store.contents()}
        return Scene(
            files={
                name: (self.store.read(name), info.modified_ms)
                for name, info in infos.items()
                if info is not None
            },
            adds={ours: self.builder.find(path) for ours, path in named.items()},
            schema=dict(self.builder.state.metadata or {}),
            promise=promise,
            version=self.builder.version,
        )


def small_files(*features: str, **properties: str) -> Scene:
    """Partition a: ``first``, of whose rows one is deleted, and ``second``; b: ``other``.

    A file that was removed long ago and one that nobody names are due for a vacuum.
    """
    past = _Past("deletionVectors", *features, **properties)
    first, second, gone, other = past.append(60, "a", "a", "a", "b")
    past.ago(50, lambda: past.builder.delete_rows(first, [0]))
    past.ago(40, lambda: past.builder.remove(gone))
    past.ago(30, lambda: past.store.put("p=a/part-left.parquet", b"left over"))
    promise = Promise(0, past.builder.version, NOW - 7 * DAY, frozenset({"p=a/part-left.parquet"}))
    return past.scene(promise, first=first, second=second, other=other)


def one_back(*features: str) -> Scene:
    """A file and a deletion vector that version 2 needs, and that are not due for a vacuum yet.

    A file that nobody names is due.
    """
    past = _Past("deletionVectors", *features)
    first, second, other = past.append(60, "a", "a", "b")
    past.ago(50, lambda: past.builder.delete_rows(first, [0]))
    past.ago(3, lambda: past.builder.remove(second))
    past.ago(2, lambda: past.builder.delete_rows(first, [1]))
    past.ago(30, lambda: past.store.put("p=a/part-left.parquet", b"left over"))
    promise = Promise(0, past.builder.version, NOW - 7 * DAY, frozenset({"p=a/part-left.parquet"}))
    return past.scene(promise, first=first, other=other)


def one_due(*features: str) -> Scene:
    """One live file with a deletion vector, and one that was removed long ago."""
    past = _Past("deletionVectors", *features)
    first, gone = past.append(60, "a", "a")
    past.ago(50, lambda: past.builder.delete_rows(first, [0]))
    past.ago(40, lambda: past.builder.remove(gone))
    promise = Promise(0, past.builder.version, NOW - 7 * DAY)
    return past.scene(promise, first=first)


def two_bins(*features: str) -> Scene:
    """Two files in each of the partitions a and b: two bins, and so two batches."""
    past = _Past("deletionVectors", *features)
    first, second, third, fourth = past.append(60, "a", "a", "b", "b")
    promise = Promise(0, past.builder.version, NOW - 7 * DAY)
    return past.scene(promise, first=first, second=second, third=third, other=fourth)


def lost_file(*features: str) -> Scene:
    """Version 1, of which a file was lost."""
    past = _Past(*features)
    lost, other = past.append(60, "a", "b")
    past.store.delete_many([lost])
    promise = Promise(0, past.builder.version, NOW - 7 * DAY, lost=frozenset({lost}))
    return past.scene(promise, other=other)


def old_log(*features: str) -> Scene:
    """Versions of long ago without a checkpoint: one of them all makes all commits superfluous."""
    past = _Past("deletionVectors", *features)
    first, second, other = past.append(90, "a", "a", "b")
    past.ago(70, lambda: past.builder.delete_rows(first, [0]))
    past.append(60, "c")
    version = past.builder.version
    promise = Promise(version, version, NOW - 7 * DAY)
    return past.scene(promise, first=first, second=second, other=other)


def long_log(*features: str) -> Scene:
    """Checkpoints with sidecars at versions 1 and 3, 80 and 60 days old; five versions.

    Log cleanup keeps what was current 30 days ago: version 4, and so the checkpoint at 3.
    """
    past = _Past("deletionVectors", "v2Checkpoint", *features)
    first, second, gone, other = past.append(90, "a", "a", "a", "b")
    past.ago(80, lambda: past.builder.checkpoint(1, "v2-json", parts=1))
    past.ago(70, lambda: past.builder.delete_rows(first, [0]))
    past.ago(65, lambda: past.builder.remove(gone))
    past.ago(60, lambda: past.builder.checkpoint(3, "v2-json", parts=1))
    past.ago(60, lambda: past.builder.hint(3))
    past.append(40, "c")
    past.append(10, "c")
    promise = Promise(4, past.builder.version, NOW - 7 * DAY)
    return past.scene(promise, first=first, second=second, other=other)


def short_log(*features: str) -> Scene:
    """What log cleanup may meet, each once: a commit, a checkpoint and a sidecar that are due.

    Version 3 was current 30 days ago, and stands on the checkpoint at 2. A file removed long ago is
    due for a vacuum.
    """
    past = _Past("deletionVectors", "v2Checkpoint", *features)
    first, second, gone = past.append(90, "a", "a", "a")
    past.ago(80, lambda: past.builder.checkpoint(1, "v2-json", parts=1))
    past.builder.forget_commits(1)
    _delete_and_checkpoint(past, first, gone)
    past.append(40, "c")
    past.append(10, "c")
    promise = Promise(3, past.builder.version, NOW - 7 * DAY)
    return past.scene(promise, first=first, second=second)


def quiet_log(*features: str) -> Scene:
    """The same later, and nothing since: a checkpoint makes due the one that everybody reads."""
    past = _Past("deletionVectors", "v2Checkpoint", *features)
    first, second, gone = past.append(90, "a", "a", "a")
    _delete_and_checkpoint(past, first, gone)
    past.builder.forget_commits(2)
    past.append(40, "c")
    # The tombstone goes with the checkpoint at 2.
    promise = Promise(3, past.builder.version, NOW - 7 * DAY, frozenset({gone}))
    return past.scene(promise, first=first, second=second)


def _delete_and_checkpoint(past: _Past, first: str, gone: str) -> None:
    actions = [*past.builder.delete_actions(first, [0]), past.builder.remove_action(gone)]
    past.ago(65, lambda: past.builder.commit(*actions))
    past.ago(60, lambda: past.builder.checkpoint(2, "v2-json", parts=1))
    past.ago(60, lambda: past.builder.hint(2))
