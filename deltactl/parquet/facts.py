"""Collect facts about the rows of a data file while it is written: facts that its footer lacks."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.parquet.footer import RowFacts, index_leaves
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_columns import StatsColumns

_INTEGERS = {32: pa.int32(), 64: pa.int64()}


class FactCollector:
    """Find NaN and -0.0 in float leaves, and count null lists and maps."""

    def __init__(self, schema: pa.Schema, columns: StatsColumns) -> None:
        # Leaves inside lists and maps are not searched, because no reader uses their bounds.
        self._floats = {
            path: leaf.index
            for path, leaf in index_leaves(schema).items()
            if pa.types.is_floating(leaf.type)
        }
        self._nan_free = set(self._floats)
        self._zero_free = set(self._floats)
        self._nulls = {
            leaf.path: 0
            for leaf in columns.leaves
            # The rows may have only some columns: those that are encoded beside copied ones.
            if leaf.kind == "nested" and schema.get_field_index(leaf.path[0]) >= 0
        }

    def collect(self, rows: pa.Table) -> None:
        """Collect facts from rows. Few calls with many rows are cheaper than many calls."""
        # If NaN or -0.0 was found in a leaf, the leaf is not searched again.
        for path in tuple(self._nan_free):
            if pc.any(pc.is_nan(select_leaf(rows, path))).as_py():
                self._nan_free.discard(path)
        for path in tuple(self._zero_free):
            if _has_negative_zero(select_leaf(rows, path)):
                self._zero_free.discard(path)
        for path in self._nulls:
            self._nulls[path] += select_leaf(rows, path).null_count

    def finish(self) -> RowFacts:
        """Return the facts that are needed to build statistics."""
        return RowFacts(frozenset(self._nan_free), dict(self._nulls))

    @property
    def nan_paths(self) -> frozenset[FieldPath]:
        """Return the float leaves in which NaN was found."""
        return frozenset(self._floats.keys() - self._nan_free)

    @property
    def negative_zero_paths(self) -> frozenset[FieldPath]:
        """Return the float leaves in which -0.0 was found."""
        return frozenset(self._floats.keys() - self._zero_free)

    @property
    def nan_columns(self) -> frozenset[int]:
        """Return the Parquet indexes of the leaves in which NaN was found."""
        return frozenset(self._floats[path] for path in self.nan_paths)

    @property
    def negative_zero_columns(self) -> frozenset[int]:
        """Return the Parquet indexes of the leaves in which -0.0 was found."""
        return frozenset(self._floats[path] for path in self.negative_zero_paths)


def select_leaf(rows: pa.RecordBatch | pa.Table, path: FieldPath) -> pa.Array | pa.ChunkedArray:
    """Return the column of a leaf; it is null if a struct above it is null."""
    column = rows.column(rows.schema.get_field_index(path[0]))
    for name in path[1:]:
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def _has_negative_zero(column: pa.ChunkedArray) -> bool:
    # -0.0 has the same bits as the smallest integer.
    width = column.type.bit_width
    type_ = _INTEGERS[width]
    bits = pa.chunked_array([chunk.view(type_) for chunk in column.chunks], type_)
    return bool(pc.min(bits).as_py() == -(1 << (width - 1)))
