"""Open a Parquet file to copy from it, and check its footer against the file.

An invalid footer raises ``DataFileError``. Then the caller decodes the file instead. This can still
succeed, because Arrow accepts files that cannot be copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

import pyarrow.parquet as pq

from deltactl.errors import DataFileError
from deltactl.parquet.broken_footers import find_broken_footers
from deltactl.parquet.dictionaries import find_categories
from deltactl.parquet.footer_bytes import Footer
from deltactl.parquet.format import (
    CODECS,
    END_BYTES,
    ColumnChunk,
    ColumnMetaData,
    ColumnOrder,
    FileMetaData,
    RowGroup,
    Statistics,
)
from deltactl.parquet.splice.chunks import (
    Indexes,
    Span,
    chunk_span,
    index_ranges,
    page_offsets,
    read_indexes,
)
from deltactl.parquet.splice.pages import Pages, Read, walk_pages
from deltactl.parquet.stored_columns import LeafPath, StoredColumn, read_columns
from deltactl.parquet.thrift import ThriftError, ThriftStruct, decode


@dataclass(frozen=True, slots=True)
class Group:
    """A row group: its chunks as in the footer, and the ranges of bytes with their pages."""

    index: int
    first_row: int
    num_rows: int
    chunks: Sequence[ThriftStruct] = field(repr=False)
    spans: Sequence[Span] = field(repr=False)
    sorting: Sequence[ThriftStruct] = ()

    @property
    def compressed_bytes(self) -> int:
        """Return the size of the pages of the row group."""
        return sum(span.length for span in self.spans)


@dataclass(frozen=True, slots=True)
class Source:
    """A file to copy from. ``columns`` has its columns by name.

    ``has_orders``: the format defines the order of all its bounds. ``has_total_order``: some of its
    bounds have the order of IEEE 754. ``categories``: see ``find_categories``.
    """

    name: str
    size_bytes: int
    columns: Mapping[str, StoredColumn] = field(repr=False)
    groups: Sequence[Group] = field(repr=False)
    created_by: str
    has_orders: bool
    has_total_order: bool
    categories: Set[str]
    metadata: pq.FileMetaData = field(repr=False)


def read_source(name: str, footer: Footer) -> Source:
    """Return a file from which row groups can be copied.

    Raises:
        DataFileError: the footer is not valid, or its row groups cannot be copied.
    """
    if broken := find_broken_footers([footer]):
        raise broken[0]
    try:
        return _read_source(name, footer)
    except ThriftError as error:
        raise DataFileError(f"has a footer that is not valid: {error}") from error


def _read_source(name: str, footer: Footer) -> Source:
    tree = decode(footer.data[:-END_BYTES])
    columns = read_columns(tree)
    by_name = {column.name: column for column in columns}
    if len(by_name) < len(columns):
        raise ThriftError("two columns have the same name")
    groups: list[Group] = []
    first_row = 0
    for index, member in enumerate(tree.structs(FileMetaData.ROW_GROUPS)):
        groups.append(_read_group(index, first_row, member, columns))
        first_row += groups[-1].num_rows
    if first_row != tree.integer(FileMetaData.NUM_ROWS):
        raise ThriftError(
            "the numbers of rows of the row groups do not add up to the number in the footer"
        )
    _ensure_apart(groups, footer.size_bytes - len(footer.data))
    created_by = tree.get(FileMetaData.CREATED_BY)
    orders = _read_orders(tree)
    num_leaves = sum(len(column.leaves) for column in columns)
    return Source(
        name=name,
        size_bytes=footer.size_bytes,
        columns=by_name,
        groups=groups,
        created_by=created_by.decode(errors="replace") if isinstance(created_by, bytes) else "",
        has_orders=len(orders) == num_leaves and None not in orders,
        has_total_order=ColumnOrder.IEEE_754_TOTAL_ORDER in orders,
        categories=find_categories(footer.metadata),
        metadata=footer.metadata,
    )


def _read_orders(tree: ThriftStruct) -> list[ColumnOrder | None]:
    """Return the order of the bounds of each leaf; ``None`` if the order is unknown."""
    unions = tree.structs(FileMetaData.COLUMN_ORDERS)
    return [
        next((order for order in ColumnOrder if union.get(order) is not None), None)
        for union in unions
    ]


def _read_group(
    index: int, first_row: int, group: ThriftStruct, columns: Sequence[StoredColumn]
) -> Group:
    num_rows = group.integer(RowGroup.NUM_ROWS)
    if num_rows is None or num_rows < 0:
        raise ThriftError("a row group has no number of rows")
    chunks = group.structs(RowGroup.COLUMNS)
    leaves = [leaf for c in columns for leaf in zip(c.leaves, c.repeated, strict=True)]
    if len(chunks) != len(leaves):
        raise ThriftError("a row group and the schema have different numbers of columns")
    for chunk, (path, repeated) in zip(chunks, leaves, strict=True):
        metadata = chunk.struct(ColumnChunk.META_DATA)
        if tuple(metadata.members(ColumnMetaData.PATH)) != path:
            raise ThriftError(
                "the path of a column chunk differs from the path of its column in the schema"
            )
        values = metadata.integer(ColumnMetaData.NUM_VALUES)
        if values is None or values < num_rows or (values > num_rows and not repeated):
            raise ThriftError(
                "the number of values in a column chunk does not match its number of rows"
            )
        _ensure_bounds(metadata)
        _ensure_counts(metadata, values)
        if not 0 <= (metadata.integer(ColumnMetaData.CODEC) or 0) < len(CODECS):
            raise ThriftError("a column chunk has an unknown codec")
        if {ColumnChunk.FILE_PATH, ColumnChunk.CRYPTO_METADATA} & {f[0] for f in chunk.fields}:
            raise ThriftError("a column chunk is encrypted, or in another file")
    return Group(
        index=index,
        first_row=first_row,
        num_rows=num_rows,
        chunks=chunks,
        spans=[chunk_span(chunk) for chunk in chunks],
        sorting=group.structs(RowGroup.SORTING_COLUMNS),
    )


_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""How many bytes a value of each physical type has. Byte arrays are not included."""


def _ensure_bounds(metadata: ThriftStruct) -> None:
    """Raise an error for bounds that are not as long as values: Arrow would end the process."""
    width = _WIDTHS.get(metadata.integer(ColumnMetaData.TYPE) or 0)
    statistics = metadata.struct(ColumnMetaData.STATISTICS)
    for number in (Statistics.MAX, Statistics.MIN, Statistics.MAX_VALUE, Statistics.MIN_VALUE):
        bound = statistics.get(number)
        if bound is not None and not (isinstance(bound, bytes) and width in (None, len(bound))):
            raise ThriftError(
                "a minimum or maximum in the statistics of a column chunk has the wrong length for "
                "the type of the column"
            )


def _ensure_counts(metadata: ThriftStruct, values: int) -> None:
    """Raise an error for counts that are impossible for the number of values of a chunk."""
    statistics = metadata.struct(ColumnMetaData.STATISTICS)
    for number in (Statistics.NULL_COUNT, Statistics.NAN_COUNT):
        if not 0 <= (statistics.integer(number) or 0) <= values:
            raise ThriftError("a column chunk has more nulls or NaN than values")
    if values and not metadata.integer(ColumnMetaData.TOTAL_COMPRESSED_SIZE):
        raise ThriftError("a column chunk has values, but no pages")


def _ensure_apart(groups: Sequence[Group], end: int) -> None:
    """Raise an error for chunks that overlap each other or the footer."""
    spans = sorted((s.start, s.end) for group in groups for s in group.spans if s.length)
    if spans and spans[-1][1] > end:
        raise ThriftError("a column chunk is beyond the end of the file")
    if any(start < before for (_, before), (start, _) in pairwise(spans)):
        raise ThriftError("two column chunks overlap")


@dataclass(frozen=True, slots=True)
class LeafCopy:
    """A chunk to copy: its metadata and indexes, and its pages if page headers were read."""

    path: LeafPath
    chunk: ThriftStruct = field(repr=False)
    span: Span
    indexes: Indexes = field(repr=False)
    pages: Pages | None = field(repr=False)


ReadRanges: TypeAlias = Callable[[Sequence[tuple[int, int]]], Sequence[bytes]]
"""``read_ranges([(offset, length), ...]) -> [bytes, ...]``; fewer bytes at the end of the file."""


def prepare_leaves(
    source: Source, group: Group, names: Sequence[str], read_ranges: ReadRanges, *, walk: bool
) -> list[LeafCopy]:
    """Read the metadata and indexes that are needed to copy columns of a row group.

    Args:
        source: the file.
        group: one of its row groups.
        names: the names of the columns.
        read_ranges: reads the file.
        walk: whether to check all page headers.

    Raises:
        DataFileError: indexes or pages are not valid, or differ from the footer.
    """
    columns = [source.columns[name] for name in names]
    leaves = [(c.first_leaf + i, path) for c in columns for i, path in enumerate(c.leaves)]
    chunks = [group.chunks[leaf] for leaf, _ in leaves]
    ranges = [range_ for chunk in chunks for range_ in index_ranges(chunk)]
    if any(start + length > source.size_bytes for start, length in ranges):
        raise DataFileError(f"{source.name!r} has an index that lies beyond the end of the file")
    # One call for all indexes: on an object store, each call is at least one request.
    found = dict(zip(ranges, read_ranges(ranges) if ranges else (), strict=True))

    def read(offset: int, length: int) -> bytes:
        data = found.get((offset, length))
        # A Bloom filter of older writers is not among them: only its header has its length.
        return read_ranges([(offset, length)])[0] if data is None else data

    try:
        return [
            _prepare_leaf(path, group.chunks[leaf], group.spans[leaf], read, walk=walk)
            for leaf, path in leaves
        ]
    except ThriftError as error:
        raise DataFileError(
            f"{source.name!r} has column chunks that are not valid: {error}"
        ) from error


def _prepare_leaf(
    path: LeafPath, chunk: ThriftStruct, span: Span, read: Read, *, walk: bool
) -> LeafCopy:
    indexes = read_indexes(chunk, read)
    pages = ensure_chunk_pages(chunk, span, read) if walk else None
    if indexes.offset_index is not None:
        offsets = page_offsets(indexes.offset_index, span)
        if pages is not None and not offsets <= {span.start + start for start, _ in pages.heads}:
            raise ThriftError("an offset index lists pages that its column chunk does not have")
    return LeafCopy(path, chunk, span, indexes, pages)


def ensure_chunk_pages(chunk: ThriftStruct, span: Span, read: Read) -> Pages:
    """Read the page headers of one chunk, and return its pages.

    Raises:
        ThriftError: a page header is not valid, or the sums of the pages differ from the metadata.
    """
    pages = walk_pages(read, span.start, span.length)
    ensure_described(chunk, span, pages)
    return pages


def ensure_described(chunk: ThriftStruct, span: Span, pages: Pages) -> None:
    """Compare the metadata of a chunk with its pages.

    Raises:
        ThriftError: the metadata and the pages differ.
    """
    column = chunk.struct(ColumnChunk.META_DATA)
    if pages.num_values != column.integer(ColumnMetaData.NUM_VALUES):
        raise ThriftError(
            "the pages of a column chunk have another number of values than its metadata"
        )
    data = column.integer(ColumnMetaData.DATA_PAGE_OFFSET) or 0
    dictionary_first = bool(column.integer(ColumnMetaData.DICTIONARY_PAGE_OFFSET))
    starts = {span.start + start for start, _ in pages.heads}
    if pages.heads and data not in starts:
        raise ThriftError("the first data page is not at the offset in the metadata")
    if pages.is_compressed and not column.integer(ColumnMetaData.CODEC):
        raise ThriftError(
            "the pages of a column chunk are compressed, but the metadata of the chunk has no codec"
        )
    if dictionary_first and not pages.has_dictionary:
        raise ThriftError("the dictionary page of a column chunk is missing")
