"""List the files under the root by walking the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.names import TABLE_MARKERS
from deltactl.protocol.vacuum_names import HiddenRule, foreign_roots
from deltactl.storage.store import Store

_STAT_NAMES = 16_384

FACTS = pa.schema([("path", pa.string()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64())])
"""A stored file: name under the root, bytes, modification time (ms since 1970)."""


@dataclass(slots=True)
class Listing:
    """Names of files and directories under the root; the table's hidden directories are skipped.

    ``non_utf8`` counts names that are not UTF-8, which no log can contain.
    """

    files: pa.ChunkedArray
    directories: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    non_utf8: int = 0


def list_files(store: Store, hidden: HiddenRule) -> Listing:
    """List all names that a vacuum may consider.

    Raises:
        StorageError: a directory cannot be listed.
    """

    def enter(directory: str) -> bool:
        return not hidden.hides_part(directory.rpartition("/")[2])

    listing = Listing(pa.chunked_array([], pa.string()))
    chunks: list[pa.Array] = []
    for part in store.walk_tree(enter):
        chunks.append(_to_array(part.files, listing))
        listing.directories += _only_utf8(part.directories, listing)
        listing.links += _only_utf8(part.links, listing)
    listing.files = pa.chunked_array(chunks, pa.string())
    return listing


def _to_array(names: list[str], listing: Listing) -> pa.Array:
    try:
        return pa.array(names, pa.string())
    except UnicodeEncodeError:
        return pa.array(_only_utf8(names, listing), pa.string())


def _only_utf8(names: Iterable[str], listing: Listing) -> list[str]:
    kept = []
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            listing.non_utf8 += 1
        else:
            kept.append(name)
    return kept


def stat_files(store: Store, names: pa.ChunkedArray) -> pa.Table:
    """Return the facts of existing files, columns of :data:`FACTS`."""
    tables = [FACTS.empty_table()]
    for start in range(0, len(names), _STAT_NAMES):
        found = store.stat_many(names.slice(start, _STAT_NAMES).to_pylist())
        present = [info for info in found if info is not None]
        columns = [
            pa.array([info.name for info in present], pa.string()),
            pa.array([info.size_bytes for info in present], pa.int64()),
            pa.array([info.modified_ms for info in present], pa.int64()),
        ]
        tables.append(pa.table(columns, schema=FACTS))
    return pa.concat_tables(tables)


def parent_directories(names: pa.ChunkedArray) -> set[str]:
    """Return all directories that contain one of the files, directly or deeper."""
    parents = pc.unique(pc.replace_substring_regex(names, r"/?[^/]*$", "")).to_pylist()
    found: set[str] = set()
    for deepest in parents:
        parent = deepest
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def find_tables(store: Store, directories: Iterable[str], *, iceberg: bool) -> set[str]:
    """Return the directories with another table, found by requests instead of a listing."""
    markers = [
        f"{directory}/{marker}" for directory in sorted(directories) for marker in TABLE_MARKERS
    ]
    found = [info.name for info in store.stat_many(markers) if info is not None]
    return foreign_roots(pa.chunked_array([pa.array(found, pa.string())]), (), iceberg=iceberg)


def find_links(store: Store, directories: Iterable[str]) -> set[str]:
    """Return the directories behind links, and the link targets under the root."""
    ordered = sorted(directories)
    pairs = zip(ordered, store.real_names(ordered), strict=True)
    return {name for pair in pairs if pair[0] != pair[1] for name in pair if name is not None}


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
