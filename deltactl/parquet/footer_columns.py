"""Read statistics of many footers at once, as columns, with little Python per column chunk.

Three facts stay unknown:

- bounds of floats, because footers exclude NaN from them
- null counts of lists and maps, because footers count elements
- bounds of timestamps that Spark wrote in its legacy calendar
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.parquet.alike_footers import AlikeFooters
from deltactl.parquet.calendar import is_in_legacy_calendar
from deltactl.parquet.footer import TIME_UNITS, LeafColumn, index_leaves
from deltactl.protocol.stats import Path
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.stats_encoding import LeafColumns, encode_bounds

Decode: TypeAlias = Callable[[Any], Any]
_Chunks: TypeAlias = tuple[list[int | None], list[Any], list[Any]]
_File: TypeAlias = tuple[int | None, Any, Any]

_TIMES = ("date", "timestamp", "timestamp_ntz")
_UNSIGNED_BITS = {"uint8": 32, "uint16": 32, "uint32": 32, "uint64": 64}


def read_leaf_columns(
    footers: Sequence[pq.FileMetaData], columns: StatsColumns
) -> dict[Path, LeafColumns]:
    """Return statistics of the leaves in ``columns`` from footers that have the same schema."""
    if not footers:
        return {}
    readers, unknown = _choose_readers(footers, columns)
    groups = [[footer.row_group(i) for i in range(footer.num_row_groups)] for footer in footers]
    # Most files have one row group. Then one pass reads a leaf of all files.
    single = [file[0] for file in groups] if all(len(file) == 1 for file in groups) else None
    return _unknown(unknown, len(footers)) | {
        reader.leaf.path: reader.finish(
            reader.read_chunks(single) if single is not None else reader.read_files(groups),
            columns.string_prefix,
        )
        for reader in readers
    }


def read_alike_columns(
    footers: AlikeFooters, samples: Mapping[int, pq.FileMetaData], columns: StatsColumns
) -> dict[Path, LeafColumns] | None:
    """Return the result of :func:`read_leaf_columns` for footers that were decoded together.

    Args:
        footers: the decoded footers.
        samples: some of these footers as Arrow reads them, by their index.
        columns: the leaves.

    Returns:
        The statistics; ``None`` if Arrow reads other values from a sample.
    """
    readers, unknown = _choose_readers(list(samples.values()), columns)
    found = {}
    for reader in readers:
        chunks = reader.read_alike(footers)
        for place, sample in samples.items():
            # The values are compared as texts, because 1 and True are equal in Python.
            expected = [repr(column) for column in reader.read_chunks([sample.row_group(0)])]
            if [repr(column[place : place + 1]) for column in chunks] != expected:
                return None
        found[reader.leaf.path] = reader.finish(chunks, columns.string_prefix)
    return _unknown(unknown, len(footers)) | found


def _unknown(paths: Sequence[Path], num_files: int) -> dict[Path, LeafColumns]:
    return {path: LeafColumns(pa.nulls(num_files, pa.int64())) for path in paths}


def _choose_readers(
    footers: Sequence[pq.FileMetaData], columns: StatsColumns
) -> tuple[list[_LeafReader], list[Path]]:
    """Return a reader for each leaf in the footers, and the leaves whose facts are unknown."""
    schema = footers[0].schema
    arrow_schema = schema.to_arrow_schema()
    found = index_leaves(arrow_schema)
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
                with_bounds = not any(is_in_legacy_calendar(footer, stored) for footer in footers)
            readers.append(_LeafReader(leaf, column, with_bounds))
    return readers, unknown


class _LeafReader:
    """Read one leaf of many footers."""

    def __init__(self, leaf: StatsLeaf, column: LeafColumn, with_bounds: bool) -> None:
        self.leaf = leaf
        self._index = column.index
        self._type = column.type
        self._with_bounds = with_bounds

    def read_files(self, files: Sequence[Sequence[pq.RowGroupMetaData]]) -> _Chunks:
        """Return null counts and bounds of each file; a file is given as its row groups."""
        merged = [self._merge(groups) for groups in files]
        nulls, lower, upper = ([file[i] for file in merged] for i in range(3))
        return nulls, lower, upper

    def finish(self, found: _Chunks, prefix: int) -> LeafColumns:
        """Return the facts as columns; strings are truncated to ``prefix``."""
        nulls, lower, upper = found
        counts = pa.array(nulls, pa.int64())
        if not self._with_bounds:
            return LeafColumns(counts)
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

    def read_chunks(self, groups: Sequence[pq.RowGroupMetaData]) -> _Chunks:
        """Return null counts and bounds of the leaf in each row group; ``None`` if unknown."""
        index = self._index
        chunks = [group.column(index) for group in groups]
        found = [chunk.statistics for chunk in chunks]
        nulls = [
            (stats.null_count if stats.has_null_count else None)
            if stats is not None
            # Arrow writes no statistics for a chunk without values.
            else (0 if chunk.num_values == 0 else None)
            for stats, chunk in zip(found, chunks, strict=True)
        ]
        if not self._with_bounds:
            return nulls, [], []
        bounded = [stats if stats is not None and stats.has_min_max else None for stats in found]
        lower = [None if stats is None else stats.min_raw for stats in bounded]
        upper = [None if stats is None else stats.max_raw for stats in bounded]
        return nulls, self._decode(lower), self._decode(upper)

    def read_alike(self, footers: AlikeFooters) -> _Chunks:
        """Return null counts and bounds of the only row group of each footer."""
        nulls = footers.null_counts(self._index)
        if not self._with_bounds:
            return nulls, [], []
        lower, upper = footers.bounds(self._index)
        return nulls, self._decode(lower), self._decode(upper)

    def _decode(self, bounds: list[Any]) -> list[Any]:
        decode = _decoder(self._type)
        if decode is None:
            return bounds
        return [None if raw is None else decode(raw) for raw in bounds]

    def _merge(self, groups: Sequence[pq.RowGroupMetaData]) -> _File:
        """Merge the row groups of a file. A fact that one of them lacks is unknown for the file."""
        nulls, lower, upper = self.read_chunks(groups)
        sizes = [group.column(self._index).num_values for group in groups]
        # A chunk with only nulls has no bounds. The bounds of the other chunks are still valid.
        held = [i for i, size in enumerate(sizes) if nulls[i] != size and self._with_bounds]
        lower, upper = [lower[i] for i in held], [upper[i] for i in held]
        return (
            None if None in nulls else sum(n for n in nulls if n is not None),
            None if not lower or None in lower else min(lower),
            None if not upper or None in upper else max(upper),
        )


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
