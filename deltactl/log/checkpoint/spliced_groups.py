"""Write the row groups of a checkpoint file: encoded, or copied from an older checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from deltactl.errors import StorageError, VerificationError
from deltactl.log.checkpoint.row_groups import open_parquet
from deltactl.log.checkpoint.schema import CheckpointLayout
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.format import END_BYTES, MAGIC, FileMetaData, RowGroup
from deltactl.parquet.splice.chunk_metadata import (
    CopiedRange,
    Origin,
    PlacedChunk,
    build_row_group,
    join_spans,
)
from deltactl.parquet.splice.chunks import Indexes, chunk_span, relocate
from deltactl.parquet.splice.pages import Pages
from deltactl.parquet.splice.schema import LeafPath, StoredColumn, read_columns
from deltactl.parquet.splice.source import Group
from deltactl.parquet.splice.verify import ensure_all_pages, ensure_origins, ensure_stored
from deltactl.parquet.thrift import Kind, ThriftList, ThriftStruct, decode, encode
from deltactl.storage.store import Replacement, Store

_COPIED_BYTES: Final = 1 << 20
_NO_INDEXES: Final = Indexes()


@dataclass(frozen=True, slots=True)
class GroupCopy:
    """A row group whose rows are adds only, of an open file.

    ``leaves`` are the places of the chunks to copy, with ``pages``; all other leaves are null.
    """

    name: str
    opened: pa.NativeFile = field(repr=False)
    group: Group
    leaves: Mapping[LeafPath, int] = field(repr=False)
    pages: Mapping[int, Pages] = field(repr=False, default_factory=dict)


def empty_footer(schema: pa.Schema, layout: CheckpointLayout) -> ThriftStruct:
    """Return the footer of a file without rows."""
    return _encode([], schema, layout)[1]


def _encode(
    tables: Sequence[pa.Table], schema: pa.Schema, layout: CheckpointLayout
) -> tuple[memoryview, ThriftStruct]:
    """Return a Parquet file with a row group for each table, and its footer."""
    buffer = pa.BufferOutputStream()
    with open_parquet(buffer, schema, layout) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)
    data = memoryview(buffer.getvalue())
    length = int.from_bytes(data[-END_BYTES:-4], "little")
    return data, decode(bytes(data[-END_BYTES - length : -END_BYTES]))


class SplicedGroups:
    """Encodes row groups in memory, and copies others byte for byte; writes the footer itself."""

    def __init__(self, sink: Replacement, schema: pa.Schema, layout: CheckpointLayout) -> None:
        self._sink, self._schema, self._layout = sink, schema, layout
        self._footer = empty_footer(schema, layout)
        self._columns: Sequence[StoredColumn] = read_columns(self._footer)
        self._paths = [path for column in self._columns for path in column.leaves]
        self._groups: list[tuple[ThriftStruct, list[PlacedChunk]]] = []
        self._ranges: list[CopiedRange] = []
        self._nulls: tuple[int, memoryview, list[ThriftStruct]] | None = None
        self._end = b""
        sink.write(MAGIC)

    def write(self, rows: pa.Table) -> None:
        """Encode rows as the next row group."""
        data, footer = _encode([rows], self._schema, self._layout)
        (group,) = footer.structs(FileMetaData.ROW_GROUPS)
        chunks = group.structs(RowGroup.COLUMNS)
        self._add(rows.num_rows, [self._place(data, chunk) for chunk in chunks])

    def copy(self, copy: GroupCopy) -> None:
        """Append the bytes of a row group.

        Raises:
            VerificationError: the file does not have these bytes.
            StorageError: it cannot be read.
        """
        num_rows = copy.group.num_rows
        shifts = self._copy_spans(copy)
        nulls, chunks = self._encode_nulls(num_rows)
        placed = []
        for path, null in zip(self._paths, chunks, strict=True):
            leaf = copy.leaves.get(path)
            if leaf is None:
                placed.append(self._place(nulls, null))
                continue
            span, shift = copy.group.spans[leaf], shifts[leaf]
            tree, origin = relocate(copy.group.chunks[leaf], shift), Origin(copy.name, span)
            placed.append(PlacedChunk(tree, _NO_INDEXES, shift, copy.pages[leaf], origin))
        self._add(num_rows, placed)

    def close(self) -> None:
        """Write the footer."""
        groups = ThriftList(Kind.STRUCT, [group for group, _ in self._groups])
        num_rows = sum(group.integer(RowGroup.NUM_ROWS) or 0 for group, _ in self._groups)
        self._footer.set(FileMetaData.ROW_GROUPS, Kind.LIST, groups)
        self._footer.set(FileMetaData.NUM_ROWS, Kind.I64, num_rows)
        data = encode(self._footer)
        self._end = data + len(data).to_bytes(4, "little") + MAGIC
        self._sink.write(self._end)

    def ensure_stored(self, store: Store, name: str, size_bytes: int) -> None:
        """Read the footer and all page headers back; compare them with the source.

        Raises:
            VerificationError: they differ.
            DataFileError: the stored footer is not valid.
        """
        stored = parse_footer(store, name, size_bytes)
        found = ensure_stored(name, stored, self._end, self._columns)
        written = [chunks for _, chunks in self._groups]
        ensure_origins(found, written, self._ranges)
        ensure_all_pages(store, found, written)

    def _copy_spans(self, copy: GroupCopy) -> dict[int, int]:
        """Copy ranges, adjacent ones together; return the shift of each leaf."""
        spans = {leaf: copy.group.spans[leaf] for leaf in copy.leaves.values()}
        shifts: dict[int, int] = {}
        for run in join_spans(list(spans.values())):
            position = self._sink.tell()
            for start in range(run.start, run.end, _COPIED_BYTES):
                length = min(_COPIED_BYTES, run.end - start)
                self._sink.write(_read_exactly(copy, start, length))
            self._ranges.append(CopiedRange(position, Origin(copy.name, run)))
            shift = position - run.start
            shifts |= {n: shift for n, s in spans.items() if run.start <= s.start <= run.end}
        return shifts

    def _encode_nulls(self, num_rows: int) -> tuple[memoryview, list[ThriftStruct]]:
        """Return an encoded row group of adds whose members are all null; keep the last result."""
        if self._nulls is None or self._nulls[0] != num_rows:
            members = list(self._layout.add_type)
            adds = [pa.nulls(num_rows, member.type) for member in members]
            columns = [
                pa.StructArray.from_arrays(adds, fields=members)
                if member.name == "add"
                else pa.nulls(num_rows, member.type)
                for member in self._schema
            ]
            data, footer = _encode(
                [pa.table(columns, schema=self._schema)], self._schema, self._layout
            )
            (group,) = footer.structs(FileMetaData.ROW_GROUPS)
            self._nulls = num_rows, data, group.structs(RowGroup.COLUMNS)
        return self._nulls[1:]

    def _place(self, data: memoryview, chunk: ThriftStruct) -> PlacedChunk:
        """Write the pages of an encoded chunk."""
        span = chunk_span(chunk)
        shift = self._sink.tell() - span.start
        self._sink.write(data[span.start : span.end])
        return PlacedChunk(relocate(chunk, shift), _NO_INDEXES, shift, None)

    def _add(self, num_rows: int, chunks: list[PlacedChunk]) -> None:
        group = build_row_group(num_rows, len(self._groups), chunks, ())
        self._groups.append((group, chunks))


def _read_exactly(copy: GroupCopy, start: int, length: int) -> bytes:
    try:
        data: bytes = copy.opened.read_at(length, start)
    except OSError as error:  # else the error would name the new file
        raise StorageError(f"{copy.name} cannot be read: {error}") from error
    if len(data) != length:
        raise VerificationError(f"{copy.name} ends inside a row group")
    return data
