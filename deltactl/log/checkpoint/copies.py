"""Find row groups of an older checkpoint that can be copied into a new checkpoint.

All values of such a row group are read, as if they were encoded again: each row is an add that is
still live, and has the values that would be written. If anything is in doubt, the rows are encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from deltactl.errors import DeltactlError
from deltactl.log.checkpoint.key_digest import Fingerprint, KeyDigest
from deltactl.log.checkpoint.read import (
    FILE_COLUMNS,
    CheckpointHead,
    Piece,
    action_pieces,
    read_add_structs,
)
from deltactl.log.checkpoint.rows import add_structs
from deltactl.log.checkpoint.schema import CheckpointLayout
from deltactl.log.checkpoint.spliced_groups import GroupCopy, empty_footer
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.key_sets import KeySet
from deltactl.parquet.footer_bytes import TAIL_BYTES, parse_footer_bytes, read_footer_bytes
from deltactl.parquet.format import END_BYTES, ColumnChunk, ColumnMetaData, FileMetaData
from deltactl.parquet.splice.copy_conditions import codec_of, null_count
from deltactl.parquet.splice.pages import Pages
from deltactl.parquet.splice.schema import LeafPath, StoredColumn, read_columns
from deltactl.parquet.splice.source import Group, Source, ensure_chunk_pages, read_source
from deltactl.parquet.thrift import ThriftStruct
from deltactl.storage.store import Store

_LEAST_ROWS: Final = 1 << 15
_LEAST_BYTES: Final = 8 << 20
_MOST_FOOTER_BYTES: Final = 16 << 20
# PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, RLE_DICTIONARY
_ENCODINGS: Final = frozenset({0, 2, 3, 4, 8})
_PATH: Final = (b"add", b"path")


@dataclass(frozen=True, slots=True)
class CheckpointCopies:
    """An older checkpoint, and its row groups that are stored as the writer stores them.

    The files with such row groups stay open. ``num_groups`` counts all row groups of these files.
    """

    store: Store
    head: CheckpointHead
    groups: Sequence[GroupCopy] = field(repr=False)
    num_groups: Mapping[str, int]

    def rest(self, copied: Iterable[GroupCopy]) -> tuple[Piece, ...]:
        """Return the file actions without the adds of row groups that were copied."""
        opened = {copy.name: copy.opened for copy in self.groups}
        gone = {(copy.name, copy.group.index) for copy in copied}

        def without(piece: Piece) -> Piece:
            if (file := opened.get(piece.name)) is None:
                return piece
            numbers = range(self.num_groups[piece.name])
            rest = tuple(number for number in numbers if (piece.name, number) not in gone)
            return Piece(piece.name, rest, file)

        return tuple(map(without, action_pieces(self.head)))


def find_candidates(
    store: Store, head: CheckpointHead, layout: CheckpointLayout, stack: ExitStack
) -> CheckpointCopies:
    """Open the local files of a checkpoint that have row groups to copy; ``stack`` closes them."""
    groups: list[GroupCopy] = []
    num_groups: dict[str, int] = {}
    is_usual = layout.compat == "default" and not layout.partition_types
    if is_usual and layout.stats_type is None:
        footer = empty_footer(layout.whole_schema, layout)
        for piece in action_pieces(head):
            if piece.name.endswith(".json"):
                continue
            try:
                opened = stack.enter_context(store.open_input(piece.name))
                found, count = _find_groups(store, piece.name, opened, footer)
            except (DeltactlError, pa.ArrowException, OSError, ValueError):
                continue  # a later read raises the error, with the file name
            if found:
                groups += found
                num_groups[piece.name] = count
    return CheckpointCopies(store, head, groups, num_groups)


def find_live_group(
    copies: CheckpointCopies, copy: GroupCopy, gone: KeySet, layout: CheckpointLayout
) -> tuple[GroupCopy, Fingerprint] | None:
    """Return a row group with its pages and digest; ``None`` if it must be encoded.

    Args:
        copies: the older checkpoint.
        copy: one of its row groups.
        gone: the keys of files with an action in later commits.
        layout: that of the new checkpoint.
    """
    digest = KeyDigest()
    piece = Piece(copy.name, (copy.group.index,), copy.opened)
    try:
        for structs, table in read_add_structs(copies.store, copies.head, piece, FILE_COLUMNS):
            if len(gone) and gone.mask(file_keys(table)).true_count:
                return None
            (batch,) = table.to_batches()
            if not _are_same(structs, add_structs(batch, layout)):
                return None
            digest.add(batch)
        pages = _read_pages(copy)
    except (DeltactlError, pa.ArrowException, OSError, ValueError):
        return None  # a later read raises the error
    found = digest.finish()
    if found.count != copy.group.num_rows or any(each.has_v2 for each in pages.values()):
        return None
    return replace(copy, pages=pages), found


def _read_pages(copy: GroupCopy) -> dict[int, Pages]:
    """Read all page headers of the chunks to copy, and compare them with the footer."""

    def read(offset: int, length: int) -> bytes:
        data: bytes = copy.opened.read_at(length, offset)
        return data

    chunks, spans = copy.group.chunks, copy.group.spans
    leaves = copy.leaves.values()
    return {leaf: ensure_chunk_pages(chunks[leaf], spans[leaf], read) for leaf in leaves}


def _are_same(stored: pa.StructArray, wanted: pa.StructArray) -> bool:
    """Return whether stored structs have the wanted values, and null where they lack a member."""
    members = {stored.type.field(i).name for i in range(stored.type.num_fields)}
    return all(
        stored.field(member.name).equals(wanted.field(member.name))
        if member.name in members
        else wanted.field(member.name).null_count == len(wanted)
        for member in wanted.type
    )


def _find_groups(
    store: Store, name: str, opened: pa.NativeFile, footer: ThriftStruct
) -> tuple[list[GroupCopy], int]:
    """Return the row groups to copy into a file with this footer, and the number of all."""
    size = opened.size()
    tail = opened.read_at(min(TAIL_BYTES, size), max(0, size - TAIL_BYTES))
    needed = int.from_bytes(tail[-END_BYTES:-4], "little") + END_BYTES
    if needed > min(_MOST_FOOTER_BYTES, size):
        return [], 0
    if needed > len(tail):
        tail = opened.read_at(needed, size - needed)
    parsed = parse_footer_bytes(read_footer_bytes(store, name, size, tail), size)
    # Another writer, or another version of it, may describe the same values in another way.
    if parsed.metadata.created_by.encode() != footer.get(FileMetaData.CREATED_BY):
        return [], 0
    source = read_source(name, parsed)
    leaves = _find_leaves(source, read_columns(footer))
    groups = [group for group in source.groups if leaves and _may_copy(group, leaves)]
    return [GroupCopy(name, opened, group, leaves) for group in groups], len(source.groups)


def _find_leaves(source: Source, columns: Sequence[StoredColumn]) -> dict[LeafPath, int]:
    """Return the places of the leaves of ``add``; none if a member is stored in another way."""
    stored = source.columns.get("add")
    wanted = next(column for column in columns if column.name == "add")
    if stored is None or not source.has_orders or any(i is not None for i in stored.ids):
        return {}
    # A shape is name, repetition, annotation, and the shapes of the members.
    members = {shape[0]: shape for shape in wanted.shape[3:]}
    if stored.shape[:3] != wanted.shape[:3]:
        return {}
    if any(shape != members.get(shape[0], shape) for shape in stored.shape[3:]):
        return {}
    places = {path: stored.first_leaf + index for index, path in enumerate(stored.leaves)}
    if len(places) < len(stored.leaves):  # two members have one name
        return {}
    return {path: places[path] for path in wanted.leaves if path in places}


def _may_copy(group: Group, leaves: Mapping[LeafPath, int]) -> bool:
    """Return whether a row group is large, and stored with the settings of checkpoints."""
    size_bytes = sum(group.spans[leaf].length for leaf in leaves.values())
    if group.num_rows < _LEAST_ROWS and size_bytes < _LEAST_BYTES:
        return False
    chunks = [group.chunks[leaf] for leaf in leaves.values()]
    path = group.chunks[leaves[_PATH]] if _PATH in leaves else None
    return path is not None and null_count(path) == 0 and all(map(_has_usual_encodings, chunks))


def _has_usual_encodings(chunk: ThriftStruct) -> bool:
    encodings = chunk.struct(ColumnChunk.META_DATA).members(ColumnMetaData.ENCODINGS)
    return codec_of(chunk) == "snappy" and _ENCODINGS.issuperset(encodings)
