"""Read the commits that reference a file by several path texts, and replay its actions.

Readers keep an ``add`` live until a ``remove`` with the same text. The writer of a ``remove`` with
another text of the same file compared decoded names: it intended to remove that ``add``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.log.audit.path_texts import PathTextIndex
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import as_long, as_text
from deltactl.log.keyed_hash import wide_hash_names
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_info import RESTORE
from deltactl.numpy_types import Flags, Integers, WideHashes
from deltactl.protocol.deletion_vectors import unique_ids

_GONE: Final = "the commits that show what the writer intended are no longer in the log"
_TOMBSTONES: Final = ("path", "encoded_path", "deletion_vector")

_NO_FILES: Final = np.zeros(0, "S16")
_NO_VERSIONS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a commit, by its ``commitInfo``."""

    version: int | None
    operation: str | None = None
    engine: str | None = None

    def __str__(self) -> str:
        if self.version is None:
            return "a commit that is no longer in the log"
        return f"version {self.version}" + (f" ({self.by})" if self.by else "")

    @property
    def by(self) -> str | None:
        """Return operation and engine; ``None`` if the commit does not contain them."""
        return " of ".join(text for text in (self.operation, self.engine) if text) or None


class PathHistory:
    """The history of the files with several path texts in the log."""

    def __init__(
        self,
        log: DeltaLog,
        snapshot: Snapshot,
        path_texts: PathTextIndex,
        hashes: WideHashes,
        skip: frozenset[Checkpoint],
    ) -> None:
        self._snapshot, self._log = snapshot, log
        self._path_texts, self._hashes = path_texts, hashes
        self._events: dict[str, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
        """Adds and removes by file and version."""
        self._writers: dict[int, Writer] = {}
        self._restores: dict[int, int | None] = {}
        """Versions of RESTORE commits, each with its target version if known."""
        self._start: dict[str, Texts] = {}
        """Live texts at ``_start_version``, before the first event; -1 if the log is complete."""
        self._start_version = -1
        self._rewrites = _RewriteTracker()
        first = self._find_first()
        try:
            if first > 0:
                self._begin(self._find_base(first, skip))
            self._read(max(first, self._start_version + 1))
        except CorruptLogError:
            self._give_up()

    def live_texts(self, name: str) -> dict[str, LiveText]:
        """Return the live texts of a file by key, each with the intent of its writers."""
        start = self._start.get(name, {})
        live, states = dict(start), [(self._start_version, start)]
        by_version = self._events.get(name, {})
        for version in sorted(by_version.keys() | self._restores.keys()):
            _apply(live, by_version.get(version, []), version)
            if version in self._restores:
                _restore(live, version, self._restores[version], states)
            states.append((version, dict(live)))
        return {key: self._add_doubt(it) for key, it in live.items()}

    def writer(self, version: int | None) -> Writer:
        """Return the writer of a commit; only the version if the commit is no longer in the log."""
        found = None if version is None else self._writers.get(version)
        return found or Writer(version)

    def _add_doubt(self, it: LiveText) -> LiveText:
        """Add a doubt if the files that replaced the rows of the text were removed later."""
        version = None if it.unmatched is None else it.unmatched.version
        if version is None or it.doubt is not None or version not in self._rewrites.removed_by:
            return it
        by = self.writer(self._rewrites.removed_by[version])
        return replace(
            it, doubt=f"{by} removed files that version {version} had written to replace this file"
        )

    def _find_first(self) -> int:
        """Return the oldest version from which no commit up to the snapshot's is missing."""
        first = self._snapshot.version + 1
        while first - 1 in self._log.commit_files:
            first -= 1
        return first

    def _find_base(self, first: int, skip: frozenset[Checkpoint]) -> Snapshot:
        """Return the oldest version to start from: every later commit is in the log."""
        versions = {
            c.version
            for c in self._log.checkpoints
            if c not in skip and first - 1 <= c.version <= self._snapshot.version
        }
        if not versions:
            return self._snapshot
        return self._log.without_warnings().snapshot(min(versions), skip=skip)

    def _give_up(self) -> None:
        """Discard all intents, because commits cannot be read."""
        self._events.clear()
        self._restores.clear()
        self._rewrites = _RewriteTracker()
        self._begin(self._snapshot)

    def _begin(self, base: Snapshot) -> None:
        """Start from a version; the intent of its tombstones is not known."""
        self._start_version = base.version
        live: dict[str, dict[str, LiveText]] = defaultdict(dict)
        for batch in base.file_batches(_TOMBSTONES):
            for name, add in self._list_events(batch, is_add=True):
                live[name][add.key] = LiveText(add.key, add.text, add.vector)
        for batch in base.tombstone_batches(_TOMBSTONES):
            for name, remove in self._list_events(batch, is_add=False):
                texts = live[name]
                if all(it.text != remove.text for it in texts.values()):
                    for key, it in texts.items():
                        texts[key] = replace(it, unmatched=remove, doubt=_GONE)
        self._start = {name: texts for name, texts in live.items() if texts}

    def _read(self, first: int) -> None:
        for parsed in self._log.parsed_commits(range(first, self._snapshot.version + 1)):
            for commit, version in zip(parsed.commits, parsed.versions, strict=True):
                self._note_writer(version, commit)
            tracked = set()
            for files, is_add in ((parsed.adds, True), (parsed.removes, False)):
                for name, event in self._list_events(files, is_add=is_add):
                    assert event.version is not None
                    self._events[name][event.version].append(event)
                    if not is_add:
                        tracked.add(event.version)
            self._rewrites.take(parsed, tracked)

    def _note_writer(self, version: int, commit: CommitBytes) -> None:
        info = commit.info or {}
        operation = as_text(info.get("operation"))
        self._writers[version] = Writer(version, operation, as_text(info.get("engineInfo")))
        if operation == RESTORE:
            parameters = info.get("operationParameters")
            target = None
            if isinstance(parameters, dict) and not parameters.get("predicate"):
                target = as_long(parameters.get("version"))
            self._restores[version] = target

    def _list_events(self, files: pa.Table, *, is_add: bool) -> Iterator[tuple[str, Event]]:
        chosen = self._path_texts.choose(files, self._hashes)
        if not chosen.num_rows:
            return
        vectors = [unique_ids(chunk) for chunk in chosen["deletion_vector"].chunks]
        columns = (
            chosen["name"],
            file_keys(chosen),
            chosen["encoded_path"],
            pa.chunked_array(vectors, pa.string()),
        )
        versions = [None] * chosen.num_rows
        changes = [True] * chosen.num_rows
        if "version" in chosen.column_names:
            versions = chosen["version"].to_pylist()
            changes = pc.fill_null(chosen["data_change"], True).to_pylist()
        rows = zip(*(column.to_pylist() for column in columns), versions, changes, strict=True)
        for name, key, text, vector, version, change in rows:
            yield name, Event(version, is_add, key, text, vector, change)


@dataclass(slots=True)
class _RewriteTracker:
    """Track files added by some commits; ``removed_by`` is the first commit that removed one.

    If a ``remove`` did not match its file, and a later commit removed the files that replaced it,
    the file may have the only copy of its rows.

    A commit with ``dataChange`` false moves rows: the files that it adds replace those that it
    removes. Memory: 24 bytes for each tracked file.
    """

    removed_by: dict[int, int] = field(default_factory=dict)
    _files: WideHashes = field(default_factory=lambda: _NO_FILES)
    _versions: Integers = field(default_factory=lambda: _NO_VERSIONS)

    def take(self, parsed: ParsedCommits, tracked: Set[int]) -> None:
        """Process the next commits, in order.

        The added files of the versions in ``tracked`` are tracked from now on.
        """
        if not (len(self._files) or tracked):
            return
        added, removed = (wide_hash_names(file_keys(t)) for t in (parsed.adds, parsed.removes))
        changes = parsed.removes["data_change"].fill_null(True).to_numpy(zero_copy_only=False)
        for version in parsed.versions:
            adds, removes = _rows_of(parsed.adds, version), _rows_of(parsed.removes, version)
            self._remove(removed[removes], changes[removes], added[adds], version)
            if version in tracked:
                self._track(added[adds], version)

    def _remove(self, removed: WideHashes, changes: Flags, added: WideHashes, version: int) -> None:
        if not (len(removed) and len(self._files)):
            return
        is_removed = np.isin(self._files, removed)
        is_lost = np.isin(self._files, removed[changes.astype(np.bool_)])
        for owner in np.unique(self._versions[is_lost]).tolist():
            self.removed_by.setdefault(owner, version)
        moved = np.unique(self._versions[is_removed & ~is_lost]).tolist()
        self._files, self._versions = self._files[~is_removed], self._versions[~is_removed]
        for owner in moved:
            self._track(added, owner)

    def _track(self, files: WideHashes, version: int) -> None:
        self._files = np.concatenate([self._files, files])
        owners = np.full(len(files), version, np.int64)
        self._versions = np.concatenate([self._versions, owners])


def _rows_of(files: pa.Table, version: int) -> slice:
    """Return the rows of one commit; the rows are sorted by version."""
    first, last = np.searchsorted(files["version"].to_numpy(), [version, version + 1])
    return slice(int(first), int(last))


@dataclass(frozen=True, slots=True)
class Event:
    """An ``add`` or ``remove``: ``key`` is the text that readers compare, ``vector`` the DV id.

    ``version`` is ``None`` if its commit is no longer in the log.
    """

    version: int | None
    is_add: bool
    key: str
    text: str
    vector: str | None
    data_change: bool


@dataclass(frozen=True, slots=True)
class LiveText:
    """A path text under which readers see a live file.

    Attributes:
        key: the text that readers compare.
        text: the path as in the log.
        vector: the id of the deletion vector.
        added: the version that added it.
        unmatched: a ``remove`` that was intended for it, with another text.
        doubt: the reason why the intent may no longer be valid.
        restored: the version of the RESTORE that undid the ``remove``: the file is wanted.
    """

    key: str
    text: str
    vector: str | None
    added: int | None = None
    unmatched: Event | None = None
    doubt: str | None = None
    restored: int | None = None

    @property
    def removal_intended(self) -> bool:
        """Return whether a ``remove`` was intended for it and no known RESTORE undid that."""
        return self.unmatched is not None and self.restored is None


Texts = Mapping[str, LiveText]
"""Live path texts by key."""


def _apply(live: dict[str, LiveText], events: Sequence[Event], version: int) -> None:
    before = dict(live)
    removes = [event for event in events if not event.is_add]
    for event in removes:
        live.pop(event.key, None)
    for event in removes:
        if event.key not in before:
            _apply_unmatched(live, event)
    for event in events:
        if event.is_add:
            # With another deletion vector, its text is the same.
            found = next((it for it in before.values() if it.text == event.text), None)
            added = LiveText(event.key, event.text, event.vector, version)
            if found is not None and found.removal_intended:
                doubt = f"version {version} added the file again with the same path text"
                added = replace(added, unmatched=found.unmatched, doubt=doubt)
            live[event.key] = added


def _apply_unmatched(live: dict[str, LiveText], event: Event) -> None:
    """Record a ``remove`` that removes nothing for readers."""
    if any(it.text == event.text for it in live.values()):
        return  # it names an earlier deletion vector of the same text
    for key, it in live.items():
        doubt = None
        if it.vector != event.vector:
            doubt = f"the remove of version {event.version} refers to another deletion vector"
        live[key] = replace(it, unmatched=event, doubt=doubt, restored=None)


def _restore(
    live: dict[str, LiveText], version: int, target: int | None, states: Sequence[tuple[int, Texts]]
) -> None:
    """Record a RESTORE: files that were wanted at its target version are wanted again."""
    then = _state_at(target, states)
    for key, it in live.items():
        if it.unmatched is None:
            continue
        was = None if then is None else then.get(key)
        is_own = it.unmatched.version == version
        if was is not None and not was.removal_intended and not is_own:
            live[key] = replace(it, doubt=None, restored=version)
        elif not is_own or was is not None:
            back = "an older version" if target is None else f"version {target}"
            doubt = f"a later RESTORE in version {version} set the table back to {back}"
            live[key] = replace(it, doubt=doubt, restored=None)


def _state_at(target: int | None, states: Sequence[tuple[int, Texts]]) -> Texts | None:
    if target is None:
        return None
    return next((texts for version, texts in reversed(states) if version <= target), None)
