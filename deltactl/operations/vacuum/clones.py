"""Find files of this table that other tables reference: noted clones, and given tables.

All files and deletion vectors that the log of such a table still references are kept: live files,
tombstones, and files in its commits and older checkpoints. Each file of its log is read once, as a
stream. If a noted clone cannot be read, the vacuum is refused: it does not assume that the clone
was deleted. Clones of clones reference files of the first table, so the notes in a clone are read
too.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, NotATableError, SafetyError, Warn
from deltactl.log.lifetimes import first_commit, sweep_commits
from deltactl.log.listing import LogListing, list_log
from deltactl.log.rebuildable import find_rebuildable
from deltactl.log.replay import Collect
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.operations.clone_notes import CloneNote, read_notes
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.path_columns import absolute_mask
from deltactl.storage.open import open_store
from deltactl.storage.store import Store

_REFERENCE = ("path", "deletion_vector")


class OtherTables:
    """The tables that use files of this table."""

    def __init__(self, store: Store, storage_options: Mapping[str, str], warn: Warn) -> None:
        """Find files of ``store``; the others are opened with the same options."""
        self._store, self._options, self._warn = store, storage_options, warn

    def names_for(self, addresses: Sequence[str]) -> Iterator[pa.ChunkedArray]:
        """Yield the names under the root that tables at these addresses reference.

        Raises:
            TableError: one of them is not a table, or its log is damaged.
            StorageError: one of them cannot be read.
        """
        for address in addresses:
            other = open_store(address, self._options)
            for columns in self._named_by(other, ""):
                yield self._under_root(columns)

    def names_for_clones(self, notes: Sequence[CloneNote]) -> Iterator[pa.ChunkedArray]:
        """Yield the names under the root that noted clones, and their clones, reference.

        Raises:
            SafetyError: one of them cannot be read, or is now another table.
        """
        waiting, seen = list(notes), {self._store.uri}
        while waiting:
            note = waiting.pop(0)
            if note.clone_uri in seen:
                continue
            seen.add(note.clone_uri)
            try:
                other = open_store(note.clone_uri, self._options)
                for columns in self._named_by(other, note.clone_id):
                    yield self._under_root(columns)
                waiting += read_notes(other)
            except DeltactlError as error:
                _refuse(self._store, note, error)

    def _named_by(self, other: Store, table_id: str) -> Iterator[Sequence[pa.ChunkedArray]]:
        """Yield columns of names, relative or absolute, in any version of another table."""
        listing = list_log(other)
        latest = load_snapshot(other, warn=self._warn, listing=listing, collect=Collect.EVENTS)
        if table_id and latest.metadata.id != table_id:
            raise NotATableError(
                f"{other.uri} now contains another table: its id is {latest.metadata.id}, not "
                f"{table_id}"
            )
        yield from _files_of(latest)
        for batch in latest.tombstone_batches(_REFERENCE):
            yield _names(batch)
        first = first_commit(listing)
        if first > latest.version:
            return
        sweep = sweep_commits(
            other, listing, latest.metadata, first, latest.version, known=latest.tail.sweep
        )
        yield [sweep.events["path"], sweep.events["vector_file"], sweep.change_files["path"]]
        # All files that were live since the version before are in these commits, or are live.
        for version in _older_versions(other, listing, first - 1):
            yield from _files_of(load_snapshot(other, version, warn=self._warn, listing=listing))

    def _under_root(self, columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        found: list[str] = []
        for names in columns:
            absolute = pc.unique(names.filter(absolute_mask(names)))
            located = self._store.real_names(absolute.to_pylist())
            found += [name for name in located if name]
        return pa.chunked_array([pa.array(found, pa.string())])


def _files_of(snapshot: Snapshot) -> Iterator[Sequence[pa.ChunkedArray]]:
    for batch in snapshot.kept_batches(_REFERENCE):
        yield _names(batch)


def _names(files: pa.Table) -> Sequence[pa.ChunkedArray]:
    return [files["path"], vector_files(files["deletion_vector"])]


def _older_versions(store: Store, listing: LogListing, before: int) -> list[int]:
    """Return the versions before ``before`` that can be rebuilt; only a log with gaps has any."""
    versions = {*listing.commits, *(checkpoint.version for checkpoint in listing.checkpoints)}
    older = {version for version in versions if version < before}
    return sorted(find_rebuildable(store, listing, older, frozenset())) if older else []


def _refuse(store: Store, note: CloneNote, error: DeltactlError) -> NoReturn:
    source, clone = shlex.quote(store.uri), shlex.quote(note.clone_uri)
    raise SafetyError(
        f"the shallow clone {note.clone_uri!r} of version {note.source_version} is recorded in "
        f"{note.name}, but the clone cannot be read: {error.message}. So it is unknown which files "
        "the clone uses",
        hint=f"Rerun when the clone can be read. If the clone was deleted or never committed, run"
        f" `deltactl vacuum {source} --forget-clone {clone}`.",
    ) from error
