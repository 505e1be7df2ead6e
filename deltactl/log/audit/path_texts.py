"""Find files with several path texts in the log, by hashes of their names.

Readers compare paths as texts: a ``remove`` of ``p=%C3%A9/f`` leaves an ``add`` of ``p=é/f`` live.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.file_actions import decoded_names
from deltactl.log.keyed_hash import wide_hash_names
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags, WideHashes
from deltactl.protocol.arrow_schemas import flags_of
from deltactl.protocol.path_columns import absolute_mask, canonical_paths
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import is_local_uri

PATH_COLUMNS: Final = ("path", "encoded_path")
"""Columns of a file action that give its decoded name and its path text."""

# Matches paths that can have more than one text. No writer escapes the characters listed here.
_AMBIGUOUS: Final = r"[^A-Za-z0-9_.=/\-]|^/|//|(?:^|/)\.\.?(?:/|$)"
_EMPTY: Final = np.zeros(0, "S16")


def names_below_root(uri: str, files: pa.Table) -> pa.ChunkedArray:
    """Return the decoded names, one for all texts of a file; relative to the table's root if below.

    ``files`` are rows with ``path`` and ``encoded_path``.
    """
    names = decoded_names(files)
    if not pc.any(absolute_mask(names)).as_py():
        return names
    names = canonical_paths(names, uri.partition(":")[0])
    for root in _roots(uri):
        below = pc.starts_with(names, root)
        names = pc.if_else(below, pc.utf8_slice_codeunits(names, len(root)), names)
    return names


def _roots(uri: str) -> tuple[str, ...]:
    """Return the prefixes that mark an absolute name as below the root of the table."""
    if not is_local_uri(uri):
        name = canonical_paths(pa.array([uri.rstrip("/")]), "")[0].as_py()
        return (f"{name}/",)
    # A writer may have resolved links in the address of the table, or may have kept them.
    path = uri_to_path(uri).rstrip("/")
    return tuple(dict.fromkeys((f"{path}/", f"{os.path.realpath(path)}/")))


def multiple_texts_mask(snapshot: Snapshot, files: pa.Table) -> Flags:
    """Return a mask of live files for which another live file or a tombstone has another path text.

    Tombstones are read only if some path can have another text.

    ``files`` are the live files of the snapshot, with ``path`` and ``encoded_path``.
    """
    if not pc.any(_may_have_several_texts(files)).as_py():
        return np.zeros(files.num_rows, np.bool_)
    path_texts = PathTextIndex(snapshot.store.uri)
    path_texts.take_live(files)
    for batch in snapshot.tombstone_batches(PATH_COLUMNS):
        path_texts.take_removed(batch)
    return path_texts.mask(files, path_texts.find())


def _may_have_several_texts(files: pa.Table) -> pa.ChunkedArray:
    return pc.match_substring_regex(files["encoded_path"], _AMBIGUOUS)


@dataclass(slots=True)
class PathTextIndex:
    """Index live and removed files to find the names that have more than one path text.

    Memory: 16 bytes for each live file and 32 more if its path has escapes; 32 for each ``remove``
    whose path can have several texts.
    """

    uri: str
    _names: list[WideHashes] = field(default_factory=list)
    _texts: list[WideHashes] = field(default_factory=list)
    _removed: list[tuple[WideHashes, WideHashes]] = field(default_factory=list)

    def forget_live(self) -> None:
        """Discard the live files."""
        self._names.clear()
        self._texts.clear()

    def take_live(self, files: pa.Table) -> None:
        """Add live files: ``path`` and ``encoded_path``."""
        names, texts = self._hash(files)
        self._names.append(names)
        self._texts.append(texts)

    def take_removed(self, files: pa.Table) -> None:
        """Add files that commits or a checkpoint remove: ``path`` and ``encoded_path``."""
        may_differ = files.filter(_may_have_several_texts(files))
        if may_differ.num_rows:
            self._removed.append(self._hash(may_differ))

    def find(self) -> WideHashes:
        """Return the hashes of live names that have several texts in the log, ascending."""
        found = []
        names = _join(self._names)
        # A name that is live once has one text, so names and texts need no common sort.
        if self.has_repeated_names():
            found.append(_find_several_texts(names, _join(self._texts)))
        if self._removed:
            removed, texts = (_join([pair[i] for pair in self._removed]) for i in (0, 1))
            is_live = np.isin(removed, names)
            if is_live.any():
                removed, texts = removed[is_live], texts[is_live]
                found.append(removed[~np.isin(texts, _join(self._texts))])
        return np.unique(_join(found))

    def has_repeated_names(self) -> bool:
        """Return whether some name is live more than once, by one text or several."""
        names = _join(self._names)
        return len(np.unique(names)) < len(names)

    def choose(self, files: pa.Table, hashes: WideHashes) -> pa.Table:
        """Return the files whose names have these hashes, with a column ``name``."""
        mask = pa.array(self.mask(files, hashes))
        chosen = files.filter(mask)
        return chosen.append_column("name", names_below_root(self.uri, chosen))

    def mask(self, files: pa.Table, hashes: WideHashes) -> Flags:
        """Return which files have names with these hashes."""
        return np.isin(wide_hash_names(names_below_root(self.uri, files)), hashes)

    def _hash(self, files: pa.Table) -> tuple[WideHashes, WideHashes]:
        names = names_below_root(self.uri, files)
        hashes = wide_hash_names(names)
        # Most texts are equal to the names. They are not hashed twice.
        is_other = flags_of(pc.not_equal(names, files["encoded_path"]))
        if not is_other.any():
            return hashes, hashes
        texts = hashes.copy()
        texts[is_other] = wide_hash_names(files["encoded_path"].filter(pa.array(is_other)))
        return hashes, texts


def _join(parts: list[WideHashes]) -> WideHashes:
    return np.concatenate([_EMPTY, *parts])


def _find_several_texts(names: WideHashes, texts: WideHashes) -> WideHashes:
    """Return the names that occur with more than one text."""
    order = np.lexsort((texts, names))
    names, texts = names[order], texts[order]
    is_same_name, is_same_text = names[1:] == names[:-1], texts[1:] == texts[:-1]
    repeated: WideHashes = names[1:][is_same_name & ~is_same_text]
    return repeated
