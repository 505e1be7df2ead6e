"""Files that the log names by two texts: readers take them for two files, writers meant one."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.operations.check_keys import hash_names
from deltactl.protocol.paths import (
    absolute_mask,
    canonical_paths,
    decode_paths,
    holds_character,
    normalize_paths,
)
from deltactl.storage.local_uris import uri_to_path
from deltactl.storage.open import is_local_uri

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def two_texts_mask(snapshot: Snapshot, files: pa.Table) -> Flags:
    """Which live files another live file or a tombstone names by another text.

    Tombstones are read only where some text can have another one: it has an escape, a non-ASCII
    character, a ``.`` segment or a doubled slash, or it is absolute.

    Args:
        snapshot: the version.
        files: its live files, with ``encoded_path``.
    """
    texts = files["encoded_path"]
    if not _may_have_others(texts):
        return np.zeros(files.num_rows, np.bool_)
    roots = _roots(snapshot.store.uri)
    names = _file_names(texts, roots)
    name_hashes, text_hashes = np.unique(hash_names(names)), np.unique(hash_names(texts))
    found: list[pa.Array] = []
    if len(name_hashes) < len(text_hashes):
        found += _named_twice(names, texts).chunks
    for batch in snapshot.tombstone_batches(("encoded_path",)):
        removed = batch["encoded_path"]
        removed_names = _file_names(removed, roots)
        is_live = np.isin(hash_names(removed_names), name_hashes)
        is_live &= ~np.isin(hash_names(removed), text_hashes)
        found += removed_names.filter(pa.array(is_live)).chunks
    mask = pc.is_in(names, value_set=pa.chunked_array(found, pa.string()))
    return np.asarray(mask.to_numpy(), np.bool_)


def _may_have_others(texts: pa.ChunkedArray) -> bool:
    return (
        holds_character(texts, "%")
        or not pc.all(pc.string_is_ascii(texts), min_count=0).as_py()
        or normalize_paths(texts) is not texts
        or pc.any(absolute_mask(texts)).as_py() is True
    )


def _file_names(texts: pa.ChunkedArray, roots: tuple[str, ...]) -> pa.ChunkedArray:
    """One name for all texts of a file; names below the table's root are relative."""
    scheme = "file" if roots[0].startswith("/") else ""
    names = canonical_paths(decode_paths(normalize_paths(texts)), scheme)
    for root in roots:
        below = pc.starts_with(names, root)
        if pc.any(below).as_py():
            names = pc.if_else(below, pc.utf8_slice_codeunits(names, len(root)), names)
    return names


def _roots(uri: str) -> tuple[str, ...]:
    """The table's root as absolute names begin with it."""
    if not is_local_uri(uri):
        name = canonical_paths(pa.array([uri.rstrip("/")]), "")[0].as_py()
        return (f"{name}/",)
    path = uri_to_path(uri).rstrip("/")
    return tuple(dict.fromkeys((f"{path}/", f"{os.path.realpath(path)}/")))


def _named_twice(names: pa.ChunkedArray, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The names of which two texts are live."""
    by_name = pa.table({"name": names, "text": texts}).group_by("name")
    rows = by_name.aggregate([("text", "min"), ("text", "max")])
    return rows["name"].filter(pc.not_equal(rows["text_min"], rows["text_max"]))
