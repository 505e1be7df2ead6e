"""Write one Parquet file of a checkpoint from a stream of actions, in bounded memory.

The file gets its name only when it is complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.errors import ConflictError, CorruptLogError, DeltactlError, StorageError
from deltactl.log.checkpoint.schema import CheckpointLayout, described_leaves, dictionary_leaves
from deltactl.numpy_types import Bytes
from deltactl.protocol.arrow_schemas import JSON_NAMES, STRING_MAP, text_bytes
from deltactl.protocol.deletion_vectors import unique_ids
from deltactl.protocol.partitions import drop_stale_nulls, lookup_map, parse_partition_column
from deltactl.protocol.stats_decoding import parse_stats
from deltactl.storage.store import FileInfo, Store

# A path is written as the text that was read, because readers compare texts (ADR 4).
_OURS = {theirs: ours for ours, theirs in JSON_NAMES.items()} | {"path": "encoded_path"}
# The rows of a row group are in memory until it is written; statistics can make rows long.
_ROW_GROUP_ROWS: Final = 1 << 17
_ROW_GROUP_BYTES: Final = 64 << 20
_PAGE_VALUES: Final = 1 << 14  # between checks of the size of a page; 1024, the default, is slower


def open_parquet(sink: Any, schema: pa.Schema, layout: CheckpointLayout) -> pq.ParquetWriter:
    """Open Arrow's writer with the settings of checkpoints.

    Every reader of Delta accepts this Parquet: format 1.0, data pages v1, plain and dictionary
    encodings, snappy, no Arrow schema.
    """
    compat = layout.compat
    return pq.ParquetWriter(
        sink,
        schema,
        version="1.0",
        data_page_version="1.0",
        compression="none" if compat == "plain" else "snappy",
        use_dictionary=dictionary_leaves(schema, compat),
        write_statistics=described_leaves(schema),
        write_batch_size=_PAGE_VALUES,
        store_schema=False,  # with it, readers would restore types of Arrow
        use_deprecated_int96_timestamps=compat == "spark",  # the default of Spark
    )


def remove_unchanged(store: Store, files: Iterable[FileInfo]) -> None:
    """Remove files, but only if they have not changed since deltactl wrote them.

    So a file of another writer is never removed. This raises no error, because it is called while
    another error is handled.
    """
    wanted = list(files)
    with suppress(DeltactlError):
        found = store.stat_many([file.name for file in wanted])
        same = [file.name for file, now in zip(wanted, found, strict=True) if now == file]
        store.delete_many(same)


@dataclass(frozen=True, slots=True)
class WrittenActions:
    """A written file of a checkpoint: number of rows, and the digest of its file actions."""

    file: FileInfo
    num_rows: int
    adds: Fingerprint
    removes: Fingerprint


class ActionFileWriter:
    """Write one file. If the ``with`` block ends before ``close``, the file is removed.

    ``schema`` has a struct for each kind of action. A file that has the name is replaced at the
    end.
    """

    def __init__(
        self, store: Store, name: str, schema: pa.Schema, layout: CheckpointLayout
    ) -> None:
        self._store, self._name, self._schema, self._layout = store, name, schema, layout
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self.num_rows = 0  # that were written so far
        self._adds, self._removes = KeyDigest(), KeyDigest()
        self._sink = store.open_replacement(name)
        with self._naming_file():
            self._writer = open_parquet(self._sink, schema, layout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._sink.closed:
            with suppress(Exception):
                self._writer.close()  # without this, its destructor writes to a closed sink
            self._sink.discard()

    def write_non_file_actions(self, rows: pa.Table) -> None:
        """Append rows that have some or all columns of the file's schema."""
        self._append({name: rows[name] for name in rows.schema.names}, rows.num_rows)

    def write_adds(self, files: pa.Table) -> None:
        """Append rows of ``ADD_SCHEMA``."""
        for batch in files.to_batches():
            self._adds.add(batch)
            self._append({"add": _add_structs(batch, self._layout)}, batch.num_rows)

    def write_removes(self, files: pa.Table) -> None:
        """Append rows of ``REMOVE_SCHEMA``."""
        for batch in files.to_batches():
            self._removes.add(batch)
            self._append({"remove": _remove_structs(batch, self._layout)}, batch.num_rows)

    def close(self) -> WrittenActions:
        """Give the file its name. The file is durable when this returns.

        Raises:
            StorageError: the store failed, or the stored file does not have the size of the written
                one.
            ConflictError: another writer replaced the file at the same time.
        """
        with self._naming_file():
            self._flush()
            self._writer.close()
            size_bytes = self._sink.tell()
            self._sink.close()
        # These facts identify the stored file: `remove_unchanged` deletes no other file.
        (info,) = self._store.stat_many([self._name])
        if info is None:
            raise StorageError(f"{self._name} is not in the store after it was written")
        if info.size_bytes != size_bytes:
            raise ConflictError(
                f"another writer wrote the checkpoint {self._name} during the run",
                hint="Rerun to check this checkpoint. This run did not change the checkpoint.",
            )
        return WrittenActions(info, self.num_rows, self._adds.finish(), self._removes.finish())

    def _append(self, columns: dict[str, pa.Array | pa.ChunkedArray], num_rows: int) -> None:
        if not num_rows:
            return
        self._pending.append(self._fill(columns, num_rows))
        self._pending_rows += num_rows
        self._pending_bytes += sum(column.nbytes for column in columns.values())
        if self._pending_rows >= _ROW_GROUP_ROWS or self._pending_bytes >= _ROW_GROUP_BYTES:
            with self._naming_file():
                self._flush()

    def _fill(self, columns: dict[str, pa.Array | pa.ChunkedArray], num_rows: int) -> pa.Table:
        """Return rows with null in all other columns of the file."""
        arrays = [
            columns[f.name] if f.name in columns else pa.nulls(num_rows, f.type)
            for f in self._schema
        ]
        self.num_rows += num_rows
        return pa.table(arrays, schema=self._schema)

    def _flush(self) -> None:
        """Write the pending rows as one row group."""
        if self._pending:
            rows = pa.concat_tables(self._pending)
            self._pending.clear()
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._pending_rows = self._pending_bytes = 0

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StorageError(f"{self._name} cannot be written: {error}"[:500]) from error


def _add_structs(files: pa.RecordBatch, layout: CheckpointLayout) -> pa.StructArray:
    """Return rows of ``ADD_SCHEMA`` as the ``add`` column, with ``dataChange`` false."""
    type_ = layout.add_type
    arrays = []
    for member in type_:
        if member.name == "stats_parsed":
            arrays.append(parse_stats(files.column("stats"), member.type))
        elif member.name == "partitionValues_parsed":
            arrays.append(_parse_partitions(files.column("partition_values"), member.type))
        else:
            arrays.append(_member(files, member, layout))
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def _remove_structs(files: pa.RecordBatch, layout: CheckpointLayout) -> pa.StructArray:
    """Return rows of ``REMOVE_SCHEMA`` as the ``remove`` column."""
    type_ = layout.remove_type
    arrays = [_member(files, member, layout) for member in type_]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def _member(files: pa.RecordBatch, member: pa.Field, layout: CheckpointLayout) -> pa.Array:
    if member.name == "dataChange":
        # Actions in a checkpoint do not change data (PROTOCOL.md, "Checkpoints").
        return pa.repeat(pa.scalar(False), files.num_rows)
    array = files.column(_OURS[member.name])
    if member.name == "deletionVector":
        return _renamed(array, member.type)
    if member.name != "partitionValues" or not len(array):
        return array
    if array.null_count and "modification_time_ms" in files.schema.names:
        # An add must have the map, even if it is empty.
        array = pc.if_else(array.is_valid(), array, pa.scalar([], STRING_MAP))
    # delta-rs refuses null values of earlier partition columns (ADR 6).
    return drop_stale_nulls(array, layout.partition_keys)


def _renamed(array: pa.StructArray, type_: pa.StructType) -> pa.StructArray:
    """Return the same structs with the field names of the log."""
    if array.null_count == len(array):
        return pa.nulls(len(array), type_)
    children = [array.field(index) for index in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())


def _parse_partitions(maps: pa.MapArray, type_: pa.StructType) -> pa.StructArray:
    columns = [_parse_leniently(lookup_map(maps, member.name), member.type) for member in type_]
    return pa.StructArray.from_arrays(columns, fields=list(type_))


def _parse_leniently(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return typed values. As in Spark, a string that is not a value of the type becomes null."""
    try:
        return parse_partition_column(texts, type_)
    except CorruptLogError:
        # Few values are distinct. Parse each alone to find those that are not valid.
        distinct = pc.unique(texts)
        parsed = [_parse_or_null(text, type_) for text in distinct]
        return pa.concat_arrays(parsed).take(pc.index_in(texts, value_set=distinct))


def _parse_or_null(text: pa.Scalar, type_: pa.DataType) -> pa.Array:
    try:
        return parse_partition_column(pa.array([text.as_py()], pa.string()), type_)
    except CorruptLogError:
        return pa.nulls(1, type_)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The digest of a stream of file actions. Sizes are in bytes."""

    count: int
    size_bytes: int
    digest: str


class KeyDigest:
    """Computes the digest of rows with ``encoded_path``, ``deletion_vector`` and ``size_bytes``.

    Two streams of the same rows give the same digest, whatever the sizes of batches are.
    """

    def __init__(self) -> None:
        self._count = self._size_bytes = 0
        # One for each part of a row: a common hash would depend on where batches end.
        self._hashes = [hashlib.sha256() for _ in range(5)]

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows."""
        sizes = rows.column("size_bytes")
        self._count += rows.num_rows
        self._size_bytes += pc.sum(sizes).as_py() or 0
        vectors = pc.fill_null(unique_ids(rows.column("deletion_vector")), "")
        parts = [*_split(rows.column("encoded_path")), *_split(vectors), pc.fill_null(sizes, -1)]
        for found, part in zip(self._hashes, parts, strict=True):
            found.update(np.asarray(part).data)

    def finish(self) -> Fingerprint:
        """Return the digest of all rows so far."""
        digest = hashlib.sha256(b"".join(found.digest() for found in self._hashes)).hexdigest()
        return Fingerprint(self._count, self._size_bytes, digest)


def _split(texts: pa.StringArray) -> tuple[pa.Array, Bytes]:
    """Return the lengths and the bytes of strings, so that batch sizes do not matter."""
    return pc.binary_length(texts), text_bytes(texts)[0]
