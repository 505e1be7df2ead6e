"""Decide which unneeded files may be removed, and why others are kept.

Names that no vacuum lists or deletes are in ``protocol/vacuum_names``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError, StorageError
from deltactl.log.commits.events import CommitScan
from deltactl.log.physical_names import possible_names
from deltactl.log.snapshot import Snapshot
from deltactl.operations.stored_files import FACTS, Listing, stat_files
from deltactl.option_names import option
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.names import MANIFEST_DIR, TABLE_MARKERS
from deltactl.protocol.path_columns import parent_directories
from deltactl.protocol.paths import is_absolute
from deltactl.protocol.vacuum_names import (
    HiddenRule,
    below_mask,
    change_data_mask,
    foreign_roots,
    vector_mask,
    writer_mask,
)
from deltactl.storage.names import is_absolute_name
from deltactl.storage.store import Store

REASONS = ("tombstone", "orphan", "deletion vector", "change data")
TOMBSTONE, ORPHAN, DELETION_VECTOR, CHANGE_DATA = REASONS

CANDIDATES = FACTS.append(pa.field("reason", pa.string()))
"""A removable file: name, bytes, modification time (ms), and one of ``REASONS``."""

HIDDEN = "hidden name"
YOUNG = "newer than the cutoff"
UNKNOWN = "not in the log, and not named by a Delta writer"
CONVERTED = "not in the log, in the directory of a converted table"
UNATTENDED = "not in the log, and this run is unattended"
DOUBTFUL = "not in the log, and a commit may be damaged"
INCOMPLETE = "not in the log, and commits are missing in it"
FOREIGN = "another table's"
REWRITTEN = "written again after a commit removed it, perhaps by another program"
LEASED = "perhaps of a run that holds a lease"
RESTORED = "brought back by an undo inside the retention"
LINKED = "reached by a symbolic link"
MANIFEST = "listed in a symlink manifest"
WAITING = "past the retention by this machine's clock only"
UNNAMED = (UNKNOWN, CONVERTED, UNATTENDED, DOUBTFUL, INCOMPLETE)
# Files in the log that are kept for these reasons must be considered again by a later run.
_HOLDS_BACK = (YOUNG, LEASED, RESTORED, FOREIGN, LINKED, MANIFEST)


@dataclass(slots=True)
class Sorting:
    """Why each file of a listing with facts is kept, filled by a plan.

    ``roles`` has a role, or null, for each file; ``dropped`` has by reason the positions of
    unneeded files that are kept, and whether the log has them. Other unneeded files are removable;
    ``removable`` has a row for each reason. ``foreign`` are directories of other tables.
    """

    roles: pa.Array = field(default_factory=lambda: pa.nulls(0, pa.string()))
    dropped: list[tuple[str, pa.ChunkedArray, pa.ChunkedArray]] = field(default_factory=list)
    removable: Sequence[dict[str, Any]] = ()
    foreign: frozenset[str] = frozenset()


@dataclass(slots=True)
class Filters:
    """Select removable names; ``kept`` counts by reason the unneeded files that are kept.

    ``held_back`` counts those of them that are in actions of the log.
    ``changes``: names of change data files in the log.
    ``spared``: why no other files are removed, even those with names of Delta writers, if so.
    ``foreign``: directories of other tables; ``linked``: targets of links; ``absent``: names of
    files that do not exist. ``removed``, in a converted table, reads the names in remove actions
    that no Delta writer gives: with the last time of a removal, and the size if all actions have
    the same. ``runs``: ids of the runs that hold a lease, which began at or after
    ``runs_since_ms``. ``restored``: names that undone runs brought back. ``young_ms``: the times of
    files that were modified at or after the cutoff. ``find_targets`` gets the files that are left,
    and returns names of links in the log and of their targets. ``sorting`` receives the files that
    are kept, if they have positions.
    """

    store: Store
    hidden: HiddenRule
    cutoff_ms: int
    include_unknown: bool
    ignore_manifests: bool
    changes: pa.ChunkedArray
    removed: Callable[[], pa.Table] | None
    spared: str | None = None
    runs: Sequence[str] = ()
    runs_since_ms: int | None = None
    restored: Sequence[pa.ChunkedArray] = ()
    young_ms: pa.ChunkedArray = field(default_factory=lambda: pa.chunked_array([], pa.int64()))
    foreign: frozenset[str] = frozenset()
    linked: frozenset[str] = frozenset()
    kept: Counter[str] = field(default_factory=Counter)
    held_back: int = 0
    absent: pa.ChunkedArray = field(default_factory=lambda: pa.chunked_array([], pa.string()))
    find_targets: Callable[[pa.Table], set[str]] | None = None
    sorting: Sorting | None = None

    def select(self, files: pa.Table) -> pa.Table:
        """Return the removable ones of unneeded files, as rows of :data:`CANDIDATES`.

        ``files`` has the columns ``path`` and ``is_named``, whether an action of the log has it,
        and perhaps those of :data:`FACTS`; without facts, they are requested.
        """
        files = self._drop(files, self.hidden.mask(files["path"]), HIDDEN)
        files = self._drop_other(files)
        if not self.include_unknown:
            files = self._drop_unnamed(files)
        for run_id in self.runs:
            files = self._drop(files, pc.match_substring(files["path"], f"-{run_id}-"), LEASED)
        if "size_bytes" not in files.column_names:
            facts = stat_files(self.store, files["path"])
            exists = pc.is_in(files["path"], value_set=facts["path"])
            self.absent = files["path"].filter(pc.invert(exists))
            files = facts.append_column("is_named", files["is_named"].filter(exists))
        is_young = pc.greater_equal(files["modified_ms"], self.cutoff_ms)
        self.young_ms = files["modified_ms"].filter(is_young)
        files = self._drop(files, is_young, YOUNG)
        if self.removed is not None:
            files = self._drop(files, _find_rewritten(files, self.removed), REWRITTEN)
        if self.runs_since_ms is not None:
            new = pc.greater_equal(files["modified_ms"], self.runs_since_ms)
            files = self._drop(files, new, LEASED)
        for names in self.restored:
            files = self._drop(files, pc.is_in(files["path"], value_set=names), RESTORED)
        files = self._drop_manifest_names(files)
        if self.find_targets is not None and files.num_rows:
            targets = pa.array(sorted(self.find_targets(files)), pa.string())
            files = self._drop(files, pc.is_in(files["path"], value_set=targets), LINKED)
        reasons = self._reasons(files)
        return files.select(FACTS.names).append_column("reason", reasons).cast(CANDIDATES)

    def _drop_other(self, files: pa.Table) -> pa.Table:
        """Drop files of other tables, and files that links lead to."""
        names = files["path"]
        # A file in the log of this table belongs to it, even if the root has the log of another
        # table.
        foreign = below_mask(names, self.foreign - {""})
        if "" in self.foreign:
            foreign = pc.or_(foreign, pc.invert(files["is_named"]))
        files = self._drop(files, foreign, FOREIGN)
        names = files["path"]
        targets = pa.array(sorted(self.linked), pa.string())
        linked = pc.or_(below_mask(names, self.linked), pc.is_in(names, value_set=targets))
        return self._drop(files, linked, LINKED)

    def _drop_unnamed(self, files: pa.Table) -> pa.Table:
        unnamed = pc.invert(files["is_named"])
        files = self._drop(files, pc.and_(unnamed, pc.invert(writer_mask(files["path"]))), UNKNOWN)
        if self.spared is None:
            return files
        return self._drop(files, pc.invert(files["is_named"]), self.spared)

    def _drop(self, files: pa.Table, mask: pa.ChunkedArray, why: str) -> pa.Table:
        count = _count(mask)
        if not count:
            return files
        self.kept[why] += count
        is_named = files["is_named"].filter(mask)
        if why in _HOLDS_BACK:
            self.held_back += _count(is_named)
        if self.sorting is not None and "position" in files.column_names:
            self.sorting.dropped.append((why, files["position"].filter(mask), is_named))
        return files.filter(pc.invert(mask))

    def _drop_manifest_names(self, files: pa.Table) -> pa.Table:
        if self.ignore_manifests or not files.num_rows:
            return files
        mask = pc.is_in(files["path"], value_set=_read_manifest_names(self.store))
        return self._drop(files, mask, MANIFEST)

    def _reasons(self, files: pa.Table) -> pa.ChunkedArray:
        names = files["path"]
        by_log = pc.if_else(files["is_named"], TOMBSTONE, ORPHAN)
        # With column mapping, Delta on Spark writes change data to directories of data files.
        is_change = pc.or_(change_data_mask(names), pc.is_in(names, value_set=self.changes))
        is_vector = pc.and_(files["is_named"], vector_mask(names))
        return pc.if_else(is_vector, DELETION_VECTOR, pc.if_else(is_change, CHANGE_DATA, by_log))


def _find_rewritten(files: pa.Table, read_removed: Callable[[], pa.Table]) -> pa.ChunkedArray:
    """Return which files are other ones than those that commits removed under their names.

    Other programs write again to fixed names, such as ``data_0.parquet``.
    """
    strange = pc.and_(files["is_named"], pc.invert(writer_mask(files["path"])))
    if not _count(strange):
        return strange
    known = read_removed()
    removed = known.take(pc.index_in(files["path"], value_set=known["path"]))
    is_later = pc.greater(files["modified_ms"], removed["deletion_timestamp_ms"])
    is_other = pc.not_equal(files["size_bytes"], removed["size_bytes"])
    return pc.or_(pc.fill_null(is_later, False), pc.fill_null(is_other, False))


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _read_manifest_names(store: Store) -> pa.ChunkedArray:
    """Return names under the root that symlink manifests list, escaped or not."""
    if store.real_names([MANIFEST_DIR]) != [MANIFEST_DIR]:
        raise SafetyError(
            f"{MANIFEST_DIR} is a link: the files that its manifests list are unknown",
            hint="Replace the link by a directory, or rerun with "
            f"{option('ignore_manifests', True)}.",
        )
    manifests = [
        name
        for batch in store.walk(MANIFEST_DIR)
        for name in batch
        if not name.rpartition("/")[2].startswith(".")
    ]
    contents = store.read_many(manifests)
    names = [names for data in contents for names in _locate_lines(store, data)]
    return pa.chunked_array(names, pa.string())


def _locate_lines(store: Store, data: bytes) -> Iterator[pa.Array]:
    """Yield the names that the lines of a manifest may mean: writers escape them or not.

    A line that is not below the root may be another address of a file below it, as with another
    scheme.
    """
    # Readers end a line at the same bytes. In a text, U+2028 and others would end a line, too.
    lines = {line.decode("utf-8", "replace") for line in data.splitlines()}
    lines |= {line.strip() for line in lines}
    texts = sorted((lines | {unquote(line) for line in lines}) - {""})
    names = [_locate_line(store, text) for text in texts]
    yield pa.array([name for name in names if name], pa.string())
    outside = [text for text, name in zip(texts, names, strict=True) if name is None]
    for ends in possible_names(pa.array(outside, pa.string())):
        yield from ends.chunks


def _locate_line(store: Store, line: str) -> str | None:
    if is_absolute(line) and not is_absolute_name(line):
        return None  # a scheme that no store has
    try:
        return store.real_names([line])[0]
    except StorageError:
        return None  # the scheme of another store


def find_tables(store: Store, directories: Iterable[str], *, iceberg: bool) -> set[str]:
    """Return the directories with another table, found by requests instead of a listing."""
    markers = [
        f"{directory}/{marker}" for directory in sorted(directories) for marker in TABLE_MARKERS
    ]
    found = [info.name for info in store.stat_many(markers) if info is not None]
    return foreign_roots(pa.chunked_array([pa.array(found, pa.string())]), (), iceberg=iceberg)


def find_links(store: Store, names: Iterable[str]) -> set[str]:
    """Return the names that are links or behind links, and the link targets under the root."""
    ordered = sorted(names)
    pairs = zip(ordered, store.real_names(ordered), strict=True)
    return {name for pair in pairs if pair[0] != pair[1] for name in pair if name is not None}


def find_link_targets(snapshot: Snapshot, scan: CommitScan, files: pa.Table) -> set[str]:
    """Return links in the log and the names to which they lead, without a listing.

    A link has the size of its target. So only files with the sizes of ``files`` are looked up, and
    files with deletion vectors, whose sizes are not in the log.
    """
    sizes, events = pc.unique(files["size_bytes"]), scan.events
    names = [events["path"].filter(pc.is_in(events["size_bytes"], value_set=sizes))]
    names.append(events["vector_file"].drop_null())
    for batch in snapshot.file_batches(["path", "size_bytes", "deletion_vector"]):
        names.append(batch["path"].filter(pc.is_in(batch["size_bytes"], value_set=sizes)))
        names.append(vector_files(batch["deletion_vector"]).drop_null())
    known = pc.unique(pa.chunked_array([chunk for part in names for chunk in part.chunks]))
    return follow_links(snapshot.store, known)


def follow_links(store: Store, names: pa.Array | pa.ChunkedArray) -> set[str]:
    """Return the links among names in the log, and their targets under the root.

    Absolute names, perhaps on other storage, are left out.
    """
    return find_links(store, [it for it in names.to_pylist() if not is_absolute_name(it)])


def empty_directories(listing: Listing, kept: pa.ChunkedArray, hidden: HiddenRule) -> list[str]:
    """Return the directories with no file at any depth, if only ``kept`` files remain.

    Deepest first. Hidden files and directories count as kept.
    """
    occupied = parent_directories(kept)
    concealed = [f for f in listing.directories if hidden.hides_part(f.rpartition("/")[2])]
    others = pa.chunked_array([pa.array([*listing.links, *concealed], pa.string())])
    occupied |= parent_directories(others) | set(concealed)
    empty = [directory for directory in listing.directories if directory not in occupied]
    return sorted(empty, key=lambda directory: (-directory.count("/"), directory))
