"""Derive statistics of the log from Parquet footers.

Footers and statistics of the log differ. A footer has null counts of leaves: for lists and maps, it
counts null elements, not null lists. Its float bounds exclude NaN. The code that reads or writes
the rows provides the missing facts as :class:`RowFacts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import compress, pairwise
from operator import ne
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.parquet.calendar import first_common_value, is_in_legacy_calendar, is_time
from deltactl.parquet.nested import walk_leaves
from deltactl.protocol.stats import FieldPath, FileStats, LeafStats, Value
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf

_TIME_UNITS: Final = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


@dataclass(frozen=True, slots=True)
class RowFacts:
    """Facts that a footer lacks: which leaves have no NaN, and null counts of lists and maps."""

    nan_free: Set[FieldPath] = frozenset()
    nested_null_counts: Mapping[FieldPath, int] = field(default_factory=dict)


NO_FACTS = RowFacts()


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A leaf of the file: its index among all leaves, and its Arrow type."""

    index: int
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class LeafValues:
    """Statistics of one leaf of many files; ``None`` if unknown.

    Bounds have the form of :class:`LeafStats`, but strings are UTF-8 bytes, which may be invalid.
    """

    nulls: list[int | None]
    lower: list[Any]
    upper: list[Any]


def read_file_stats(
    metadata: pq.FileMetaData, columns: StatsColumns, facts: RowFacts = NO_FACTS
) -> FileStats:
    """Return statistics of a whole file for the leaves in ``columns``.

    Leaves that the file does not have are omitted.
    """
    reader = StatsReader(metadata.schema, columns, facts)
    reader.add(metadata)
    leaves = {
        path: LeafStats(
            values.nulls[0], decode_bound(values.lower[0]), decode_bound(values.upper[0])
        )
        for path, values in reader.finish().items()
    }
    return FileStats(metadata.num_rows, leaves)


def decode_bound(value: Any) -> Value | None:
    """Return a bound with its bytes as a string; ``None`` if they are not UTF-8."""
    if not isinstance(value, bytes):
        known: Value | None = value
        return known
    # Cut in the middle of a character, or written by a program that does not encode strings.
    with suppress(UnicodeDecodeError):
        return value.decode()
    return None


def index_leaves(schema: pa.Schema) -> dict[FieldPath, LeafColumn]:
    """Return leaves outside lists and maps by path; dotted paths in footers are ambiguous."""
    leaves = (leaf for member in schema for leaf in walk_leaves(member.type, (member.name,)))
    return {
        leaf.path: LeafColumn(index, leaf.type)
        for index, leaf in enumerate(leaves)
        if not leaf.repeated
    }


class StatsReader:
    """Read the statistics of footers that have the same schema. Keeps no footer."""

    def __init__(
        self, schema: pq.ParquetSchema, columns: StatsColumns, facts: RowFacts = NO_FACTS
    ) -> None:
        self._facts = facts
        self._num_rows: list[int] = []
        self._ends = [0]
        self._legacy: dict[str, list[bool]] = {}
        self._unstored: list[StatsLeaf] = []
        self._leaves: list[_LeafChunks] = []
        found = index_leaves(schema.to_arrow_schema())
        for leaf in columns.leaves:
            if leaf.kind in ("nested", "void"):
                self._unstored.append(leaf)
                continue
            # Every variant has metadata. So a variant is null if and only if its metadata are null.
            path = (*leaf.path, "metadata") if leaf.kind == "variant" else leaf.path
            if (column := found.get(path)) is not None:
                stored = schema.column(column.index).physical_type
                self._leaves.append(_LeafChunks(leaf, column, stored, facts))
                if is_time(column.type):
                    # By physical type, because Spark has a rule of its own for INT96.
                    self._legacy[stored] = []

    def add(self, footer: pq.FileMetaData) -> None:
        """Read the column chunks of a file.

        This is one loop without calls of functions, because a directory may have millions of
        chunks.
        """
        sinks = [
            (it.column.index, it.sizes.append, it.nulls.append, it.bounds) for it in self._leaves
        ]
        for number in range(footer.num_row_groups):
            column = footer.row_group(number).column
            for index, add_size, add_nulls, bounds in sinks:
                chunk = column(index)
                stats = chunk.statistics
                size = chunk.num_values
                add_size(size)
                if stats is None:
                    # Arrow writes no statistics for a chunk without values.
                    add_nulls(None if size else 0)
                else:
                    add_nulls(stats.null_count if stats.has_null_count else None)
                if bounds is not None:
                    known = stats is not None and stats.has_min_max
                    bounds[0].append(stats.min_raw if known else None)
                    bounds[1].append(stats.max_raw if known else None)
        self._num_rows.append(footer.num_rows)
        self._ends.append(self._ends[-1] + footer.num_row_groups)
        for stored, files in self._legacy.items():
            files.append(is_in_legacy_calendar(footer, stored))

    def finish(self) -> dict[FieldPath, LeafValues]:
        """Return the statistics of each leaf; leaves that the files do not have are omitted."""
        nothing: list[Any] = [None] * len(self._num_rows)
        found = {}
        for leaf in self._unstored:
            # No file stores void columns: they are null in every row.
            nulls: list[int | None] = [*self._num_rows]
            if leaf.kind == "nested":
                nulls = [self._facts.nested_null_counts.get(leaf.path)] * len(nulls)
            found[leaf.path] = LeafValues(nulls, nothing, nothing)
        spans = list(pairwise(self._ends))
        for it in self._leaves:
            lower, upper = it.merge_bounds(spans) or (nothing, nothing)
            if any(legacy := self._legacy.get(it.stored, ())) and is_time(it.column.type):
                _drop_ambiguous(lower, upper, legacy, it.column.type)
            found[it.leaf.path] = LeafValues(it.sum_nulls(spans), lower, upper)
        return found


class _LeafChunks:
    """One leaf of many footers: the facts of each column chunk, ``None`` if unknown."""

    def __init__(self, leaf: StatsLeaf, column: LeafColumn, stored: str, facts: RowFacts) -> None:
        self.leaf, self.column, self.stored = leaf, column, stored
        self.sizes: list[int] = []
        self.nulls: list[int | None] = []
        # Float bounds of footers exclude NaN.
        is_exact = leaf.kind != "float" or leaf.path in facts.nan_free
        has_bounds = leaf.has_bounds and is_exact and _has_order(leaf, column.type, stored)
        self.bounds: tuple[list[Any], list[Any]] | None = ([], []) if has_bounds else None

    def sum_nulls(self, spans: Sequence[tuple[int, int]]) -> list[int | None]:
        """Return the null count of each file.

        ``spans``: the first row group of each file, and the one after its last.
        """
        parts = (self.nulls[start:end] for start, end in spans)
        return [None if None in part else sum(filter(None, part)) for part in parts]

    def merge_bounds(self, spans: Sequence[tuple[int, int]]) -> tuple[list[Any], list[Any]] | None:
        """Return minimum and maximum of each file; unknown if a row group has none."""
        if self.bounds is None:
            return None
        # A chunk with only nulls has no bounds. The bounds of the other chunks are still valid.
        held = list(map(ne, self.nulls, self.sizes))
        lower, upper = (_comparable(values, self.column.type) for values in self.bounds)
        return (
            _scale(_merge(lower, held, spans, min), self.column.type, upper=False),
            _scale(_merge(upper, held, spans, max), self.column.type, upper=True),
        )


def _has_order(leaf: StatsLeaf, type_: pa.DataType, stored: str) -> bool:
    """Return whether bounds have a defined order, and the form that the leaf needs."""
    if pa.types.is_decimal(type_):
        return True
    # The format defines no order for INT96. Other types of fixed length get no bounds in the log.
    is_text = stored == "BYTE_ARRAY"
    return stored not in ("INT96", "FIXED_LEN_BYTE_ARRAY") and is_text == (leaf.kind == "string")


def _merge(
    values: Sequence[Any],
    held: Sequence[bool],
    spans: Sequence[tuple[int, int]],
    choose: Callable[[Sequence[Any]], Any],
) -> list[Any]:
    """Return one bound of each file from the bounds of its row groups."""
    merged = []
    for start, end in spans:
        # Most files have one row group.
        if end - start == 1:
            merged.append(values[start] if held[start] else None)
            continue
        part = list(compress(values[start:end], held[start:end]))
        merged.append(None if not part or None in part else choose(part))
    return merged


def _comparable(values: list[Any], type_: pa.DataType) -> list[Any]:
    """Return physical bounds in a form that can be compared."""
    if pa.types.is_decimal(type_):
        return [
            int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
            for raw in values
        ]
    if pa.types.is_unsigned_integer(type_):
        # The bound is stored as a signed integer of 32 or 64 bits.
        size = 1 << max(type_.bit_width, 32)
        return [None if raw is None else raw % size for raw in values]
    if pa.types.is_floating(type_):
        # Some writers store NaN as a bound, which then says nothing about the other values.
        return [None if raw != raw else raw for raw in values]  # noqa: PLR0124 - NaN
    return values


def _scale(values: list[Any], type_: pa.DataType, *, upper: bool) -> list[Any]:
    """Return bounds in the form of :class:`LeafStats`."""
    if pa.types.is_decimal(type_):
        # Create the decimal from a string: arithmetic would round to the digits of the decimal
        # context.
        return [None if v is None else Decimal(f"{v}e{-type_.scale}") for v in values]
    if not pa.types.is_timestamp(type_) or type_.unit == "us":
        return values
    # In integers, because a float would lose digits.
    times, over = _TIME_UNITS[type_.unit]
    # Rounded up and not down, so that no nanoseconds are above the bound.
    if upper:
        return [None if v is None else -(-v * times // over) for v in values]
    return [None if v is None else v * times // over for v in values]


def _drop_ambiguous(
    lower: list[Any], upper: list[Any], legacy: Sequence[bool], type_: pa.DataType
) -> None:
    """Remove bounds in the legacy calendar that differ in the proleptic one."""
    first = first_common_value(type_)
    for row in compress(range(len(legacy)), legacy):
        if lower[row] is not None and lower[row] < first:
            lower[row] = upper[row] = None
