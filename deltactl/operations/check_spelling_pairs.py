"""Files that the log names by several texts: what readers return, and what the writers meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, ignore_warning
from deltactl.log.commit_changes import live_rows, parse_commits
from deltactl.log.commit_info import parse_commit_info
from deltactl.log.commit_json import LogFile
from deltactl.log.file_actions import file_keys
from deltactl.log.history_columns import as_long, as_text
from deltactl.log.listing import Checkpoint, LogListing
from deltactl.log.remove_files import RESTORE
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.operations.check_spelling_history import Event, LiveText, Miss, Texts, judge
from deltactl.operations.presence import find_files
from deltactl.operations.spelling_suspects import SpellingSuspects
from deltactl.protocol.deletion_vectors import unique_ids
from deltactl.protocol.spark_hash import Hashes
from deltactl.units import format_count

_GONE: Final = "the commits that would tell what was meant are gone"
_TOMBSTONES: Final = ("path", "encoded_path", "deletion_vector")


class Verdict(StrEnum):
    """What is known of a live text: its rows are to go, are wanted, or nothing tells."""

    REMOVE = "remove"
    UNCERTAIN = "uncertain"
    WANTED = "wanted"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who made a commit, as its ``commitInfo`` has it."""

    version: int | None
    operation: str | None = None
    engine: str | None = None

    def __str__(self) -> str:
        if self.version is None:
            return "a commit that is gone"
        by = " of ".join(text for text in (self.operation, self.engine) if text)
        return f"version {self.version}{by and f' ({by})'}"


@dataclass(frozen=True, slots=True)
class Spelling:
    """A live text of a file that the log also names by ``other``.

    ``row`` is the place of its add in :attr:`Spellings.files`. ``removed`` is whose ``remove``
    names the other text; ``None`` where that is live too. ``num_rows`` leaves out deleted rows.
    """

    row: int
    path: str
    text: str
    other: str
    verdict: Verdict
    added: Writer
    removed: Writer | None
    problem: str
    num_rows: int | None
    size_bytes: int
    exists: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """The pair for JSON."""
        return {
            "path": self.path,
            "text": self.text,
            "other_text": self.other,
            "verdict": self.verdict.value,
            "version_added": self.added.version,
            "added_by": _describe(self.added),
            "version_removed": None if self.removed is None else self.removed.version,
            "removed_by": None if self.removed is None else _describe(self.removed),
            "rows": self.num_rows,
            "bytes": self.size_bytes,
            "exists": self.exists,
            "problem": self.problem,
        }


def _describe(writer: Writer) -> str | None:
    return " of ".join(text for text in (writer.operation, writer.engine) if text) or None


@dataclass(frozen=True, slots=True)
class Spellings:
    """All that was found; ``files`` has the live adds of these names and their ``name``."""

    found: tuple[Spelling, ...]
    files: pa.Table = field(repr=False)


def find_spellings(
    snapshot: Snapshot,
    listing: LogListing,
    suspects: SpellingSuspects,
    skip: frozenset[Checkpoint] = frozenset(),
) -> Spellings | None:
    """Look at the names that the suspects leave; ``None`` where there are none.

    Commits are read again only where there are some.

    Args:
        snapshot: the version looked at.
        listing: its log.
        suspects: has taken the live files, and all removes of commits and of the checkpoint.
        skip: checkpoints that cannot be used.
    """
    hashes = suspects.find()
    if not len(hashes):
        return None
    chosen = [suspects.choose(batch, hashes) for batch in snapshot.file_batches()]
    files = pa.concat_tables(chosen).combine_chunks()
    history = _History(snapshot, listing, suspects, hashes, skip)
    found = list(_judge_all(files, history))
    places = [spelling.path for spelling in found]
    there, elsewhere = find_files(snapshot.store, list(dict.fromkeys(places)))
    seen = tuple(
        replace(it, exists=None if it.path in elsewhere else there.get(it.path) is not None)
        for it in found
    )
    return Spellings(seen, files)


class _History:
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
        self.events: dict[str, list[Event]] = defaultdict(list)
        self.writers: dict[int, Writer] = {}
        self.restores: dict[int, int | None] = {}
        self.start: dict[str, Texts] = {}
        self.start_version = -1
        first = self._find_first()
        try:
            if first > 0:
                self._begin(self._find_base(first, skip))
            self._read(max(first, self.start_version + 1))
        except CorruptLogError:
            self._give_up()

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
        self.events.clear()
        self.restores.clear()
        self._begin(self._snapshot)

    def _begin(self, base: Snapshot) -> None:
        """Take a version for the start: nothing tells what its tombstones were meant for."""
        self.start_version = base.version
        live: dict[str, dict[str, LiveText]] = defaultdict(dict)
        for batch in base.file_batches(_TOMBSTONES):
            for name, add in self._events(batch, base.version, is_add=True):
                live[name][add.key] = LiveText(add.key, add.text, add.vector)
        for batch in base.tombstone_batches(_TOMBSTONES):
            for name, remove in self._events(batch, base.version, is_add=False):
                texts = live[name]
                if all(it.text != remove.text for it in texts.values()):
                    miss = Miss(None, remove.text)
                    for key, it in texts.items():
                        texts[key] = replace(it, miss=miss, doubt=_GONE)
        self.start = {name: texts for name, texts in live.items() if texts}

    def _read(self, first: int) -> None:
        versions = range(first, self._snapshot.version + 1)
        names = [self._listing.commits[version].name for version in versions]
        contents = self._snapshot.store.read_many(names)
        logs = (LogFile(name, data) for name, data in zip(names, contents, strict=True))
        done = first
        for parsed in parse_commits(logs):
            if isinstance(parsed, CorruptLogError):
                raise parsed
            for place, commit in enumerate(parsed.commits):
                self._note_writer(done + place, commit)
            for files, is_add in ((parsed.adds, True), (parsed.removes, False)):
                for name, event in self._events(files, done, is_add=is_add):
                    self.events[name].append(event)
            done += len(parsed.commits)
        for events in self.events.values():
            events.sort(key=lambda event: event.version)

    def _note_writer(self, version: int, commit: LogFile) -> None:
        info = parse_commit_info(commit.name, commit.data) or {}
        operation = as_text(info.get("operation"))
        self.writers[version] = Writer(version, operation, as_text(info.get("engineInfo")))
        if operation == RESTORE:
            parameters = info.get("operationParameters")
            target = parameters.get("version") if isinstance(parameters, dict) else None
            self.restores[version] = as_long(target)

    def _events(
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


def _judge_all(files: pa.Table, history: _History) -> Iterator[Spelling]:
    """The texts of each name, in the order of the files."""
    keys, rows = file_keys(files).to_pylist(), live_rows(files).to_pylist()
    by_name: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(files["name"].to_pylist()):
        by_name[name].append(row)
    texts, sizes = files["encoded_path"].to_pylist(), files["size_bytes"].to_pylist()
    for name, places in by_name.items():
        said = judge(
            history.events.get(name, ()),
            history.restores,
            history.start.get(name, {}),
            history.start_version,
        )
        live = {row: said.get(keys[row]) or LiveText(keys[row], texts[row], None) for row in places}
        for row, other, verdict, reason in _decide(live, _Alike(files)):
            it = live[row]
            removed = it.miss if other is None else None
            by = None if removed is None else _writer(history, removed.version)
            yield Spelling(
                row,
                name,
                it.text,
                other.text if other is not None else (removed.text if removed else ""),
                verdict,
                _writer(history, it.added),
                by,
                _explain(it, other, by=by, rows=rows[row], reason=reason, verdict=verdict),
                rows[row],
                sizes[row] or 0,
            )


def _writer(history: _History, version: int | None) -> Writer:
    return history.writers.get(version, Writer(version)) if version is not None else Writer(None)


@dataclass(frozen=True, slots=True)
class _Alike:
    """Tells whether two adds stand for the same rows."""

    files: pa.Table

    def __call__(self, one: int, other: int) -> bool:
        columns = ("partition_values", "size_bytes", "deletion_vector")
        return all(self.files[c][one].as_py() == self.files[c][other].as_py() for c in columns)


Decision = tuple[int, LiveText | None, Verdict, str | None]
"""A row, the live text that stays in its place, what is known, and what makes it doubtful."""


def _decide(live: Mapping[int, LiveText], is_alike: _Alike) -> Iterator[Decision]:
    """Say which live texts of one file are to go: never all of several."""
    kept = _choose_kept(live)
    for row, it in live.items():
        if it.miss is not None and it.restored is not None and len(live) == 1:
            yield row, None, Verdict.WANTED, f"version {it.restored} (RESTORE) brought it back"
        elif it.is_missed and row != kept:
            yield row, None, Verdict.UNCERTAIN if it.doubt else Verdict.REMOVE, it.doubt
        elif it.is_missed:
            doubt = it.doubt if len(live) == 1 else "no other text of the file would be left"
            yield row, None, Verdict.UNCERTAIN if doubt else Verdict.REMOVE, doubt
        elif kept is not None and row != kept and it.text != live[kept].text:
            doubt = None if is_alike(row, kept) else "the two adds do not say the same of the file"
            yield row, live[kept], Verdict.UNCERTAIN if doubt else Verdict.REMOVE, doubt


def _choose_kept(live: Mapping[int, LiveText]) -> int | None:
    """The row that stays where a file is live several times: the newest that nobody removed."""
    if len(live) == 1:
        return next(iter(live))
    return max(
        live,
        key=lambda row: (
            not live[row].is_missed,
            -1 if (added := live[row].added) is None else added,
            live[row].text,
        ),
    )


def _explain(
    it: LiveText,
    other: LiveText | None,
    *,
    by: Writer | None,
    rows: int | None,
    reason: str | None,
    verdict: Verdict,
) -> str:
    count = "its rows" if rows is None else format_count(rows, "row")
    if other is not None:
        said = (
            f"it is live as {it.text!r} and as {other.text!r}: readers return {count} twice; "
            f"the newer add stays"
        )
    else:
        assert it.miss is not None
        twice = "" if it.miss.data_change else ", a second time beside the files that it wrote"
        said = (
            f"{by} removed it as {it.miss.text!r}, but it is live as {it.text!r}: "
            f"readers still return {count}{twice}"
        )
    if verdict is Verdict.UNCERTAIN:
        return f"{said}; whether they are wanted is not known: {reason}"
    return f"{said}; {reason}" if reason else said


def count_rows(found: Sequence[Spelling]) -> int | None:
    """Rows of all of them; ``None`` where one does not say."""
    rows = [it.num_rows for it in found]
    return None if None in rows else sum(it or 0 for it in rows)
