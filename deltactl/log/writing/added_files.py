"""Prove that the files that a commit adds exist: before the commit and, if necessary, after it.

Until a commit names a file, a vacuum may delete it: one with a retention shorter than the run, or
one that began before the commit and did not see it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.clock import Clock
from deltactl.errors import CommitDamagedError, FilesGoneError, StorageError, UsageError
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parser import CommitParser
from deltactl.log.find_files import find_files
from deltactl.log.replay import Tail
from deltactl.protocol.actions import Metadata
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store
from deltactl.units import format_count

VACUUM_START: Final = "VACUUM START"

_FRESH_S: Final = 60
_BLOCK_BYTES: Final = 8 << 20
_NAMES_AT_ONCE: Final = 10_000
_SHOWN: Final = 20
_NO_NAMES: Final = pa.chunked_array([], pa.string())


class AddedFiles:
    """The files that a run adds to a table, and when they were last seen."""

    def __init__(self, store: Store, clock: Clock, *, looks_again: bool = True) -> None:
        """Begin before the run writes its first file.

        Args:
            store: the store of the table.
            clock: measures the run.
            looks_again: whether to look for the files after a commit; ``False`` if the caller
                always does this.
        """
        self._store, self._clock, self._looks_again = store, clock, looks_again
        self._began_ms, self._began_s = clock.now_ms(), clock.monotonic()
        self._vacuum_began = False
        self._names = self._seen = _NO_NAMES
        self._seen_s: float | None = None
        self._listed_s: float | None = None

    def listed(self) -> None:
        """Record that the caller has just seen all files that it will add."""
        self._listed_s = self._clock.monotonic()

    def rebase(self, concurrent: Tail) -> None:
        """Take the commits of other writers since the run began."""
        self._vacuum_began = self._vacuum_began or VACUUM_START in concurrent.operations

    def ensure_present(self, name: str, content: bytes, partition_keys: Iterable[str]) -> None:
        """Look for the files that a commit adds, and for their deletion vectors.

        Files that this run saw less than a minute ago are not looked for again.

        ``content`` is the commit; ``partition_keys`` are physical names.

        Raises:
            FilesGoneError: the message has the files.
            CorruptLogError: readers could not read the commit.
        """
        names = self._names = _read_names(name, content, partition_keys)
        if self._is_fresh(self._listed_s) or not len(names):
            return
        if self._is_fresh(self._seen_s):
            names = names.filter(pc.invert(pc.is_in(names, value_set=self._seen)))
        else:
            self._seen, self._seen_s = _NO_NAMES, self._clock.monotonic()
        gone = self._find_gone(names)
        if gone:
            raise FilesGoneError(
                f"nothing was committed: of the files to add to {self._store.uri}, {_list(gone)}",
                hint="Rerun when no vacuum is running: another program deleted files of this run. "
                "If this occurs again, raise delta.deletedFileRetentionDuration above the duration "
                "of this run.",
            )
        self._seen = pa.chunked_array([*self._seen.chunks, *names.chunks], pa.string())

    def ensure_still_present(self, version: int, metadata: Metadata) -> None:
        """Look for the files again after the commit, if a vacuum may have deleted them.

        This is so if a vacuum began since the run began, or if the run took longer than half of the
        table's retention.

        Raises:
            CommitDamagedError: the message has the files, and how to restore the table.
        """
        if not (self._looks_again and len(self._names)):
            return
        if not (self._vacuum_began or self._is_long(metadata)):
            return
        try:
            gone = self._find_gone(self._names)
        except StorageError as error:
            raise CommitDamagedError(
                f"version {version} of {self._store.uri} is committed, but it is not known whether "
                f"the files that it adds still exist: {error.message}",
                hint=f"Run `deltactl check {shlex.quote(self._store.uri)}`.",
            ) from error
        if gone:
            where = shlex.quote(self._store.uri)
            raise CommitDamagedError(
                f"version {version} of {self._store.uri} is committed, but of the files that it "
                f"adds, {_list(gone)}",
                hint=f"Run `deltactl restore {where} --to-version {version - 1}`."
                if version
                else f"Run `deltactl check {where}`, which lists these files. Copy them back, or "
                f"run `deltactl restore {where} --to-version 0 --ignore-missing`, which drops them "
                "from the table.",
            )

    def _is_fresh(self, seen_s: float | None) -> bool:
        return seen_s is not None and self._clock.monotonic() - seen_s < _FRESH_S

    def _is_long(self, metadata: Metadata) -> bool:
        try:
            retention_ms = TableProperties(metadata.configuration).deleted_file_retention_ms
        except UsageError:  # other tools use another value then
            return True
        # A clock that was set back, or that stood still with the machine, must not hide a long run.
        wall_ms = self._clock.now_ms() - self._began_ms
        elapsed_ms = max(wall_ms, (self._clock.monotonic() - self._began_s) * 1000)
        return elapsed_ms >= retention_ms / 2

    def _find_gone(self, names: pa.ChunkedArray) -> list[str]:
        """Return the names that have no file. Names on other kinds of storage count as present."""
        names = names.take(pc.sort_indices(names))  # adjacent names share a page of a listing
        gone: list[str] = []
        for start in range(0, len(names), _NAMES_AT_ONCE):
            part = names.slice(start, _NAMES_AT_ONCE).to_pylist()
            found, _ = find_files(self._store, part)
            gone += [name for name, info in found.items() if info is None]
        return gone


def _read_names(name: str, content: bytes, partition_keys: Iterable[str]) -> pa.ChunkedArray:
    """Return the decoded names of all files that a commit adds, and of their deletion vectors."""
    chunks: list[pa.Array] = []
    for parsed in CommitParser(partition_keys).parse(_blocks(name, content)):
        vectors = vector_files(parsed.adds["deletion_vector"]).drop_null()
        chunks += [*parsed.adds["path"].chunks, vectors.unique()]
    return pa.chunked_array(chunks, pa.string())


def _blocks(name: str, content: bytes) -> Iterator[CommitBytes]:
    """Yield the lines of a commit in parts, so that few of them are parsed at the same time."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + _BLOCK_BYTES) + 1 or len(content)
        yield CommitBytes(name, content[start:end])
        start = end


def _list(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{format_count(len(names), 'file does not', 'files do not')} exist: {shown}{more}"
