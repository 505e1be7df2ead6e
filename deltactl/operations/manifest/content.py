"""Build the content of manifests: live files by partition directory, as absolute URIs.

Source: Hive's SymlinkTextInputFormat, and the layout of Delta on Spark. The directory is derived
from the partition values in the log, never from the path of a file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.threads import read_ahead
from deltactl.operations.manifest.lines import ManifestLines
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.partition_groups import group_partitions
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.path_columns import absolute_mask, canonical_paths, holds_character
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import parse_scheme

MANIFEST_NAME: Final = "manifest"

_NO_SCHEMES: Final[Mapping[str, str]] = {}

_COLUMNS: Final = ("path", "partition_values", "deletion_vector")
# Partitions are numbered once for as many rows: few calls, but bounded memory.
_ROWS: Final = 1 << 19
_LINE_BYTES: Final = 64 << 20
_RENDERED_ROWS: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The lines of the files that manifests list; ``vectors`` counts deletion vectors."""

    lines: ManifestLines
    vectors: int

    def close(self) -> None:
        """Free the lines."""
        self.lines.close()


def load_live_files(snapshot: Snapshot, schemes: Mapping[str, str]) -> LiveFiles:
    """Return the lines of the live files of a version, by the texts of their partition values.

    An unpartitioned table has one manifest, possibly empty. The caller closes the result.

    ``schemes`` are replacements of schemes.

    Raises:
        UnsupportedFeatureError: readers of manifests would return wrong rows.
        SafetyError: the schema lacks a partition column.
        CorruptLogError: a path contains a line break and would be read as two.
        StorageError: the log cannot be read, or the disk for spilled lines is too small.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    if snapshot.metadata.column_mapping_mode != "none":
        raise UnsupportedFeatureError(
            f"{snapshot.store.uri} uses column mapping. Readers of manifests use the column "
            "names in the files, and these names differ from the names in the table",
            hint="Use an engine that reads Delta tables: manifests do not support column mapping.",
        )
    if snapshot.metadata.missing_partition_columns:
        ensure_columns(snapshot, "write manifests")
    fields = snapshot.metadata.partition_fields
    lines, vectors = ManifestLines(), 0
    try:
        if not fields:
            lines.ensure_folder("")
        # While this thread renders the lines of a batch, another one decodes the next batches.
        batches = read_ahead(snapshot.file_batches(_COLUMNS))
        for files in _join(_render_each(batches, snapshot.store.uri, schemes)):
            vectors += files.num_rows - files["deletion_vector"].null_count
            groups = group_partitions(files["partition_values"], fields, by_text=True)
            lines.add(groups.labels(), groups.ids, files["line"].combine_chunks())
    except BaseException:
        lines.close()
        raise
    return LiveFiles(lines, vectors)


def _join(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of several batches together."""
    held: list[pa.Table] = []
    num_rows = size_bytes = 0
    for batch in batches:
        held.append(batch)
        num_rows += batch.num_rows
        size_bytes += batch["line"].nbytes
        if num_rows >= _ROWS or size_bytes >= _LINE_BYTES:
            yield pa.concat_tables(held)
            held, num_rows, size_bytes = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def ensure_no_vectors(live: LiveFiles, table: str) -> None:
    """Refuse files with deletion vectors, whose deleted rows readers of manifests would return.

    Raises:
        UnsupportedFeatureError: the message has the number of files and the command to run.
    """
    if live.vectors:
        raise UnsupportedFeatureError(
            f"{live.vectors} live files of {table} have deletion vectors: readers of manifests "
            "would return deleted rows",
            hint=f"Run `deltactl optimize {shlex.quote(table)} --purge`, or rerun with "
            f"{option('purge_first', True)}.",
        )


def _render_each(
    batches: Iterator[pa.Table], root: str, schemes: Mapping[str, str]
) -> Iterator[pa.Table]:
    """Yield the rows, in parts that are not large, with the column ``line`` instead of ``path``."""
    for batch in batches:
        place = batch.schema.get_field_index("path")
        for first in range(0, batch.num_rows, _RENDERED_ROWS):
            files = batch.slice(first, _RENDERED_ROWS)
            yield files.set_column(place, "line", _render_lines(files["path"], root, schemes))


def _render_lines(paths: pa.ChunkedArray, root: str, schemes: Mapping[str, str]) -> pa.ChunkedArray:
    """Return the line of each file: a URI of its decoded name, and a line feed."""
    if any(holds_character(paths, end) for end in "\n\r"):
        raise CorruptLogError(
            "a path in the log contains a line break, which manifests do not support"
        )
    is_local = parse_scheme(root) == "file"
    base = f"{_map_scheme(f'file:{uri_to_path(root)}' if is_local else root, schemes)}/"
    absolute = absolute_mask(paths)
    lines = pc.binary_join_element_wise(base, paths, "\n", "")
    if pc.any(absolute).as_py():
        kept = canonical_paths(paths, "file" if is_local else "")
        if is_local:
            kept = pc.replace_substring_regex(kept, r"^/", "file:/")
        for before, after in schemes.items():
            kept = pc.replace_substring_regex(kept, f"^{re.escape(before)}:", f"{after}:")
        lines = pc.if_else(absolute, pc.binary_join_element_wise(kept, "\n", ""), lines)
    return lines


def _map_scheme(uri: str, schemes: Mapping[str, str]) -> str:
    scheme, separator, rest = uri.partition(":")
    return f"{schemes.get(scheme, scheme)}{separator}{rest}"


def load_table(
    log: DeltaLog,
    version: int | None,
    given: Snapshot | None = None,
    schemes: Mapping[str, str] = _NO_SCHEMES,
) -> tuple[Snapshot, LiveFiles]:
    """Return a version and its live files; read again if a log cleanup removed log files."""
    snapshots = chain([given] if given else [], repeat(None))

    def load() -> tuple[Snapshot, LiveFiles]:
        snapshot = next(snapshots) or log.snapshot(version)
        return snapshot, load_live_files(snapshot, schemes)

    return log.retry_after_cleanup(load)
