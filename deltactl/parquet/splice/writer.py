"""Write a data file of copied row groups and encoded rows, in the order in which they come.

Pages are copied byte for byte; only the footer and the offsets in the page indexes are new.

Source: the Parquet format, "File format"; parquet.thrift.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from deltactl.errors import DataFileError, DeltactlError, VerificationError
from deltactl.parquet.amend import amend_footer
from deltactl.parquet.facts import FactCollector
from deltactl.parquet.footer import RowFacts, read_file_stats
from deltactl.parquet.footer_bytes import Footer, parse_footer
from deltactl.parquet.format import (
    BOUNDS,
    END_BYTES,
    MAGIC,
    MAX_ROW_GROUPS,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
    SortingColumn,
)
from deltactl.parquet.splice.chunks import (
    Indexes,
    Span,
    chunk_span,
    place_indexes,
    read_indexes,
    relocate,
)
from deltactl.parquet.splice.legal import strip_bounds
from deltactl.parquet.splice.pages import Pages, Read, read_page_header
from deltactl.parquet.splice.schema import LeafPath, StoredColumn, read_columns
from deltactl.parquet.splice.segment import Segment, encode_segment
from deltactl.parquet.splice.source import (
    Group,
    LeafCopy,
    Source,
    ensure_chunk_pages,
    read_source,
)
from deltactl.parquet.thrift import Kind, ThriftError, ThriftList, ThriftStruct, decode, encode
from deltactl.parquet.writer import (
    PendingRows,
    WriteOptions,
    WrittenFile,
    ensure_storable,
    new_parquet,
)
from deltactl.protocol.stats import Path, encode_stats
from deltactl.protocol.stats_columns import StatsColumns
from deltactl.storage.assembly import open_assembly
from deltactl.storage.store import Store

ROOM_FOR_ROW_GROUPS: Final = MAX_ROW_GROUPS - 1024
"""No more row groups are copied: the rest of the rows still needs some."""

_SAMPLED_HEADERS: Final = 8
_SAMPLE_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class GroupCopy:
    """A row group to copy, with its leaves (see ``prepare_leaves``).

    ``beside`` holds the columns that are encoded instead, with as many rows. ``facts`` are those of
    copied columns whose rows were read.
    """

    source: Source
    group: Group
    leaves: Sequence[LeafCopy]
    beside: pa.Table | None = None
    facts: FactCollector | None = None


@dataclass(slots=True)
class _Chunk:
    """A chunk of the output: its metadata, and what is written after all pages."""

    tree: ThriftStruct
    indexes: Indexes
    shift: int
    pages: Pages | None = None


class SpliceWriter:
    """Writes one data file; leaving the ``with`` block before ``close`` discards it.

    The arguments and errors of ``DataFileWriter``.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        schema: pa.Schema,
        options: WriteOptions,
        stats: StatsColumns,
    ) -> None:
        ensure_storable(schema)
        self._store, self._name, self._schema = store, name, schema
        self._options, self._stats = options, stats
        self._footer = _empty_footer(schema, options)
        self.columns = read_columns(self._footer)
        self._groups: list[tuple[ThriftStruct, list[_Chunk]]] = []
        self._pending = PendingRows(schema, options)
        self._num_rows = 0
        self._floats_with_nan: set[Path] = set()
        self._nested_nulls: dict[Path, int] = {}
        self._is_done = False
        self._out = open_assembly(store, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_done:
            return
        self._pending.take()
        self._out.discard()
        with suppress(DeltactlError):
            self._store.delete_many([self._name])

    @property
    def is_local(self) -> bool:
        """Return whether page headers of the output can be read at no cost."""
        return self._out.is_local

    @property
    def num_groups(self) -> int:
        """Return the number of row groups so far, without pending rows."""
        return len(self._groups)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; they are kept until a row group is full, or another one is copied."""
        rows = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        for table in self._pending.add(rows):
            self._write_group(table)

    def copy(self, wanted: GroupCopy) -> None:
        """Append a row group, after all rows before it.

        Raises:
            StorageError: the source does not have the bytes.
            DataFileError: the source is not valid.
        """
        self._flush()
        with self._naming_file():
            leaves = self._copy_leaves(wanted)
            if wanted.beside is not None:
                segment = encode_segment(wanted.beside, self._options, self._stats)
                leaves |= self._place_segment(segment, wanted.beside.schema.names)
            if wanted.facts is not None:
                self._note(wanted.facts)
            sorting = _map_sorting(wanted.source, wanted.group, self._leaf_indexes())
            self._add_group(wanted.group.num_rows, leaves, sorting)

    def close(self) -> WrittenFile:
        """Write the footer, read it back and describe the file by it.

        Raises:
            VerificationError: what was stored is not what was written.
            StorageError: the store failed.
        """
        with self._naming_file():
            self._flush()
            if not self._groups:
                self._begin(None)
            self._write_indexes()
            footer = self._write_footer()
            size_bytes = self._out.tell()
            self._out.close()
            try:
                stored = parse_footer(self._store, self._name, size_bytes)
                self._ensure_stored(stored, footer)
            except DataFileError as error:
                raise VerificationError(f"{self._name} {error.message}") from error
        file_stats = read_file_stats(stored.metadata, self._stats, self._facts())
        self._is_done = True
        return WrittenFile(
            name=self._name,
            size_bytes=size_bytes,
            num_rows=self._num_rows,
            stats_json=encode_stats(file_stats, self._stats),
            null_counts={},
        )

    def _begin(self, span: Span | None) -> Span | None:
        """Write the magic at the start; copy it with the first range, if it comes right after."""
        if self._out.tell():
            return span
        if span is not None and span.start == len(MAGIC):
            return Span(0, span.length + len(MAGIC))
        self._out.write(MAGIC)
        return span

    def _flush(self) -> None:
        table = self._pending.take()
        if table.num_rows:
            self._write_group(table)

    def _write_group(self, table: pa.Table) -> None:
        with self._naming_file():
            segment = encode_segment(table, self._options, self._stats)
            leaves = self._place_segment(segment, self._schema.names)
            self._add_group(table.num_rows, leaves, [])

    def _place_segment(self, segment: Segment, names: Sequence[str]) -> dict[LeafPath, _Chunk]:
        """Write the pages of encoded columns, which are in the order of ``names``."""
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
            placed[path] = _Chunk(relocate(chunk, shift), indexes, shift, pages)
        return placed

    def _copy_leaves(self, wanted: GroupCopy) -> dict[LeafPath, _Chunk]:
        source = wanted.source
        shifts = self._copy_spans(source, [leaf.span for leaf in wanted.leaves])
        copied = {}
        for leaf in wanted.leaves:
            shift = shifts[leaf.span.start]
            tree = relocate(leaf.chunk, shift)
            strip_bounds(source, tree.struct(ColumnChunk.META_DATA))
            item = _Chunk(tree, leaf.indexes, shift, leaf.pages)
            copied[leaf.path] = _amend(item, leaf.path, wanted.facts)
        return copied

    def _copy_spans(self, source: Source, spans: Sequence[Span]) -> dict[int, int]:
        """Copy ranges, neighbours at once; return by how much each start moved."""
        shifts: dict[int, int] = {}
        for run in _join(spans):
            whole = self._begin(run)
            assert whole is not None  # noqa: S101 - `_begin` returns a range for a range
            position = self._out.tell()
            self._out.copy(source.name, whole.start, whole.length)
            shift = position - whole.start
            shifts |= {s.start: shift for s in spans if run.start <= s.start <= run.end}
        return shifts

    def _add_group(
        self, num_rows: int, leaves: Mapping[LeafPath, _Chunk], sorting: list[ThriftStruct]
    ) -> None:
        chunks = [leaves[path] for column in self.columns for path in column.leaves]
        trees = [chunk.tree for chunk in chunks]
        columns = [tree.struct(ColumnChunk.META_DATA) for tree in trees]
        group = ThriftStruct()
        group.set(RowGroup.COLUMNS, Kind.LIST, ThriftList(Kind.STRUCT, trees))
        for number, part in (
            (RowGroup.TOTAL_BYTE_SIZE, ColumnMetaData.TOTAL_UNCOMPRESSED_SIZE),
            (RowGroup.TOTAL_COMPRESSED_SIZE, ColumnMetaData.TOTAL_COMPRESSED_SIZE),
        ):
            group.set(number, Kind.I64, sum(column.integer(part) or 0 for column in columns))
        group.set(RowGroup.NUM_ROWS, Kind.I64, num_rows)
        if sorting:
            group.set(RowGroup.SORTING_COLUMNS, Kind.LIST, ThriftList(Kind.STRUCT, sorting))
        start = min((chunk_span(tree).start for tree in trees), default=len(MAGIC))
        group.set(RowGroup.FILE_OFFSET, Kind.I64, start)
        group.set(RowGroup.ORDINAL, Kind.I16, len(self._groups))
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

    def _ensure_stored(self, stored: Footer, written: bytes) -> None:
        """Compare the stored file with what was written.

        Raises:
            VerificationError: naming the difference.
        """
        if stored.data != written:
            raise VerificationError(f"{self._name}: the footer was stored in another form")
        found = read_source(self._name, stored)
        if list(found.columns.values()) != self.columns:
            raise VerificationError(f"{self._name}: the columns are not those of the table")
        (info,) = self._store.stat_many([self._name])
        if info is None or info.size_bytes != stored.size_bytes:
            raise VerificationError(f"{self._name} has another size than was written")
        if not self.is_local:
            self._ensure_some_pages(found)
            return
        with self._store.open_input(self._name) as opened:

            def read(offset: int, length: int) -> bytes:
                data: bytes = opened.read_at(length, offset)
                return data

            self._ensure_pages(found, read)

    def _ensure_some_pages(self, found: Source) -> None:
        """Parse some page headers, spread over the file."""
        spans = [span for group in found.groups for span in group.spans if span.length]
        sample = spans[:: max(-(-len(spans) // _SAMPLED_HEADERS), 1)]
        ranges = [(span.start, min(span.length, _SAMPLE_BYTES)) for span in sample]
        for data in self._store.read_ranges(self._name, ranges) if ranges else ():
            try:
                read_page_header(partial(_cut, data), 0, len(data))
            except ThriftError as error:
                raise VerificationError(f"{self._name}: {error}") from error

    def _ensure_pages(self, found: Source, read: Read) -> None:
        """Walk all pages, and compare them with those of the sources."""
        try:
            for group, (_, chunks) in zip(found.groups, self._groups, strict=True):
                for chunk, span, made in zip(group.chunks, group.spans, chunks, strict=True):
                    pages = ensure_chunk_pages(chunk, span, read)
                    if made.pages is not None and pages != made.pages:
                        raise ThriftError("the pages of a column chunk are not its source's")
        except ThriftError as error:
            raise VerificationError(f"{self._name}: {error}") from error

    def _column(self, name: str) -> StoredColumn:
        return next(column for column in self.columns if column.name == name)

    def _leaf_indexes(self) -> dict[LeafPath, int]:
        paths = (path for column in self.columns for path in column.leaves)
        return {path: index for index, path in enumerate(paths)}

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
        except DeltactlError:
            raise
        except (pa.ArrowException, OSError, ThriftError) as error:
            raise DataFileError(f"{self._name} cannot be written: {error}"[:500]) from error


def _empty_footer(schema: pa.Schema, options: WriteOptions) -> ThriftStruct:
    """Return the footer of a file without rows: the schema as Arrow writes it."""
    buffer = io.BytesIO()
    new_parquet(buffer, schema, options, [], None).close()
    footer = amend_footer(buffer.getvalue(), variants=options.variants)
    length = int.from_bytes(footer[-END_BYTES:-4], "little")
    return decode(footer[-END_BYTES - length : -END_BYTES])


def read_stored_columns(schema: pa.Schema, options: WriteOptions) -> list[StoredColumn]:
    """Return the columns of files of a schema, as they are stored."""
    return read_columns(_empty_footer(schema, options))


def _join(spans: Sequence[Span]) -> list[Span]:
    """Return ranges in order, with those that touch each other joined."""
    runs: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, each.length)):
        if runs and runs[-1].end == span.start:
            runs[-1] = Span(runs[-1].start, runs[-1].length + span.length)
        else:
            runs.append(span)
    return runs


def _amend(chunk: _Chunk, path: LeafPath, facts: FactCollector | None) -> _Chunk:
    """Remove from a copied chunk what readers would draw wrong conclusions from; see ``amend``."""
    if facts is None:
        return chunk
    column = chunk.tree.struct(ColumnChunk.META_DATA)
    if path in _encoded(facts.nan_paths):
        statistics = ThriftStruct(list(column.struct(ColumnMetaData.STATISTICS).fields))
        statistics.drop(BOUNDS)
        column.set(ColumnMetaData.STATISTICS, Kind.STRUCT, statistics)
        chunk.indexes = Indexes(None, chunk.indexes.offset_index, chunk.indexes.bloom_filter)
    if path in _encoded(facts.negative_zero_paths):
        column.drop({ColumnMetaData.ENCODING_STATS})
    return chunk


def _cut(data: bytes, offset: int, length: int) -> bytes:
    return data[offset : offset + length]


def _encoded(paths: frozenset[Path]) -> set[LeafPath]:
    return {tuple(name.encode() for name in path) for path in paths}


def _map_sorting(
    source: Source, group: Group, indexes: Mapping[LeafPath, int]
) -> list[ThriftStruct]:
    """Return the sorting columns, up to the first that the output lacks."""
    paths = [path for column in source.columns.values() for path in column.leaves]
    found = []
    for column in group.sorting:
        number = column.integer(SortingColumn.COLUMN_INDEX)
        if number is None or not 0 <= number < len(paths) or paths[number] not in indexes:
            break
        moved = ThriftStruct(list(column.fields))
        moved.set(SortingColumn.COLUMN_INDEX, Kind.I32, indexes[paths[number]])
        found.append(moved)
    return found
