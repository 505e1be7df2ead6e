"""The commits that name files by several texts, and who made them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, ignore_warning
from deltactl.log.commits.changes import parse_commits
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.info import parse_commit_info
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.history.columns import as_long, as_text
from deltactl.log.listing import Checkpoint, LogListing
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.log.writing.remove_files import RESTORE
from deltactl.operations.path_encoding.history import Event, LiveText, Miss, Texts, judge
from deltactl.operations.path_encoding.rewrites import StandIns
from deltactl.operations.path_encoding.suspects import SpellingSuspects
from deltactl.protocol.deletion_vectors import unique_ids
from deltactl.protocol.spark_hash import Hashes

_GONE: Final = "the commits that would tell what was meant are gone"
_TOMBSTONES: Final = ("path", "encoded_path", "deletion_vector")


@dataclass(frozen=True, slots=True)
class Writer:
    """Who made a commit, as its ``commitInfo`` has it."""

    version: int | None
    operation: str | None = None
    engine: str | None = None

    def __str__(self) -> str:
        if self.version is None:
            return "a commit that is gone"
        return f"version {self.version}" + (f" ({self.by})" if self.by else "")

    @property
    def by(self) -> str | None:
        """Operation and engine in words; ``None`` where the commit does not say."""
        return " of ".join(text for text in (self.operation, self.engine) if text) or None


class SpellingLog:
    """The commits that name the suspects."""

    def __init__(
        self,
        snapshot: Snapshot,
        listing: LogListing,
        suspects: SpellingSuspects,
        hashes: Hashes,
        skip: frozenset[Checkpoint],
    ) -> None:
        self._snapshot, self._listing = snapshot, listing
        self._suspects, self._hashes = suspects, hashes
        self._events: dict[str, list[Event]] = defaultdict(list)
        self._writers: dict[int, Writer] = {}
        self._restores: dict[int, int | None] = {}
        self._start: dict[str, Texts] = {}
        self._start_version = -1
        self._stand_ins = StandIns()
        first = self._find_first()
        try:
            if first > 0:
                self._begin(self._find_base(first, skip))
            self._read(max(first, self._start_version + 1))
        except CorruptLogError:
            self._give_up()

    def judge(self, name: str) -> dict[str, LiveText]:
        """What is live of a file, and what its writers meant."""
        start = self._start.get(name, {})
        said = judge(self._events.get(name, ()), self._restores, start, self._start_version)
        return {key: self._doubt(it) for key, it in said.items()}

    def writer(self, version: int | None) -> Writer:
        """Who made a commit; as little as is known where it is gone."""
        found = None if version is None else self._writers.get(version)
        return found or Writer(version)

    def _doubt(self, it: LiveText) -> LiveText:
        """Doubt that rows may go which were written anew, where the new files were removed."""
        missed = None if it.miss is None else it.miss.version
        if missed is None or it.doubt is not None or missed not in self._stand_ins.lost:
            return it
        by = self.writer(self._stand_ins.lost[missed])
        return replace(it, doubt=f"{by} removed what version {missed} wrote in its place")

    def _find_first(self) -> int:
        """The oldest commit from which on none is missing up to the version."""
        first = self._snapshot.version + 1
        while first - 1 in self._listing.commits:
            first -= 1
        return first

    def _find_base(self, first: int, skip: frozenset[Checkpoint]) -> Snapshot:
        """The oldest version from which on every commit is there."""
        versions = {
            c.version
            for c in self._listing.checkpoints
            if c not in skip and first - 1 <= c.version <= self._snapshot.version
        }
        if not versions:
            return self._snapshot
        return load_snapshot(
            self._snapshot.store,
            min(versions),
            warn=ignore_warning,
            listing=self._listing,
            skip=skip,
        )

    def _give_up(self) -> None:
        """Leave open what was meant: commits cannot be read."""
        self._events.clear()
        self._restores.clear()
        self._stand_ins = StandIns()
        self._begin(self._snapshot)

    def _begin(self, base: Snapshot) -> None:
        """Take a version for the start: nothing tells what its tombstones were meant for."""
        self._start_version = base.version
        live: dict[str, dict[str, LiveText]] = defaultdict(dict)
        for batch in base.file_batches(_TOMBSTONES):
            for name, add in self._list_events(batch, base.version, is_add=True):
                live[name][add.key] = LiveText(add.key, add.text, add.vector)
        for batch in base.tombstone_batches(_TOMBSTONES):
            for name, remove in self._list_events(batch, base.version, is_add=False):
                texts = live[name]
                if all(it.text != remove.text for it in texts.values()):
                    miss = Miss(None, remove.text)
                    for key, it in texts.items():
                        texts[key] = replace(it, miss=miss, doubt=_GONE)
        self._start = {name: texts for name, texts in live.items() if texts}

    def _read(self, first: int) -> None:
        versions = range(first, self._snapshot.version + 1)
        names = [self._listing.commits[version].name for version in versions]
        contents = self._snapshot.store.read_many(names)
        logs = (CommitBytes(name, data) for name, data in zip(names, contents, strict=True))
        done = first
        for parsed in parse_commits(logs):
            if isinstance(parsed, CorruptLogError):
                raise parsed
            for place, commit in enumerate(parsed.commits):
                self._note_writer(done + place, commit)
            begun = set()
            for files, is_add in ((parsed.adds, True), (parsed.removes, False)):
                for name, event in self._list_events(files, done, is_add=is_add):
                    self._events[name].append(event)
                    if not is_add:
                        begun.add(event.version)
            self._stand_ins.take(parsed, done, begun)
            done += len(parsed.commits)
        for events in self._events.values():
            events.sort(key=lambda event: event.version)

    def _note_writer(self, version: int, commit: CommitBytes) -> None:
        info = parse_commit_info(commit.name, commit.data) or {}
        operation = as_text(info.get("operation"))
        self._writers[version] = Writer(version, operation, as_text(info.get("engineInfo")))
        if operation == RESTORE:
            parameters = info.get("operationParameters")
            target = parameters.get("version") if isinstance(parameters, dict) else None
            self._restores[version] = as_long(target)

    def _list_events(
        self, files: pa.Table, version: int, *, is_add: bool
    ) -> Iterator[tuple[str, Event]]:
        chosen = self._suspects.choose(files, self._hashes)
        if not chosen.num_rows:
            return
        vectors = [unique_ids(chunk) for chunk in chosen["deletion_vector"].chunks]
        columns = (
            chosen["name"],
            file_keys(chosen),
            chosen["encoded_path"],
            pa.chunked_array(vectors, pa.string()),
        )
        places, changes = ([0] * chosen.num_rows, [True] * chosen.num_rows)
        if "commit" in chosen.column_names:
            places = chosen["commit"].to_pylist()
            changes = pc.fill_null(chosen["data_change"], True).to_pylist()
        rows = zip(*(column.to_pylist() for column in columns), places, changes, strict=True)
        for name, key, text, vector, place, change in rows:
            yield name, Event(version + place, is_add, key, text, vector, change)
