"""List the files below a table's root, whatever the log says of them, and request their facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from deltactl.protocol.vacuum_names import HiddenRule
from deltactl.storage.names import is_local_uri, is_utf8
from deltactl.storage.store import Store, Tree

FACTS = pa.schema([("path", pa.string()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64())])
"""A stored file: name under the root, bytes, modification time (ms since 1970)."""

_STAT_NAMES = 16_384


@dataclass(slots=True)
class Listing:
    """Names of files and directories under the root; the table's hidden directories are skipped.

    ``unusable`` counts names that no log can contain: not UTF-8, or keys such as ``a//b``.
    ``facts`` has the columns ``size_bytes`` and ``modified_ms`` of the files, if requested.
    ``sizes_bytes`` are those of the files if the listing has them without further requests.
    """

    files: pa.ChunkedArray
    directories: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    unusable: int = 0
    facts: pa.Table | None = None
    sizes_bytes: pa.ChunkedArray | None = None

    def add(self, part: Tree) -> list[list[Any]]:
        """Add the directories and links of ``part``; return the columns of its files' facts."""
        files, directories, links = map(_utf8, (part.files, part.directories, part.links))
        self.directories += directories
        self.links += links
        self.unusable += len(part.files) + len(part.directories) + len(part.links)
        self.unusable += len(part.unaddressable) - len(files) - len(directories) - len(links)
        facts: list[list[Any]] = [part.sizes_bytes, part.modified_ms]
        if len(files) < len(part.files):
            valid = [is_utf8(name) for name in part.files]
            facts = [list(compress(column, valid)) for column in facts]
        return [files, *facts]

    def rows(self) -> pa.Table:
        """Return the files as rows: ``path``; with facts, also these and ``position``."""
        names = pa.table({"path": self.files})
        if self.facts is None:
            return names
        position = pa.array(np.arange(len(self.files), dtype=np.int32))
        facts = {name: self.facts[name] for name in self.facts.column_names}
        return pa.table({"path": self.files, **facts, "position": position})


def list_names(store: Store) -> pa.ChunkedArray:
    """Return the names of all files below the root that a log can contain."""
    return pa.chunked_array([pa.array(_utf8(b), pa.string()) for b in store.walk()], pa.string())


def list_files(store: Store, hidden: HiddenRule) -> Listing:
    """List all names that a vacuum may consider; on object stores also their sizes.

    Raises:
        StorageError: a directory cannot be listed.
    """

    def enter(directory: str) -> bool:
        return not hidden.hides_part(directory.rpartition("/")[2])

    listing = Listing(pa.chunked_array([], pa.string()))
    has_sizes = not is_local_uri(store.uri)  # there, each size would be a request
    names: list[pa.Array] = []
    sizes: list[pa.Array] = []
    for part in store.walk_tree(enter, facts=has_sizes):
        found, sizes_bytes, _ = listing.add(part)
        names.append(pa.array(found, pa.string()))
        sizes.append(pa.array(sizes_bytes, pa.int64()))
    listing.files = pa.chunked_array(names, pa.string())
    listing.sizes_bytes = pa.chunked_array(sizes, pa.int64()) if has_sizes else None
    return listing


def list_facts(store: Store) -> Listing:
    """List all files with their facts, also those that no vacuum may consider.

    Raises:
        StorageError: a directory cannot be listed.
    """
    listing = Listing(pa.chunked_array([], pa.string()))
    chunks = [FACTS.empty_table()]
    for part in store.walk_tree(lambda directory: True, facts=True):
        columns = map(pa.array, listing.add(part), FACTS.types)
        chunks.append(pa.table(list(columns), schema=FACTS))
    facts = pa.concat_tables(chunks)
    listing.files, listing.facts = facts["path"], facts.drop_columns("path")
    return listing


def _utf8(names: list[str]) -> list[str]:
    """Return the names that are valid UTF-8: a log can contain only those."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return [name for name in names if is_utf8(name)]
    return names


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
