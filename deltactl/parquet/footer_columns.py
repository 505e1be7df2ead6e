"""Read statistics of many footers at once, as columns, with little Python per column chunk.

Three facts stay unknown:

- bounds of floats, because footers exclude NaN from them
- null counts of lists and maps, because footers count elements
- bounds of timestamps that Spark wrote in its legacy calendar
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate, compress
from operator import ne
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.parquet.calendar import is_in_legacy_calendar
from deltactl.parquet.footer import TIME_UNITS, LeafColumn, index_leaves
from deltactl.protocol.stats import Path
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.stats_encoding import LeafColumns, encode_bounds

Decode: TypeAlias = Callable[[Any], Any]

_TIMES = ("date", "timestamp", "timestamp_ntz")
_UNSIGNED_BITS = {"uint8": 32, "uint16": 32, "uint32": 32, "uint64": 64}


def read_leaf_columns(
    footers: Sequence[pq.FileMetaData], columns: StatsColumns
) -> dict[Path, LeafColumns]:
    """Return statistics of the leaves in ``columns`` from footers that have the same schema."""
    if not footers:
        return {}
    readers, unknown = _choose_readers(footers, columns)
    _read_chunks(footers, readers)
    ends = list(accumulate(footer.num_row_groups for footer in footers))
    spans = list(zip([0, *ends], ends, strict=False))
    return {path: LeafColumns(pa.nulls(len(footers), pa.int64())) for path in unknown} | {
        reader.leaf.path: reader.finish(spans, columns.string_prefix) for reader in readers
    }


def _choose_readers(
    footers: Sequence[pq.FileMetaData], columns: StatsColumns
) -> tuple[list[_LeafReader], list[Path]]:
    """Return a reader for each leaf in the footers, and the leaves whose facts are unknown."""
    schema = footers[0].schema
    arrow_schema = schema.to_arrow_schema()
    found = index_leaves(arrow_schema)
    legacy: dict[str, bool] = {}
    readers, unknown = [], []
    for leaf in columns.leaves:
        column = found.get(leaf.path)
        if leaf.kind in ("nested", "variant"):
            if leaf.path[0] in arrow_schema.names:
                unknown.append(leaf.path)
        elif column is not None:
            # The order of INT96 bounds is not defined.
            stored = schema.column(column.index).physical_type
            with_bounds = leaf.has_bounds and leaf.kind != "float" and stored != "INT96"
            if with_bounds and leaf.kind in _TIMES:
                if stored not in legacy:
                    legacy[stored] = any(is_in_legacy_calendar(f, stored) for f in footers)
                with_bounds = not legacy[stored]
            readers.append(_LeafReader(leaf, column, with_bounds))
    return readers, unknown


def _read_chunks(footers: Sequence[pq.FileMetaData], readers: Sequence[_LeafReader]) -> None:
    """Let each reader collect the facts of its column chunks, in the order of the row groups.

    This is one loop without calls of functions, and footer by footer, because a directory may have
    millions of chunks.
    """
    sinks = [(r.index, r.sizes.append, r.nulls.append, r.bounds.append) for r in readers]
    for footer in footers:
        for number in range(footer.num_row_groups):
            column = footer.row_group(number).column
            for index, add_size, add_nulls, add_bounds in sinks:
                chunk = column(index)
                stats = chunk.statistics
                size = chunk.num_values
                add_size(size)
                if stats is None:
                    # Arrow writes no statistics for a chunk without values.
                    add_nulls(None if size else 0)
                    add_bounds(None)
                else:
                    add_nulls(stats.null_count if stats.has_null_count else None)
                    add_bounds((stats.min_raw, stats.max_raw) if stats.has_min_max else None)


class _LeafReader:
    """The facts of one leaf of many footers: of each column chunk, ``None`` if unknown."""

    def __init__(self, leaf: StatsLeaf, column: LeafColumn, with_bounds: bool) -> None:
        self.leaf = leaf
        self.index = column.index
        self.sizes: list[int] = []
        self.nulls: list[int | None] = []
        self.bounds: list[tuple[Any, Any] | None] = []
        self._type = column.type
        self._with_bounds = with_bounds

    def finish(self, spans: Sequence[tuple[int, int]], prefix: int) -> LeafColumns:
        """Return the facts of files as columns.

        Args:
            spans: the first row group of each file, and the one after its last.
            prefix: the number of characters to which strings are truncated.
        """
        parts = [self.nulls[start:end] for start, end in spans]
        counts = pa.array(
            [None if None in part else sum(filter(None, part)) for part in parts], pa.int64()
        )
        if not self._with_bounds:
            return LeafColumns(counts)
        lower, upper = self._merge(spans)
        if pa.types.is_timestamp(self._type):
            times, over = TIME_UNITS[self._type.unit]
            lower = [None if v is None else v * times // over for v in lower]
            upper = [None if v is None else -(-v * times // over) for v in upper]
        kind = self.leaf.kind
        return LeafColumns(
            counts,
            encode_bounds(lower, kind, prefix, upper=False),
            encode_bounds(upper, kind, prefix, upper=True),
        )

    def _merge(self, spans: Sequence[tuple[int, int]]) -> tuple[list[Any], list[Any]]:
        """Return minimum and maximum of each file; both unknown if a row group lacks them."""
        bounds: list[tuple[Any, Any] | None] = self.bounds
        if (decode := _decoder(self._type)) is not None:
            bounds = [None if b is None else (decode(b[0]), decode(b[1])) for b in bounds]
        # A chunk with only nulls has no bounds. The bounds of the other chunks are still valid.
        held = list(map(ne, self.nulls, self.sizes))
        lower: list[Any] = []
        upper: list[Any] = []
        for start, end in spans:
            found = list(compress(bounds[start:end], held[start:end]))
            if not found or None in found:
                lower.append(None)
                upper.append(None)
            else:
                lower.append(min(b[0] for b in found if b))
                upper.append(max(b[1] for b in found if b))
        return lower, upper


def _decoder(type_: pa.DataType) -> Decode | None:
    """Return a function that makes a physical bound comparable; ``None`` if none is needed."""
    if pa.types.is_decimal(type_):
        scale = type_.scale
        return lambda raw: Decimal(f"{_to_integer(raw)}e{-scale}")
    if (bits := _UNSIGNED_BITS.get(str(type_))) is not None:
        # The bound is stored as a signed integer of this width.
        return lambda raw: raw % (1 << bits)
    return None


def _to_integer(raw: Any) -> int:
    return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
