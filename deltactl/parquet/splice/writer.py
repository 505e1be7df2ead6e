"""Write a data file from copied row groups and encoded rows, in the order in which they are given.

Pages are copied byte for byte. Only the footer and the offsets in the page indexes are new.

Source: the Parquet format, "File format"; parquet.thrift.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from deltactl.errors import DataFileError, DeltactlError, VerificationError
from deltactl.parquet.amend import amend_footer
from deltactl.parquet.calendar import PROLEPTIC_CALENDAR
from deltactl.parquet.facts import FactCollector
from deltactl.parquet.footer import RowFacts, read_file_stats
from deltactl.parquet.footer_bytes import Footer, parse_footer
from deltactl.parquet.format import (
    END_BYTES,
    MAGIC,
    MAX_ROW_GROUPS,
    ColumnOrder,
    FileMetaData,
    SchemaElement,
)
from deltactl.parquet.null_counts import read_null_counts
from deltactl.parquet.splice.chunk_metadata import (
    CopiedRange,
    Origin,
    PlacedChunk,
    build_row_group,
    join_spans,
    map_sorting,
    place_copy,
)
from deltactl.parquet.splice.chunks import Span, chunk_span, place_indexes, read_indexes, relocate
from deltactl.parquet.splice.copy_conditions import holds_times
from deltactl.parquet.splice.segment import Segment, divide_columns, encode_segment
from deltactl.parquet.splice.source import Group, LeafCopy, Source, ensure_chunk_pages
from deltactl.parquet.splice.verify import (
    ensure_all_pages,
    ensure_copied,
    ensure_origins,
    ensure_page_headers,
    ensure_stored,
    read_end_and_sample,
)
from deltactl.parquet.stored_columns import LeafPath, StoredColumn, read_columns
from deltactl.parquet.thrift import Kind, ThriftError, ThriftList, ThriftStruct, decode, encode
from deltactl.parquet.writer import (
    PendingRows,
    WriteOptions,
    WrittenFile,
    ensure_storable,
    new_parquet,
)
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_columns import StatsColumns
from deltactl.protocol.stats_encoding import encode_stats
from deltactl.storage.assembly import StreamedAssembly, open_assembly
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store

ROOM_FOR_ROW_GROUPS: Final = MAX_ROW_GROUPS - 1024
"""The highest number of copied row groups, because the remaining rows need row groups too."""

_TYPE_ORDER: Final = ThriftStruct([(ColumnOrder.TYPE_ORDER, Kind.STRUCT, ThriftStruct())])


@dataclass(frozen=True, slots=True)
class GroupCopy:
    """A row group to copy, with its leaves (see ``prepare_leaves``).

    ``beside``: the columns that are encoded instead, with the same number of rows. ``facts``: facts
    about copied columns whose rows were read.
    """

    source: Source
    group: Group
    leaves: Sequence[LeafCopy]
    beside: pa.Table | None = None
    facts: FactCollector | None = None


class SpliceWriter:
    """Write one data file. If the ``with`` block ends before ``close``, the file is discarded.

    Arguments and errors are those of ``DataFileWriter``. Without ``copies``, no row group will be
    copied. ``count_cores`` returns how many threads may encode the columns of the next row group.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        schema: pa.Schema,
        options: WriteOptions,
        stats: StatsColumns,
        *,
        copies: bool = True,
        count_cores: Callable[[], int] = lambda: 1,
    ) -> None:
        if not options.undecoded:  # else the file has columns even if the schema has none
            ensure_storable(schema)
        self._count_cores = count_cores
        self._store, self._name, self._schema = store, name, schema
        self._options, self._stats = options, stats
        self._footer = _empty_footer(schema, options)
        self.columns = read_columns(self._footer)
        self._groups: list[tuple[ThriftStruct, list[PlacedChunk]]] = []
        self._pending = PendingRows(schema, options)
        self._num_rows = 0
        self._floats_with_nan: set[FieldPath] = set()
        self._nested_nulls: dict[FieldPath, int] = {}
        self._ranges: list[CopiedRange] = []
        self._is_done = self._has_copies = False
        self._out = open_assembly(store, name) if copies else StreamedAssembly(store, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_done:
            return
        self._pending.take()
        self._out.discard()
        # After `close`, `discard` does nothing, but the file may have failed the verification.
        with suppress(DeltactlError):
            self._store.delete_many([self._name])

    @property
    def is_local(self) -> bool:
        """Return whether it is cheap to read page headers of the output."""
        return self._out.is_local

    @property
    def num_groups(self) -> int:
        """Return how many row groups were written so far; pending rows are not counted."""
        return len(self._groups)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. They are kept until a row group is full, or until a row group is copied."""
        rows = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        for table in self._pending.add(rows):
            self._write_group(table)

    def copy(self, wanted: GroupCopy) -> None:
        """Append a copied row group. All earlier rows are written before it.

        Raises:
            StorageError: the source does not have the bytes.
            DataFileError: the source is not valid.
        """
        self._flush()
        self._has_copies = True
        with self._naming_file():
            leaves = self._copy_leaves(wanted)
            if wanted.beside is not None:
                segment = self._encode(wanted.beside)
                leaves |= self._place_segment(segment, wanted.beside.schema.names)
            if wanted.facts is not None:
                self._note(wanted.facts)
            copied = {leaf.path for leaf in wanted.leaves}
            sorting = map_sorting(wanted.source, wanted.group, self._leaf_indexes(copied))
            self._add_group(wanted.group.num_rows, leaves, sorting)

    def close(self, before_sync: Callable[[], None] = lambda: None) -> WrittenFile:
        """Write the footer, read it back, and return the facts in it.

        ``before_sync`` is called when the file is written, and only has to become durable. There
        are null counts only if no row group was copied.

        Raises:
            VerificationError: the stored file differs from the written file.
            StorageError: the store failed.
        """
        with self._naming_file():
            self._flush()
            if not self._groups:
                # A file without rows begins with the magic too.
                self._begin(None)
            self._write_indexes()
            footer = self._write_footer()
            size_bytes = self._out.tell()
            before_sync()
            self._out.close()
            try:
                stored = self._verify(size_bytes, footer)
            except DataFileError as error:
                raise VerificationError(f"{self._name} {error.message}") from error
        file_stats = read_file_stats(stored.metadata, self._stats, self._facts())
        # Only a file that was verified stays after the block.
        self._is_done = True
        return WrittenFile(
            name=self._name,
            size_bytes=size_bytes,
            num_rows=self._num_rows,
            stats_json=encode_stats(file_stats, self._stats),
            null_counts={} if self._has_copies else read_null_counts(stored.metadata),
        )

    def _verify(self, size_bytes: int, footer: bytes) -> Footer:
        """Compare the stored file with what was written; return the stored footer."""
        store, name = self._store, self._name
        written = [chunks for _, chunks in self._groups]
        end: bytes | None = None
        starts: list[bytes] = []
        # On an object store, each read is a request: only a sample is read (ADR 22).
        if not self.is_local:
            end, starts = read_end_and_sample(store, name, size_bytes, written)
        stored = parse_footer(store, name, size_bytes, end)
        found = ensure_stored(name, stored, footer, self.columns)
        ensure_origins(found, written, self._ranges)
        if self.is_local:
            ensure_all_pages(store, found, written)
            ensure_copied(store, name, self._ranges)
        else:
            ensure_page_headers(name, starts)
        return stored

    def _begin(self, span: Span | None) -> Span | None:
        """Write the magic at the start of the file.

        If the first range to copy follows the magic of its file, copy both together.
        """
        if self._out.tell():
            return span
        # Written alone, these four bytes are too few for a part of an upload: S3 wants 5 MiB.
        if span is not None and span.start == len(MAGIC):
            return Span(0, span.length + len(MAGIC))
        self._out.write(MAGIC)
        return span

    def _flush(self) -> None:
        table = self._pending.take()
        if table.num_rows:
            self._write_group(table)

    def _write_group(self, table: pa.Table) -> None:
        cores = self._count_cores()
        parts = divide_columns(table, cores)
        encoded = each_in_parallel(self._encode, parts, at_once=cores)
        # After an error, no further part is encoded.
        with self._naming_file(), closing(encoded):
            leaves: dict[LeafPath, PlacedChunk] = {}
            for part, segment in zip(parts, encoded, strict=True):
                leaves |= self._place_segment(segment, part.schema.names)
            self._add_group(table.num_rows, leaves, [])

    def _encode(self, table: pa.Table) -> Segment:
        return encode_segment(table, self._options, self._stats)

    def _place_segment(self, segment: Segment, names: Sequence[str]) -> dict[LeafPath, PlacedChunk]:
        """Write the pages of encoded columns. The columns are in the order of ``names``."""
        self._note(segment.facts)
        self._begin(None)
        paths = [path for name in names for path in self._column(name).leaves]
        placed = {}
        for path, chunk in zip(paths, segment.chunks, strict=True):
            span = chunk_span(chunk)
            shift = self._out.tell() - span.start
            self._out.write(segment.data[span.start : span.end])
            pages = ensure_chunk_pages(chunk, span, segment.read)
            indexes = read_indexes(chunk, segment.read)
            placed[path] = PlacedChunk(relocate(chunk, shift), indexes, shift, pages)
        return placed

    def _copy_leaves(self, wanted: GroupCopy) -> dict[LeafPath, PlacedChunk]:
        source = wanted.source
        shifts = self._copy_spans(source, [leaf.span for leaf in wanted.leaves])
        return {
            leaf.path: place_copy(source, leaf, shifts[leaf.span.start], wanted.facts)
            for leaf in wanted.leaves
        }

    def _copy_spans(self, source: Source, spans: Sequence[Span]) -> dict[int, int]:
        """Copy ranges, adjacent ranges together. Return by how many bytes each start moved."""
        shifts: dict[int, int] = {}
        for run in join_spans(spans):
            whole = self._begin(run)
            assert whole is not None  # noqa: S101 - `_begin` returns a range for a range
            position = self._out.tell()
            self._out.copy(source.name, whole.start, whole.length)
            self._ranges.append(CopiedRange(position, Origin(source.name, whole)))
            shift = position - whole.start
            # `<=`, because an empty chunk may begin where its run ends.
            shifts |= {s.start: shift for s in spans if run.start <= s.start <= run.end}
        return shifts

    def _add_group(
        self, num_rows: int, leaves: Mapping[LeafPath, PlacedChunk], sorting: list[ThriftStruct]
    ) -> None:
        chunks = [leaves[path] for column in self.columns for path in column.leaves]
        group = build_row_group(num_rows, len(self._groups), chunks, sorting)
        self._groups.append((group, chunks))
        self._num_rows += num_rows

    def _write_indexes(self) -> None:
        for _, chunks in self._groups:
            for chunk in chunks:
                position = self._out.tell()
                data = place_indexes(chunk.tree, chunk.indexes, chunk.shift, position)
                if data:
                    self._out.write(data)

    def _write_footer(self) -> bytes:
        groups = ThriftList(Kind.STRUCT, [group for group, _ in self._groups])
        self._footer.set(FileMetaData.ROW_GROUPS, Kind.LIST, groups)
        self._footer.set(FileMetaData.NUM_ROWS, Kind.I64, self._num_rows)
        data = encode(self._footer)
        end = data + len(data).to_bytes(4, "little") + MAGIC
        self._out.write(end)
        return end

    def _column(self, name: str) -> StoredColumn:
        return next(column for column in self.columns if column.name == name)

    def _leaf_indexes(self, chosen: Set[LeafPath]) -> dict[LeafPath, int]:
        paths = (path for column in self.columns for path in column.leaves)
        return {path: index for index, path in enumerate(paths) if path in chosen}

    def _note(self, facts: FactCollector) -> None:
        self._floats_with_nan |= facts.nan_paths
        for path, nulls in facts.finish().nested_null_counts.items():
            self._nested_nulls[path] = self._nested_nulls.get(path, 0) + nulls

    def _facts(self) -> RowFacts:
        floats = {leaf.path for leaf in self._stats.leaves if leaf.kind == "float"}
        return RowFacts(frozenset(floats - self._floats_with_nan), self._nested_nulls)

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except VerificationError as error:
            if self._name in error.message:
                raise
            raise VerificationError(f"{self._name}: {error.message}") from error
        except (pa.ArrowException, OSError, ThriftError) as error:
            raise DataFileError(f"{self._name} cannot be written: {error}"[:500]) from error


def _empty_footer(schema: pa.Schema, options: WriteOptions) -> ThriftStruct:
    """Return the footer of a file without rows: the schema as Arrow writes it, and more columns."""
    buffer, undecoded = io.BytesIO(), options.undecoded
    writer = new_parquet(buffer, schema, options, [], None)
    # Arrow's writer knows only the columns that are decoded.
    if any(map(holds_times, undecoded)):
        writer.add_key_value_metadata(PROLEPTIC_CALENDAR)
    writer.close()
    tail = amend_footer(buffer.getvalue(), variants=options.variants)
    length = int.from_bytes(tail[-END_BYTES:-4], "little")
    footer = decode(tail[-END_BYTES - length : -END_BYTES])
    elements, orders = (
        footer.members(n) for n in (FileMetaData.SCHEMA, FileMetaData.COLUMN_ORDERS)
    )
    # Arrow counted only the columns that it knows.
    elements[0].set(SchemaElement.NUM_CHILDREN, Kind.I32, len(schema) + len(undecoded))
    for column in undecoded:
        elements += column.elements
        # Chunks with bounds in another order are not copied: see `copy_conditions`.
        orders += [_TYPE_ORDER] * len(column.leaves)
    return footer


def read_stored_columns(schema: pa.Schema, options: WriteOptions) -> list[StoredColumn]:
    """Return the columns of a file with this schema, in the form in which a footer stores them."""
    return read_columns(_empty_footer(schema, options))
