"""Decide which column chunks can be copied into a file with another schema. No I/O.

Source: the Parquet format, parquet.thrift; docs/adr/0022-copy-row-groups.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from deltactl.parquet.calendar import legacy_columns
from deltactl.parquet.format import (
    BOUNDS,
    CODECS,
    OLD_BOUNDS,
    ColumnChunk,
    ColumnMetaData,
    SchemaElement,
    Statistics,
)
from deltactl.parquet.splice.source import Group, Source
from deltactl.parquet.stored_columns import StoredColumn
from deltactl.parquet.thrift import Kind, ThriftStruct
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.stats_encoding import truncate_maximum, truncate_minimum


class CopyRefusal(StrEnum):
    """Why rows, or a column of them, are encoded instead of copied."""

    SMALL = "below --min-row-group"
    DELETED = "deleted rows"
    INVALID = "footer or pages not valid"
    TOO_MANY = "too many row groups"
    MISSING = "column not in the file"
    TYPE = "column stored in another way"
    CODEC = "another codec"
    CALENDAR = "legacy calendar of Spark"
    STATISTICS = "statistics missing or inexact"
    ROW_IDS = "row ids to write"
    WRITER = "defective writer"
    CATEGORIES = "dictionary of categories"
    ENCODE = "--rewrite encode"
    LEVEL = "--codec with a level"

    @classmethod
    def of_all(cls, level: int | None) -> CopyRefusal:
        """Return why all row groups are encoded: pages do not say with which level."""
        return cls.ENCODE if level is None else cls.LEVEL


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The file to write: its columns in order, and facts about them.

    ``complete``: columns that are copied only if they have no null (columns of row tracking).
    ``computed``: columns that input files may have, but whose values come from the log. ``codec``:
    the codec that chunks must have; ``None`` if any codec is allowed. ``undecoded``: columns that
    are only copied, with any codec.
    """

    columns: Sequence[StoredColumn]
    stats: StatsColumns
    complete: Set[str] = frozenset()
    computed: Set[str] = frozenset()
    codec: str | None = None
    by_column: Mapping[str, Sequence[StatsLeaf]] = field(default_factory=dict)
    undecoded: Sequence[StoredColumn] = ()


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """The decision for a row group: columns to copy, and columns to encode with reasons."""

    copied: Sequence[str]
    encoded: Mapping[str, CopyRefusal]


def choose_columns(source: Source, group: Group, target: OutputSchema) -> GroupChoice:
    """Return which columns of a row group are copied. The row group has no deleted rows."""
    columns = [*target.columns, *target.undecoded]
    legacy = legacy_columns(source.metadata, {column.name for column in columns})
    copied: list[str] = []
    encoded: dict[str, CopyRefusal] = {}
    for column in columns:
        reason = _refuse(source, group, column, target)
        if reason is None and column.name in legacy and holds_times(column):
            reason = CopyRefusal.CALENDAR
        if reason is None:
            copied.append(column.name)
        else:
            encoded[column.name] = reason
    if target.complete & encoded.keys():  # computed together: encode all of them
        encoded |= {name: CopyRefusal.ROW_IDS for name in copied if name in target.complete}
        copied = [name for name in copied if name not in target.complete]
    return GroupChoice(copied, encoded)


def _refuse(
    source: Source, group: Group, wanted: StoredColumn, target: OutputSchema
) -> CopyRefusal | None:
    """Return why a column cannot be copied; ``None`` if it can be copied."""
    stored = source.columns.get(wanted.name)
    if wanted.name in target.computed:
        return CopyRefusal.MISSING
    if stored is None:
        return CopyRefusal.ROW_IDS if wanted.name in target.complete else CopyRefusal.MISSING
    chunks = chunks_of(group, stored)
    is_undecoded = wanted in target.undecoded
    if not (stored.elements == wanted.elements if is_undecoded else _is_alike(stored, wanted)):
        return CopyRefusal.TYPE
    codec = None if is_undecoded else target.codec
    if codec is not None and any(codec_of(chunk) != codec for chunk in chunks):
        return CopyRefusal.CODEC
    if _is_from_defective_writer(source.created_by, chunks):
        return CopyRefusal.WRITER
    # Its dictionary can have values of rows that were deleted.
    if wanted.name in source.categories and not is_undecoded:
        return CopyRefusal.CATEGORIES
    if wanted.name in target.complete and any(null_count(chunk) != 0 for chunk in chunks):
        return CopyRefusal.ROW_IDS
    leaves = target.by_column.get(wanted.name, ())
    is_described = all(_is_described(source, chunks, stored, leaf, target.stats) for leaf in leaves)
    # The output declares the usual order of bounds for columns that are not decoded.
    if not is_described or (is_undecoded and source.has_total_order):
        return CopyRefusal.STATISTICS
    return None


def _is_alike(stored: StoredColumn, wanted: StoredColumn) -> bool:
    has_ids = any(number is not None for number in wanted.ids)
    return stored.shape == wanted.shape and not (has_ids and stored.ids != wanted.ids)


def chunks_of(group: Group, column: StoredColumn) -> Sequence[ThriftStruct]:
    """Return the chunks of a column's leaves."""
    return group.chunks[column.first_leaf : column.first_leaf + len(column.leaves)]


def codec_of(chunk: ThriftStruct) -> str:
    """Return the name of the codec of a chunk."""
    number = chunk.struct(ColumnChunk.META_DATA).integer(ColumnMetaData.CODEC)
    return CODECS[number] if number is not None and 0 <= number < len(CODECS) else "unknown"


_DELTA_BYTE_ARRAY: Final = 7
PARQUET_MR: Final = re.compile(r"parquet-mr (?:compatible )?version (\d+)\.(\d+)")
_CPP: Final = re.compile(r"parquet-cpp version (\d+)\.(\d+)")
_SAFE_BYTE_ARRAYS: Final = (1, 8)
_SAFE_SIZES: Final = (1, 3)
_SAFE_PAGES: Final = (2, 0)


def _is_from_defective_writer(created_by: str, chunks: Sequence[ThriftStruct]) -> bool:
    """Return whether readers decode the pages in another way because a defective writer wrote them.

    parquet-mr before 1.8 wrote DELTA_BYTE_ARRAY pages that depend on each other (PARQUET-246).
    In files of parquet-mr before 1.2.9, the size of a chunk lacks a page header (PARQUET-816).
    Arrow before 2.0 marked compressed pages of version 2 as not compressed (ARROW-10353).
    """
    if (cpp := _CPP.match(created_by)) is not None:
        return _version(cpp) < _SAFE_PAGES
    found = PARQUET_MR.match(created_by)
    if found is None:
        return created_by.strip() == "parquet-mr"  # a version that is not known
    if _version(found) < _SAFE_SIZES:
        return True
    if _version(found) >= _SAFE_BYTE_ARRAYS:
        return False
    columns = (chunk.struct(ColumnChunk.META_DATA) for chunk in chunks)
    return any(_DELTA_BYTE_ARRAY in column.members(ColumnMetaData.ENCODINGS) for column in columns)


def _version(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2])


_INT96: Final = 3
_TIME_TYPES: Final = frozenset({6, 8})  # DATE and TIMESTAMP of LogicalType


def holds_times(column: StoredColumn) -> bool:
    """Return whether a column may have dates or timestamps: INT96, or with such a logical type."""
    kinds = (element.integer(SchemaElement.TYPE) for element in column.elements)
    return _INT96 in kinds or _has_time_types(column.shape)


def _has_time_types(shape: tuple[object, ...]) -> bool:
    return any(
        isinstance(part, tuple) and (bool(part and part[0] in _TIME_TYPES) or _has_time_types(part))
        for part in shape
    )


def null_count(chunk: ThriftStruct) -> int | None:
    """Return the null count of a chunk; ``None`` if the footer does not give it."""
    column = chunk.struct(ColumnChunk.META_DATA)
    if column.integer(ColumnMetaData.NUM_VALUES) == 0:
        return 0
    return column.struct(ColumnMetaData.STATISTICS).integer(Statistics.NULL_COUNT)


def _is_described(
    source: Source,
    chunks: Sequence[ThriftStruct],
    stored: StoredColumn,
    leaf: StatsLeaf,
    stats: StatsColumns,
) -> bool:
    """Return whether the footer has the same facts about a leaf as after encoding."""
    if leaf.kind in ("nested", "void"):
        return True  # no bounds are needed: nulls are counted from rows, or known
    path = tuple(name.encode() for name in leaf.path)
    if leaf.kind == "variant":
        path = (*path, b"metadata")
    if path not in stored.leaves:
        return False
    chunk = chunks[stored.leaves.index(path)]
    nulls = null_count(chunk)
    if nulls is None:
        return False
    column = chunk.struct(ColumnChunk.META_DATA)
    if not leaf.has_bounds or nulls == column.integer(ColumnMetaData.NUM_VALUES):
        return True
    return source.has_orders and _has_exact_bounds(
        column.struct(ColumnMetaData.STATISTICS), leaf, stats.string_prefix
    )


def _has_exact_bounds(statistics: ThriftStruct, leaf: StatsLeaf, prefix: int) -> bool:
    lower = statistics.get(Statistics.MIN_VALUE)
    upper = statistics.get(Statistics.MAX_VALUE)
    if not isinstance(lower, bytes) or not isinstance(upper, bytes):
        return False
    return leaf.kind != "string" or (
        _is_enough(lower, statistics.get(Statistics.IS_MIN_VALUE_EXACT), prefix, upper=False)
        and _is_enough(upper, statistics.get(Statistics.IS_MAX_VALUE_EXACT), prefix, upper=True)
    )


_USUAL_TRUNCATION: Final = 64
"""Writers that truncate bounds keep at least this many bytes of them."""


def _is_enough(bound: bytes, exact: object, prefix: int, *, upper: bool) -> bool:
    """Return whether a bound gives the same text in the log as the exact value would.

    The bound may be truncated.
    """
    if exact is True or (exact is None and len(bound) < _USUAL_TRUNCATION):
        return True
    try:
        text = bound.decode()
    except UnicodeDecodeError:
        return False
    # A writer may have increased the last character of the bound. So the text in the log must end
    # before this character.
    logged = truncate_maximum(text, prefix) if upper else truncate_minimum(text, prefix)
    return logged is not None and len(logged) < len(text)


def strip_bounds(source: Source, column: ThriftStruct) -> None:
    """Remove bounds that readers would interpret incorrectly in the output of deltactl."""
    found = column.struct(ColumnMetaData.STATISTICS)
    statistics = ThriftStruct(list(found.fields))
    statistics.drop(OLD_BOUNDS if source.has_orders else BOUNDS)
    if len(statistics.fields) < len(found.fields):
        column.set(ColumnMetaData.STATISTICS, Kind.STRUCT, statistics)
