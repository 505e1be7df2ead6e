"""Build the content of manifests: live files by partition directory, as absolute URIs.

Source: Hive's SymlinkTextInputFormat, and the layout of Delta on Spark. The directory is derived
from the partition values in the log, never from the path of a file.

Lines are in memory, above a limit on disk. Other writers use another order, so large manifests are
compared in parts, by a sum of keyed hashes of 128 bits of all lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import UnsupportedFeatureError, Warn, join_reasons
from deltactl.log.audit.audited_snapshot import load_with_doubts
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.threads import read_ahead
from deltactl.numpy_types import Flags, Integers
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.partition_groups import group_partitions
from deltactl.protocol.arrow_schemas import array_of, text_bytes
from deltactl.protocol.features import (
    TYPE_WIDENING,
    TYPE_WIDENING_PREVIEW,
    Operation,
    ensure_supported,
    has_feature,
)
from deltactl.protocol.path_columns import absolute_mask, canonical_paths
from deltactl.protocol.schema import TYPE_CHANGES_KEY, walk_paths
from deltactl.storage.local.spill import Spill
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import is_utf8, parse_scheme
from deltactl.storage.store import Store

MANIFEST_NAME: Final = "manifest"

_NO_SCHEMES: Final[Mapping[str, str]] = {}

_COLUMNS: Final = ("path", "partition_values", "deletion_vector")
_RENDERED_ROWS: Final = 1 << 15
_LINE_BREAK: Final = re.compile(r"[\n\r]")
_HOST: Final = re.compile(r"abfss://[^/@]+@([\w.:-]+)")
_WITHOUT_ACCOUNT: Final = r"^(?i:az|abfss?)://([^/@]+)(/|$)"

_MEMORY_BYTES: Final = 128 << 20
_SCHEMA: Final = pa.schema([("line", pa.string())])

T = TypeVar("T", bytes, memoryview, bytes | memoryview)

_LARGE_BYTES: Final = 32 << 20
_READ_BYTES: Final = 8 << 20


def _load_lines(snapshot: Snapshot, schemes: Mapping[str, str]) -> ManifestLines:
    """Return the lines of the live files of a version, by the texts of their partition values.

    An unpartitioned table has one manifest, possibly empty. The caller closes the result.

    ``schemes`` are replacements of schemes.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    if snapshot.metadata.column_mapping_mode != "none":
        raise UnsupportedFeatureError(
            f"{snapshot.store.uri} uses column mapping. Readers of manifests use the column "
            "names in the files, and these names differ from the names in the table",
            hint="Use an engine that reads Delta tables, or run `deltactl alter "
            f"{shlex.quote(snapshot.store.uri)} --drop-feature columnMapping`, which rewrites the "
            "files with the names of the table.",
        )
    if snapshot.metadata.missing_partition_columns:
        ensure_columns(snapshot, "write manifests")
    fields = snapshot.metadata.partition_fields
    lines = ManifestLines(set(schemes) - {render_root(snapshot.store.engine_uri).partition(":")[0]})
    try:
        if not fields:
            lines.number_folders([""])
        # While this thread renders the lines of a batch, another one decodes the next batches.
        batches = read_ahead(snapshot.file_batches(_COLUMNS))
        for files in _render_each(batches, snapshot.store.engine_uri, schemes, lines.unused):
            groups = group_partitions(files["partition_values"], fields, by_text=True)
            has_vector = files["deletion_vector"].is_valid().to_numpy()
            lines.add(groups.labels(), groups.ids, files["line"].combine_chunks(), has_vector)
    except BaseException:
        lines.close()
        raise
    return lines


def warn_of_old_types(snapshot: Snapshot, warn: Warn) -> None:
    """Warn if files may have other types than the columns: these types are not in a manifest."""
    fields = walk_paths(snapshot.metadata.schema)
    columns = [path for path, field in fields if TYPE_CHANGES_KEY in field.metadata]
    if columns:
        is_preview = has_feature(snapshot.protocol, TYPE_WIDENING_PREVIEW)
        feature = TYPE_WIDENING_PREVIEW if is_preview else TYPE_WIDENING
        warn(
            f"older files may have other types of the columns {join_reasons(columns)}: readers of "
            "the manifests may fail, or return other values. `deltactl alter "
            f"{shlex.quote(snapshot.store.uri)} --drop-feature {feature.name} --dry-run` shows "
            "whether there are such files. The same command without a dry run rewrites them, and "
            "the table loses the feature"
        )


def _render_each(
    batches: Iterator[pa.Table], root: str, schemes: Mapping[str, str], unused: set[str]
) -> Iterator[pa.Table]:
    """Yield the rows, in parts that are not large, with the column ``line`` instead of ``path``.

    Schemes that are replaced are removed from ``unused``.
    """
    for batch in batches:
        place = batch.schema.get_field_index("path")
        for first in range(0, batch.num_rows, _RENDERED_ROWS):
            files = batch.slice(first, _RENDERED_ROWS)
            lines = render_lines(files["path"], root, schemes, unused)
            yield files.set_column(place, "line", lines)


def render_lines(
    paths: pa.ChunkedArray, root: str, schemes: Mapping[str, str], unused: set[str]
) -> pa.ChunkedArray:
    """Return the line of each file: a URI of its decoded name, and a line feed.

    ``root`` is an address that engines know: of Azure, that of all lines has its account.
    """
    broken = paths.filter(pc.match_substring_regex(paths, _LINE_BREAK.pattern))
    if len(broken):
        raise UnsupportedFeatureError(
            f"the path {broken[0].as_py()!r} contains a line break, which manifests do not support",
            hint="Rewrite the rows of the file with a Delta writer, which gives it another name.",
        )
    is_local = parse_scheme(root) == "file"
    base = f"{render_root(root, schemes)}/"
    if not is_utf8(base):
        raise UnsupportedFeatureError(
            f"the path of {root} is not UTF-8, which manifests do not support",
            hint="Move the table to a path that is UTF-8.",
        )
    if _LINE_BREAK.search(base):
        raise UnsupportedFeatureError(
            f"the path of {root} contains a line break, which manifests do not support",
            hint="Move the table to a path without line breaks.",
        )
    absolute = absolute_mask(paths)
    lines = pc.binary_join_element_wise(base, paths, "\n", "")
    if pc.any(absolute).as_py():
        kept = canonical_paths(paths, "file" if is_local else "")
        if host := _HOST.match(root):
            kept = pc.replace_substring_regex(kept, r"^(?i:az|abfs)://([^/@]+@)", r"abfss://\1")
            of_account = rf"abfss://\1@{host[1]}\2"
            kept = pc.replace_substring_regex(kept, _WITHOUT_ACCOUNT, of_account)
        if is_local:
            kept = pc.replace_substring_regex(kept, r"^/", "file:/")
        for before, after in schemes.items():
            replaced = pc.replace_substring_regex(kept, f"^{re.escape(before)}:", f"{after}:")
            if before in unused and pc.any(pc.not_equal(replaced, kept)).as_py():
                unused.remove(before)
            kept = replaced
        lines = pc.if_else(absolute, pc.binary_join_element_wise(kept, "\n", ""), lines)
    return lines


def render_root(root: str, schemes: Mapping[str, str] = _NO_SCHEMES) -> str:
    """Return the address of a directory as lines have it: Hadoop takes it as it is, not decoded."""
    path = f"file:{uri_to_path(root)}" if parse_scheme(root) == "file" else root
    scheme, separator, rest = path.partition(":")
    return f"{schemes.get(scheme, scheme)}{separator}{rest}"


def load_table(
    log: DeltaLog,
    version: int | None,
    given: Snapshot | None = None,
    schemes: Mapping[str, str] = _NO_SCHEMES,
) -> tuple[Snapshot, ManifestLines]:
    """Return a version and its lines; read again if a log cleanup removed log files."""
    snapshots = chain([given] if given else [], repeat(None))
    doubts = CommitDoubts()

    def load() -> tuple[Snapshot, ManifestLines]:
        snapshot = next(snapshots) or load_with_doubts(log, doubts, version)
        return snapshot, _load_lines(snapshot, schemes)

    loaded = log.retry_after_cleanup(load)
    doubts.warn(log)
    return loaded


class ManifestLines:
    """The lines of the manifest of each folder, in the order of the files.

    Lines end with a line feed. Beyond a limit, they are in a file without a name in the directory
    for temporary files, which ``close`` or the end of the process removes.

    Attributes:
        unused: the schemes to replace that no address has.
        num_files: the number of files in each manifest.
        num_vectors: the number of files with deletion vectors in each manifest.
    """

    def __init__(self, unused: set[str]) -> None:
        """Set the schemes to replace."""
        self.unused = unused
        self._numbers: dict[str, int] = {}
        self.num_files = np.zeros(0, np.int64)
        self.num_vectors = np.zeros(0, np.int64)
        self._sizes = np.zeros(0, np.int64)
        self._spill = Spill(_SCHEMA, _MEMORY_BYTES)

    @property
    def folders(self) -> Sequence[str]:
        """Return the folder of each manifest."""
        return list(self._numbers)

    def size_bytes(self, number: int) -> int:
        """Return the size of a manifest."""
        return int(self._sizes[number])

    def add(
        self, folders: Sequence[str], ids: Integers, lines: pa.Array, has_vector: Flags
    ) -> None:
        """Add a line of each file to the manifest ``folders[id]``.

        Raises:
            StorageError: the disk for spilled lines is too small, full or failed.
        """
        numbers = self.number_folders(folders)[ids]
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        rows = pa.record_batch([lines.take(array_of(order))], schema=_SCHEMA)
        bounds = np.flatnonzero(np.diff(ordered, prepend=-1, append=-1))
        pieces = [
            (int(ordered[first]), rows.slice(first, end - first))
            for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
        sizes = pc.binary_length(lines).to_numpy(zero_copy_only=False)
        count = len(self.num_files)
        self.num_files += np.bincount(numbers, minlength=count)
        self.num_vectors += np.bincount(numbers[has_vector], minlength=count)
        self._sizes += np.bincount(numbers, sizes, len(self._sizes)).astype(np.int64)
        self._spill.keep(pieces, int(rows.nbytes))

    def number_folders(self, folders: Sequence[str]) -> Integers:
        """Return the numbers of manifests; those of new folders have no files."""
        numbers = self._numbers
        found = np.array([numbers.setdefault(it, len(numbers)) for it in folders], np.int64)
        new = len(numbers) - len(self._sizes)
        if new:
            self.num_files, self.num_vectors, self._sizes = (
                np.concatenate([counts, np.zeros(new, np.int64)])
                for counts in (self.num_files, self.num_vectors, self._sizes)
            )
        return found

    def blocks(self, number: int) -> Iterator[memoryview]:
        """Yield the content of a manifest in parts of at most some 100 MiB.

        Raises:
            StorageError: the file with the lines cannot be read.
        """
        return (text_bytes(rows.column(0))[0].data for rows in self._spill.read(number))

    def content(self, number: int) -> bytes:
        """Return the content of a manifest: one line per file.

        Raises:
            StorageError: the file with the lines cannot be read.
        """
        return b"".join(self.blocks(number))

    def close(self) -> None:
        """Free the lines; folders and numbers remain."""
        self._spill.close()


def is_large(lines: ManifestLines, number: int) -> bool:
    """Return whether a manifest is read and written in parts."""
    return lines.size_bytes(number) > _LARGE_BYTES


def has_same_lines(found: bytes, wanted: bytes) -> bool:
    """Return whether two manifests have the same lines."""
    if found == wanted:
        return True
    # Ends of lines have one or two bytes; the last line may have none.
    if abs(len(found) - len(wanted)) > wanted.count(b"\n"):
        return False
    return sorted(found.splitlines()) == sorted(wanted.splitlines())


def is_stored(lines: ManifestLines, number: int, output: Store, name: str) -> bool:
    """Return whether a stored manifest has the lines of a large one.

    Raises:
        StorageError: the store failed, or the file with the lines cannot be read.
    """
    if is_same(lines.blocks(number), output, name):
        return True
    return _sum_lines(lines.blocks(number)) == _sum_lines(_read(output, name))


def is_same(blocks: Iterable[memoryview], output: Store, name: str) -> bool:
    """Return whether a stored file is equal to the blocks."""
    place = 0
    for part in _cut(blocks):
        # Views of other buffers are compared byte by byte, and as signed numbers.
        if output.read_ranges(name, [(place, len(part))])[0] != bytes(part):
            return False
        place += len(part)
    return not output.read_ranges(name, [(place, 1)])[0]


def _read(output: Store, name: str) -> Iterator[bytes]:
    place = 0
    while data := output.read_ranges(name, [(place, _READ_BYTES)])[0]:
        yield data
        place += len(data)


def _cut(blocks: Iterable[T]) -> Iterator[T]:
    """Yield the same bytes in parts that are not large."""
    for block in blocks:
        for first in range(0, len(block), _READ_BYTES):
            yield block[first : first + _READ_BYTES]


def _sum_lines(blocks: Iterable[bytes | memoryview]) -> tuple[int, int]:
    """Return the number of lines of a text, and the sum of their hashes."""
    from deltactl.log.keyed_hash import add_sums, sum_of_hashes

    count = total = 0
    for found in _split(blocks):
        count += len(found)
        total = add_sums(total, sum_of_hashes(pa.array(found, pa.binary())))
    return count, total


def _split(blocks: Iterable[bytes | memoryview]) -> Iterator[list[bytes]]:
    """Yield the lines of a text in blocks, as ``splitlines`` gives them."""
    rest = b""
    for block in _cut(blocks):
        whole, end, rest = (rest + block).rpartition(b"\n")
        if end:
            yield (whole + end).splitlines()
    if rest:
        yield rest.splitlines()
