"""Build the metadata of chunks and row groups of the output, after the pages were written.

Source: parquet.thrift, ``RowGroup``, ``ColumnChunk`` and ``SortingColumn``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltactl.parquet.facts import FactCollector
from deltactl.parquet.format import (
    BOUNDS,
    MAGIC,
    ColumnChunk,
    ColumnMetaData,
    RowGroup,
    SortingColumn,
)
from deltactl.parquet.splice.chunks import Indexes, Span, chunk_span, relocate
from deltactl.parquet.splice.copy_conditions import strip_bounds
from deltactl.parquet.splice.pages import Pages
from deltactl.parquet.splice.source import Group, LeafCopy, Source
from deltactl.parquet.stored_columns import LeafPath
from deltactl.parquet.thrift import Kind, ThriftList, ThriftStruct
from deltactl.protocol.stats import FieldPath


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a copied chunk in its source, as the footer of the source gives it."""

    source: str
    span: Span


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """Bytes of a source that were copied to ``position``."""

    position: int
    origin: Origin


@dataclass(slots=True)
class PlacedChunk:
    """A chunk of the output: its metadata, and the indexes that are written after all pages.

    ``origin`` is ``None`` if the chunk was encoded. ``pages`` is ``None`` if the page headers were
    not read.
    """

    tree: ThriftStruct
    indexes: Indexes
    shift: int
    pages: Pages | None
    origin: Origin | None = None


def place_copy(
    source: Source, leaf: LeafCopy, shift: int, facts: FactCollector | None
) -> PlacedChunk:
    """Return a chunk that was copied to a place ``shift`` bytes after its place in the source.

    Metadata that readers would interpret incorrectly are removed; see ``strip_bounds`` and
    ``amend``.
    """
    tree = relocate(leaf.chunk, shift)
    indexes = leaf.indexes
    column = tree.struct(ColumnChunk.META_DATA)
    # As those of the file, which are not copied: they may tell of rows that were deleted.
    column.drop({ColumnMetaData.KEY_VALUE_METADATA})
    strip_bounds(source, column)
    # The column index has bounds too.
    if not source.has_orders:
        indexes = Indexes(None, indexes.offset_index, indexes.bloom_filter)
    if facts is not None and leaf.path in _encoded(facts.nan_paths):
        # A copy, because the footer of the source has the same struct.
        statistics = ThriftStruct(list(column.struct(ColumnMetaData.STATISTICS).fields))
        statistics.drop(BOUNDS)
        column.set(ColumnMetaData.STATISTICS, Kind.STRUCT, statistics)
        indexes = Indexes(None, indexes.offset_index, indexes.bloom_filter)
    if facts is not None and leaf.path in _encoded(facts.negative_zero_paths):
        column.drop({ColumnMetaData.ENCODING_STATS})
    return PlacedChunk(tree, indexes, shift, leaf.pages, Origin(source.name, leaf.span))


def _encoded(paths: frozenset[FieldPath]) -> set[LeafPath]:
    return {tuple(name.encode() for name in path) for path in paths}


def build_row_group(
    num_rows: int, ordinal: int, chunks: Sequence[PlacedChunk], sorting: Sequence[ThriftStruct]
) -> ThriftStruct:
    """Return the metadata of a row group that consists of these chunks."""
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
        group.set(RowGroup.SORTING_COLUMNS, Kind.LIST, ThriftList(Kind.STRUCT, list(sorting)))
    start = min((chunk_span(tree).start for tree in trees), default=len(MAGIC))
    group.set(RowGroup.FILE_OFFSET, Kind.I64, start)
    group.set(RowGroup.ORDINAL, Kind.I16, ordinal)
    return group


def map_sorting(
    source: Source, group: Group, indexes: Mapping[LeafPath, int]
) -> list[ThriftStruct]:
    """Return the sorting columns, up to the first column that is not copied.

    ``indexes`` are the indexes of the copied leaves in the output.
    """
    paths = [path for column in source.columns.values() for path in column.leaves]
    found = []
    for column in group.sorting:
        number = column.integer(SortingColumn.COLUMN_INDEX)
        # Later columns are sorted only among rows with equal values of this one.
        if number is None or not 0 <= number < len(paths) or paths[number] not in indexes:
            break
        moved = ThriftStruct(list(column.fields))
        moved.set(SortingColumn.COLUMN_INDEX, Kind.I32, indexes[paths[number]])
        found.append(moved)
    return found


def join_spans(spans: Sequence[Span]) -> list[Span]:
    """Return ranges in order of their start; adjacent ranges are joined."""
    runs: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, each.length)):
        if runs and runs[-1].end == span.start:
            runs[-1] = Span(runs[-1].start, runs[-1].length + span.length)
        else:
            runs.append(span)
    return runs
