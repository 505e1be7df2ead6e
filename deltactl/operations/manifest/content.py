"""Build the content of manifests: live files by partition directory, as absolute URIs.

Source: Hive's SymlinkTextInputFormat, and the layout of Delta on Spark. The directory is derived
from the partition values in the log, never from the path of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, UnsupportedFeatureError, Warn
from deltactl.log.listing import outlast_cleanup
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.partition_groups import PartitionGroups, group_partitions
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.path_columns import absolute_mask, canonical_paths, holds_character
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import parse_scheme
from deltactl.storage.store import Store

MANIFEST_NAME: Final = "manifest"

_COLUMNS: Final = ("path", "partition_values", "deletion_vector")


@dataclass(frozen=True)
class LiveFiles:
    """The files that manifests list, by partition; ``vectors`` counts deletion vectors."""

    paths: pa.ChunkedArray
    partition_values: pa.ChunkedArray
    groups: PartitionGroups
    vectors: int


def load_live_files(snapshot: Snapshot) -> LiveFiles:
    """Return the live files of a version, grouped by the texts of their partition values.

    Raises:
        UnsupportedFeatureError: readers of manifests would return wrong rows.
        SafetyError: the schema lacks a partition column.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    if snapshot.metadata.column_mapping_mode != "none":
        raise UnsupportedFeatureError(
            f"{snapshot.store.uri} maps columns: readers of manifests use column names of the "
            "files, which are not the table's",
            hint="Use an engine that reads Delta tables: manifests do not support column mapping.",
        )
    if snapshot.metadata.missing_partition_columns:
        ensure_columns(snapshot, "write manifests")
    batches = list(snapshot.file_batches(_COLUMNS))
    files = pa.concat_tables(batches) if batches else snapshot.files.select(_COLUMNS)
    vectors = files["deletion_vector"]
    return LiveFiles(
        files["path"],
        files["partition_values"],
        group_partitions(
            files["partition_values"], snapshot.metadata.partition_fields, by_text=True
        ),
        len(vectors) - vectors.null_count,
    )


def ensure_no_vectors(live: LiveFiles, table: str) -> None:
    """Refuse files with deletion vectors, whose deleted rows readers of manifests would return.

    Raises:
        UnsupportedFeatureError: the message has the number of files and the command to run.
    """
    if live.vectors:
        raise UnsupportedFeatureError(
            f"{live.vectors} live files of {table} have deletion vectors: readers of manifests "
            "would return deleted rows",
            hint=f"Run `deltactl optimize {table} --purge`, or rerun with --purge-first.",
        )


@dataclass(frozen=True)
class Manifests:
    """The content of all manifests, without the start of the first and the end of the last line."""

    folders: tuple[str, ...]
    num_files: tuple[int, ...]
    _texts: pa.LargeStringArray
    _base: str

    def content(self, index: int) -> bytes:
        """Return the bytes of a manifest: one line per file."""
        if not self.num_files[index]:
            return b""
        return b"".join([self._base.encode(), self._texts[index].as_buffer(), b"\n"])


def render_manifests(live: LiveFiles, root: str, schemes: Mapping[str, str]) -> Manifests:
    """Return the manifests of all partitions; an unpartitioned table has one, possibly empty.

    Args:
        live: the files.
        root: the table's URI.
        schemes: replacements of schemes.

    Raises:
        CorruptLogError: a path contains a line break and would be read as two.
    """
    groups = live.groups
    names, base = _name_files(live.paths, root, schemes)
    order = np.argsort(groups.ids, kind="stable")
    counts = np.bincount(groups.ids, minlength=groups.num_groups)
    folders = tuple(groups.labels())
    if not folders and not groups.texts:
        folders, counts = ("",), np.zeros(1, np.int64)
    rows = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    listed = pa.LargeListArray.from_arrays(pa.array(rows), names.take(pa.array(order)))
    texts = pc.binary_join(listed, _wide(f"\n{base}"))
    return Manifests(folders, tuple(counts.tolist()), texts, base)


def _name_files(
    paths: pa.ChunkedArray, root: str, schemes: Mapping[str, str]
) -> tuple[pa.LargeStringArray, str]:
    """Return the paths of the files, and a prefix for each: together, URIs of decoded names."""
    if any(holds_character(paths, end) for end in "\n\r"):
        raise CorruptLogError(
            "a path in the log contains a line break, which manifests do not support"
        )
    is_local = parse_scheme(root) == "file"
    base = f"{_map_scheme(f'file:{uri_to_path(root)}' if is_local else root, schemes)}/"
    absolute = absolute_mask(paths)
    names = paths.cast(pa.large_string())
    if pc.any(absolute).as_py():
        kept = canonical_paths(paths, "file" if is_local else "").cast(pa.large_string())
        if is_local:
            kept = pc.replace_substring_regex(kept, r"^/", "file:/")
        for before, after in schemes.items():
            kept = pc.replace_substring_regex(kept, f"^{_quoted(before)}:", f"{after}:")
        joined = pc.binary_join_element_wise(_wide(base), names, _wide(""))
        names, base = pc.if_else(absolute, kept, joined), ""
    array = pa.concat_arrays(names.chunks) if names.num_chunks else pa.array([], pa.large_string())
    return array, base


def _wide(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _quoted(scheme: str) -> str:
    return scheme.replace("+", r"\+").replace(".", r"\.")


def _map_scheme(uri: str, schemes: Mapping[str, str]) -> str:
    scheme, separator, rest = uri.partition(":")
    return f"{schemes.get(scheme, scheme)}{separator}{rest}"


def load_table(
    store: Store, version: int | None, warn: Warn, given: Snapshot | None = None
) -> tuple[Snapshot, LiveFiles]:
    """Return a version and its live files; read again if a log cleanup removed log files."""
    snapshots = chain([given] if given else [], repeat(None))

    def load() -> tuple[Snapshot, LiveFiles]:
        snapshot = next(snapshots) or load_snapshot(store, version, warn=warn)
        return snapshot, load_live_files(snapshot)

    return outlast_cleanup(load)
