"""What manifests should say: live files by partition folder, as lines of absolute URIs.

Source: Hive's SymlinkTextInputFormat, and the layout that Delta on Spark gives its manifests. The
folder comes from the partition values in the log, never from where a file lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.partition_groups import PartitionGroups, group_partitions
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.paths import absolute_mask, canonical_paths
from deltactl.storage.local_uris import uri_to_path
from deltactl.storage.names import parse_scheme

MANIFEST_DIR: Final = "_symlink_format_manifest"
MANIFEST_NAME: Final = "manifest"

_COLUMNS: Final = ("path", "partition_values", "deletion_vector")


@dataclass(frozen=True)
class LiveFiles:
    """The files that manifests name, partitions in hand; ``vectors`` counts deletion vectors."""

    paths: pa.ChunkedArray
    partition_values: pa.ChunkedArray
    groups: PartitionGroups
    vectors: int

    def folder(self, group: int) -> str:
        """The folder of a partition below the manifests' root; empty without partitions."""
        return self.groups.label(group)


def load_live_files(snapshot: Snapshot) -> LiveFiles:
    """The live files of a version, grouped by the texts of their partition values.

    Raises:
        UnsupportedFeatureError: readers of manifests would read the table wrongly.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    if snapshot.metadata.column_mapping_mode != "none":
        raise UnsupportedFeatureError(
            f"{snapshot.store.uri} maps columns: readers of manifests take names from the files, "
            "which are not the table's",
            hint="Manifests cannot be made of tables with column mapping.",
        )
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
        UnsupportedFeatureError: with the number of files, and what to run.
    """
    if live.vectors:
        raise UnsupportedFeatureError(
            f"{live.vectors} live files of {table} have deletion vectors: readers of manifests "
            "would return deleted rows",
            hint=f"Run `deltactl optimize {table} --purge`, or add --purge-first.",
        )


@dataclass(frozen=True)
class Manifests:
    """The content of each partition's manifest, as slices of one buffer."""

    folders: tuple[str, ...]
    num_files: tuple[int, ...]
    _data: pa.Buffer
    _ends: np.ndarray[tuple[int], np.dtype[np.int64]]

    def content(self, index: int) -> bytes:
        """The bytes of a manifest: a line each file."""
        start = int(self._ends[index])
        return bytes(self._data.slice(start, int(self._ends[index + 1]) - start))


def render_manifests(live: LiveFiles, root: str, schemes: Mapping[str, str]) -> Manifests:
    """The manifests of all partitions; of an unpartitioned table one, be it empty.

    Args:
        live: the files.
        root: the table's URI.
        schemes: replacements of schemes.

    Raises:
        CorruptLogError: a path with a line break, which would be read as two.
    """
    groups = live.groups
    lines = _format_lines(live.paths, root, schemes)
    order = np.argsort(groups.ids, kind="stable")
    ordered = lines.take(pa.array(order))
    counts = np.bincount(groups.ids, minlength=groups.num_groups)
    folders = tuple(groups.label(group) for group in range(groups.num_groups))
    if not folders and not groups.texts:
        folders, counts = ("",), np.zeros(1, np.int64)
    _, offsets, data = ordered.buffers()
    rows = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ends = np.frombuffer(offsets, np.int64)[rows + ordered.offset]
    return Manifests(folders, tuple(counts.tolist()), data or pa.py_buffer(b""), ends)


def _format_lines(
    paths: pa.ChunkedArray, root: str, schemes: Mapping[str, str]
) -> pa.LargeStringArray:
    """Each file as an absolute URI of its decoded name, and the line's end."""
    if any(pc.any(pc.match_substring(paths, end)).as_py() for end in "\n\r"):
        raise CorruptLogError("a path of the log holds a line break, which no manifest can name")
    is_local = parse_scheme(root) == "file"
    base = f"file:{uri_to_path(root)}" if is_local else root
    absolute = absolute_mask(paths)
    named = paths.cast(pa.large_string())
    lines = pc.binary_join_element_wise(
        _wide(f"{_map_scheme(base, schemes)}/"), named, _wide("\n"), _wide("")
    )
    if pc.any(absolute).as_py():
        kept = canonical_paths(paths, "file" if is_local else "").cast(pa.large_string())
        if is_local:
            kept = pc.replace_substring_regex(kept, r"^/", "file:/")
        for before, after in schemes.items():
            kept = pc.replace_substring_regex(kept, f"^{_quoted(before)}:", f"{after}:")
        kept = pc.binary_join_element_wise(kept, _wide("\n"), _wide(""))
        lines = pc.if_else(absolute, kept, lines)
    return pa.concat_arrays(lines.chunks) if lines.num_chunks else pa.array([], pa.large_string())


def _wide(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _quoted(scheme: str) -> str:
    return scheme.replace("+", r"\+").replace(".", r"\.")


def _map_scheme(uri: str, schemes: Mapping[str, str]) -> str:
    scheme, separator, rest = uri.partition(":")
    return f"{schemes.get(scheme, scheme)}{separator}{rest}"
