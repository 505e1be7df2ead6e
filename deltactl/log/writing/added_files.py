"""Prove that the files that a commit adds exist: before the commit and, if necessary, after it.

Until a commit names a file, a vacuum may delete it: one with a retention shorter than the run, or
one that began before the commit and did not see it.

A commit that moves rows to other files also proves that nobody wrote the old files again since the
run began to read: the new files do not have these rows.

A commit that adds files of other programs also proves that size and time of each file are those of
its ``add``, which the run took before it read the file. A file with the same size cannot be told
apart if it was written again in the same unit of time: on a file system and on GCS in the same
millisecond, on most other stores in the same second.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
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
from deltactl.storage.store import FileInfo, Store
from deltactl.units import format_count

VACUUM_START: Final = "VACUUM START"
VACUUM_END: Final = "VACUUM END"

_FRESH_S: Final = 60
_BLOCK_BYTES: Final = 8 << 20
# So many names are Python strings at the same time.
_NAMES_AT_ONCE: Final = 10_000
_SHOWN: Final = 20
_NO_NAMES: Final = pa.chunked_array([], pa.string())
_FACTS: Final = pa.schema(
    [("name", pa.string()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64())]
)
_NO_FILES: Final = _FACTS.empty_table()


class AddedFiles:
    """The files that a run adds to a table, and when they were last seen."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        looks_again: bool = True,
        dated_ms: int = 0,
        are_old: bool = False,
        are_foreign: bool = False,
    ) -> None:
        """Begin before the run writes its first file.

        Args:
            store: the store of the table.
            clock: measures the run.
            looks_again: whether to look for the files after a commit; ``False`` if the caller
                always does this.
            dated_ms: a time after the last write of the files that the run will read, by the clock
                of the store; 0 if it is not known.
            are_old: whether files to add may be there from before the run, so that a vacuum may
                delete them whatever the table's retention.
            are_foreign: whether other programs wrote the files to add, and so may write them again.
        """
        self._store, self._clock, self._looks_again = store, clock, looks_again
        self._dated_ms, self._are_old, self._are_foreign = dated_ms, are_old, are_foreign
        self._began_ms, self._began_s = clock.now_ms(), clock.monotonic()
        self._vacuum_began = False
        self._added, self._seen = _NO_FILES, _NO_NAMES
        self._seen_s: float | None = None
        self._listed_s: float | None = None

    def listed(self) -> None:
        """Record that the caller has just seen all files that it will add."""
        self._listed_s = self._clock.monotonic()

    def rebase(self, concurrent: Tail) -> None:
        """Take the commits of other writers since the run began.

        What was seen before a vacuum may be gone.
        """
        self._vacuum_began = self._vacuum_began or VACUUM_START in concurrent.operations
        if not concurrent.operations.isdisjoint({VACUUM_START, VACUUM_END}):
            self._seen_s = self._listed_s = None

    def ensure_present(self, name: str, content: bytes, partition_keys: Iterable[str]) -> None:
        """Look for the files that a commit adds, and for their deletion vectors.

        Files that this run saw less than a minute ago are not looked for again. Files that the
        commit replaces are compared if this needs no more requests. Foreign files are always
        looked for and compared.

        ``content`` is the commit; ``partition_keys`` are physical names.

        Raises:
            FilesGoneError: the message has the files that do not exist, or that were written again
                since the run began.
            CorruptLogError: readers could not read the commit.
        """
        self._added, replaced = _read_files(name, content, partition_keys)
        if self._is_fresh(self._listed_s) or not len(self._added):
            return
        files = self._added
        if self._is_fresh(self._seen_s):
            files = files.filter(pc.invert(pc.is_in(files["name"], value_set=self._seen)))
        else:
            # The time before the requests: files are never seen as fresher than they are.
            self._seen, self._seen_s = _NO_NAMES, self._clock.monotonic()
        gone, changed = self._look(files, replaced)
        self._ensure_none(gone, changed)
        if not self._are_foreign:
            self._seen = pa.chunked_array([*self._seen.chunks, *files["name"].chunks], pa.string())

    def _ensure_none(self, gone: list[str], changed: list[str]) -> None:
        if self._are_foreign and (lost := sorted([*gone, *changed])):
            what = _list(
                lost, "file was deleted or written again", "files were deleted or written again"
            )
            raise FilesGoneError(
                f"nothing was committed: while the run read the files of {self._store.uri}, {what}",
                hint="Rerun when no program writes into the directory.",
                changed=changed,
            )
        if gone:
            raise FilesGoneError(
                f"nothing was committed: of the files to add to {self._store.uri}, {_list(gone)}",
                hint="Rerun when no vacuum is running: another program deleted files of this run. "
                "If this occurs again, raise delta.deletedFileRetentionDuration above the duration "
                "of this run.",
            )
        if changed:
            again = _list(changed, "file was written again", "files were written again")
            raise FilesGoneError(
                f"nothing was committed: after the run began to read {self._store.uri}, {again}",
                hint="Rerun when no program writes files of the table again under the same names. "
                "Delta readers and writers rely on files that never change.",
                changed=changed,
            )

    def ensure_still_present(self, version: int, metadata: Metadata) -> None:
        """Look for the files again after the commit, if a vacuum may have deleted them.

        This is so if a vacuum began since the run began, if the run took longer than half of the
        table's retention, or if the files may be older than the run: not every vacuum leaves a
        commit.

        Raises:
            CommitDamagedError: the message has the files, and how to restore the table.
        """
        if not (self._looks_again and len(self._added)):
            return
        if not (self._vacuum_began or self._are_old or self._is_long(metadata)):
            return
        try:
            gone, _ = self._look(self._added)
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

    def _look(
        self, added: pa.Table, replaced: pa.ChunkedArray = _NO_NAMES
    ) -> tuple[list[str], list[str]]:
        """Return the names that have no file, and the files that were written since.

        The latter are replaced files, and foreign files to add. Names on other kinds of storage
        count as present.
        """
        gone: list[str] = []
        changed: list[str] = []
        written_ms: list[int] = []
        later: list[FileInfo] = []
        kinds = [
            it.append_column("is_new", pa.repeat(it is added, len(it)))
            for it in (added, pa.table({"name": replaced}))
        ]
        # Adjacent names share a page of a listing.
        every = pa.concat_tables(kinds, promote_options="default").sort_by("name")
        for start in range(0, every.num_rows, _NAMES_AT_ONCE):
            part = every.slice(start, _NAMES_AT_ONCE)
            files = part.filter(part["is_new"])
            new, old = (
                it["name"].to_pylist() for it in (files, part.filter(pc.invert(part["is_new"])))
            )
            found, _ = find_files(self._store, new, old)
            # A name that is not in `found` is on another kind of storage.
            gone += [name for name in new if found.get(name, ...) is None]
            if self._are_foreign:
                changed += self._find_changed(files, found)
            written_ms += [info.modified_ms for name in new if (info := found.get(name))]
            infos = (found.get(name) for name in old)
            later += [info for info in infos if info and info.modified_ms > self._dated_ms]
        began_ms = self._began_by_store(written_ms) if later else 0
        return gone, changed + [info.name for info in later if info.modified_ms > began_ms]

    def _find_changed(self, files: pa.Table, found: Mapping[str, FileInfo | None]) -> list[str]:
        """Return the names of foreign files that were written again; not those that are gone."""
        there = pa.array([found.get(name) is not None for name in files["name"].to_pylist()])
        changed = _differ(files.filter(there), found)
        # The run looked at each file by itself. A listing may have another unit of time.
        if not (names := changed["name"].to_pylist()):
            return []
        again = dict(zip(names, self._store.stat_many(names), strict=True))
        return list(_differ(changed, again)["name"].to_pylist())

    def _began_by_store(self, written_ms: list[int]) -> int:
        """Return when the run began, by the clock that dates files, or a bit earlier.

        The new files were written since then.
        """
        elapsed_ms = int((self._clock.monotonic() - self._began_s) * 1000)
        earliest = max(written_ms, default=0) - elapsed_ms
        return min([max(self._began_ms, earliest), *written_ms])


def _differ(files: pa.Table, found: Mapping[str, FileInfo | None]) -> pa.Table:
    """Return the files that have another size or time than their ``add``, or are gone."""
    infos = [found.get(name) for name in files["name"].to_pylist()]
    sizes = [info and info.size_bytes for info in infos]
    times = [info and info.modified_ms for info in infos]
    is_same = pc.and_(
        pc.equal(files["size_bytes"], pa.array(sizes, pa.int64())),
        pc.equal(files["modified_ms"], pa.array(times, pa.int64())),
    )
    return files.filter(pc.invert(pc.fill_null(is_same, fill_value=False)))


def _read_files(
    name: str, content: bytes, partition_keys: Iterable[str]
) -> tuple[pa.Table, pa.ChunkedArray]:
    """Return the files that a commit adds, and the decoded names of those that it replaces.

    Deletion vectors are added too; their facts are null. A file is replaced if a ``remove`` says
    that no data changes.
    """
    added = [_NO_FILES]
    replaced: list[pa.Array] = []
    for parsed in CommitParser(partition_keys).parse(_blocks(name, content)):
        adds = parsed.adds.select(["path", "size_bytes", "modification_time_ms"])
        vectors = vector_files(parsed.adds["deletion_vector"]).drop_null().unique()
        added += [adds.rename_columns(_FACTS.names), pa.table({"name": vectors})]
        is_moved = pc.invert(parsed.removes["data_change"])
        replaced += parsed.removes["path"].filter(is_moved).chunks
    every = pa.concat_tables(added, promote_options="default")
    return every, pa.chunked_array(replaced, pa.string())


def _blocks(name: str, content: bytes) -> Iterator[CommitBytes]:
    """Yield the lines of a commit in parts, so that few of them are parsed at the same time."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + _BLOCK_BYTES) + 1 or len(content)
        yield CommitBytes(name, content[start:end])
        start = end


def _list(
    names: list[str], one: str = "file does not exist", many: str = "files do not exist"
) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{format_count(len(names), one, many)}: {shown}{more}"
