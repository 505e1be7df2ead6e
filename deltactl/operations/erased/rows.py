"""Count the rows of data files that match, also those that deletion vectors hide.

A file may store a partition column too, with other values than the log. So each value of such a
column is compared: a row matches if it does with some choice of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, product
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltactl.errors import CorruptLogError, DataFileError, DeltactlError
from deltactl.numpy_types import Integers
from deltactl.operations.erased.found import Searched
from deltactl.operations.erased.report import NoColumnError, Where
from deltactl.operations.erased.schemas import Variant
from deltactl.operations.predicate.bounds import may_match
from deltactl.operations.predicate.terms import Column, ColumnRows
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.facts import select_leaf
from deltactl.parquet.footer import LeafColumn, index_leaves
from deltactl.parquet.open_files import read_deletion_vector
from deltactl.parquet.projection import cast_leaf
from deltactl.parquet.reader import LiveBatch, RowReader
from deltactl.protocol.deletion_vectors import DeletionVector, live_mask
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.protocol.schema import Field, PrimitiveType, StructType
from deltactl.storage.store import Store

# Types whose bounds in footers are in the order of the values, and are safe to read.
_ORDERED: Final = ("INT32", "INT64", "BYTE_ARRAY")
_TEXTS: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_OPENER: Final = RowReader(StructType(()), (), "none")
_NULL: Final = pa.scalar(None)


class RowSearch:
    """A search of data files for the rows of a predicate."""

    def __init__(self, store: Store, variants: Sequence[Variant]) -> None:
        pairs = [(it, _reader_of(it)) for it in variants]
        self._store = store
        self._places = [list(it) for _, it in groupby(pairs, lambda pair: pair[0].place)]

    def search(self, row: Mapping[str, Any], source: pa.NativeFile, searched: Searched) -> None:
        """Search a file, row of ``FILES``."""
        file = DataFile(row["name"], row["size_bytes"] or 0)
        values, is_named = row["partition_values"], row["partition_values"] is not None
        known = {key.lower(): it for key, it in (values if is_named else _values_of(file.path))}
        with _OPENER.open(self._store, file, source) as parquet:
            deleted = self._read_vector(row, file, searched)
            opened = _File(parquet, file, known, is_named, deleted, searched)
            counts = np.sum([opened.count_first(pairs) for pairs in self._places], axis=0)
        searched.counts["files_skipped"] += not searched.counts["rows"]
        is_live = row["place"] == Where.LIVE
        places = row["place"], Where.STORED if is_live else row["place"], Where.HIDDEN
        for place, count in zip(places, counts.tolist(), strict=True):
            if count:
                searched.add(place, file.path, rows=count, until_ms=row["until_ms"])

    def _read_vector(
        self, row: Mapping[str, Any], file: DataFile, searched: Searched
    ) -> BitMap64 | None:
        """Return the hidden rows; none if the vector cannot be read, which is a finding."""
        if row["deletion_vector"] is None:
            return None
        try:
            vector = DeletionVector(**row["deletion_vector"])
            return read_deletion_vector(self._store, replace(file, deletion_vector=vector))
        except DeltactlError as error:
            searched.add_unread(file.path, Where.HIDDEN, error)
            return None


def _values_of(name: str) -> list[tuple[str, str | None]]:
    """Return the partition values in the names of the directories of a file."""
    pairs = (part.partition("=") for part in name.split("/")[:-1] if "=" in part)
    return [(hive_unescape(key), hive_value(value)) for key, _, value in pairs]


def _reader_of(variant: Variant, texts: Container[str] = ()) -> RowReader:
    """Return the reader of the columns; those of ``texts`` are read as strings."""
    paths, mode = variant.fields.values(), variant.metadata.column_mapping_mode
    tops = {path[0].name: _prune(path[0], paths, mode) for path in paths}
    as_text = PrimitiveType("string")
    fields = (replace(it, type=as_text) if name in texts else it for name, it in tops.items())
    # Physical names too are compared without case, as some writers of Parquet change it.
    return RowReader(StructType(tuple(fields)), (), "id" if mode == "id" else "none")


def _prune(field: Field, paths: Iterable[Sequence[Field]], mode: str) -> Field:
    """Return a column with only those fields of its struct that the paths need."""
    below = [path[1:] for path in paths if path[0] == field and len(path) > 1]
    found = replace(field, name=field.physical_name if mode == "name" else field.name)
    if not isinstance(field.type, StructType) or not below:
        return found
    members = {path[0].name: _prune(path[0], below, mode) for path in below}
    return replace(found, type=StructType(tuple(members.values())))


@dataclass(frozen=True, slots=True)
class _File:
    """An open file; ``known``: its partition values in the log, or in names of directories."""

    parquet: pq.ParquetFile
    file: DataFile
    known: Mapping[str, str | None]
    is_named: bool
    deleted: BitMap64 | None
    searched: Searched

    def count_first(self, pairs: Sequence[tuple[Variant, RowReader]]) -> Integers:
        """Count by the first variant whose types the columns of the file have."""
        try:
            return self._count(*pairs[0])
        except (DataFileError, CorruptLogError) as error:
            if isinstance(error, NoColumnError) or len(pairs) == 1:
                raise
            return self.count_first(pairs[1:])

    def _count(self, variant: Variant, reader: RowReader) -> Integers:
        """Return how many rows match by the log, only by what the file stores, and are hidden."""
        schema = self.parquet.schema_arrow
        sources = reader.find_columns(schema, self.file.path)
        paths = variant.read_paths.items()
        stored = {name: it for name, path in paths if (it := sources[path[0]]) is not None}
        constants = dict(self._constants(variant, stored))
        if not (self.is_named or variant.fields.keys() <= stored.keys() | constants.keys()):
            raise NoColumnError("no action names it, and it lacks a column of the predicate")
        texts = [
            name
            for name in stored.keys() & variant.partition_names
            if not _is_readable(schema.field(stored[name]).type, variant.columns[name].type)
        ]
        reader = _reader_of(variant, texts) if texts else reader
        every = index_leaves(schema)
        leaves = {name: every.get((it,)) for name, it in stored.items()}
        groups = _choose_groups(self.parquet, variant, leaves, constants)
        self.searched.counts["groups_skipped"] += self.parquet.num_row_groups - len(groups)
        counts = np.zeros(3, np.int64)
        for _, run in groupby(enumerate(groups), lambda pair: pair[1] - pair[0]):
            for batch in reader.read_groups(self.parquet, self.file, None, [it for _, it in run]):
                logged, either = _find_rows(batch, variant, stored, constants)
                live: Any = self.deleted is None or live_mask(
                    self.deleted, batch.first_row, batch.num_physical_rows
                )
                only_stored = pc.and_not(either, logged)
                masks = pc.and_(logged, live), pc.and_(only_stored, live), pc.and_not(either, live)
                counts += [it.true_count for it in masks]
                self.searched.counts["rows"] += batch.num_physical_rows
        return counts

    def _constants(
        self, variant: Variant, stored: Container[str]
    ) -> Iterator[tuple[str, pa.Scalar]]:
        """Yield the values of columns in the log, or in the names of directories."""
        for name, path in variant.fields.items():
            names = path[0].physical_name.lower(), path[0].name.lower()
            key = next((it for it in names if it in self.known), None)
            # A directory of a file that no action names may be named by anything.
            if key is not None and (self.is_named or name not in stored):
                text = pa.array([self.known[key]], pa.string())
                kind = variant.columns[name].type
                yield name, parse_partition_column(text, kind, column=name)[0]


def _is_readable(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a file can be read as another type."""
    with suppress(pa.ArrowException):
        return cast_leaf(pa.nulls(0, stored), wanted) is not None
    return False


def _find_rows(
    batch: LiveBatch,
    variant: Variant,
    stored: Container[str],
    constants: Mapping[str, pa.Scalar],
) -> tuple[pa.Array, pa.Array]:
    """Return which rows match with the values in the log, and with any of those that they have."""
    count, values = batch.num_physical_rows, dict[str, list[pa.Array]]()
    for name, path in variant.read_paths.items():
        values[name] = [pa.repeat(constants[name], count)] if name in constants else []
        if name in stored or name not in constants:
            column = select_leaf(batch.columns, path)
            kind = variant.columns[name].type
            is_text = column.type != kind
            values[name].append(parse_partition_column(column, kind) if is_text else column)
    choices = (dict(zip(values, it, strict=True)) for it in product(*values.values()))
    matches = (variant.term.evaluate(ColumnRows(it, count)) for it in choices)
    masks = [pc.fill_null(it, False) for it in matches]
    return masks[0], reduce(pc.or_, masks)


def _choose_groups(
    parquet: pq.ParquetFile,
    variant: Variant,
    leaves: Mapping[str, LeafColumn | None],
    constants: Mapping[str, pa.Scalar],
) -> list[int]:
    """Return the row groups that may have a matching row, by the statistics of the footer.

    ``leaves`` are the columns that the file has; ``None``: in other forms than one leaf.
    """
    count = parquet.num_row_groups

    def find(column: Column) -> tuple[pa.Array, pa.Array] | None:
        constant = constants.get(column.name, _NULL)
        if column.name not in leaves:
            return (pa.repeat(constant, count),) * 2 if constant.is_valid else None
        leaf = leaves[column.name]
        bounds = None if leaf is None else _bounds(parquet, leaf, column.type)
        if bounds is None or not constant.is_valid:
            return bounds
        low, high = bounds
        return (
            pc.min_element_wise(low, constant, skip_nulls=False),
            pc.max_element_wise(high, constant, skip_nulls=False),
        )

    may = may_match(variant.term, find, count).to_pylist()
    return [index for index, has in enumerate(may) if has]


def _bounds(
    parquet: pq.ParquetFile, leaf: LeafColumn, wanted: pa.DataType
) -> tuple[pa.Array, pa.Array] | None:
    """Return the minimum and maximum of a column in each row group; null where unknown."""
    footer = parquet.metadata
    if parquet.schema.column(leaf.index).physical_type not in _ORDERED:
        return None
    if pa.types.is_string(wanted) and leaf.type not in _TEXTS:
        return None  # numbers have another order than their texts
    groups = (footer.row_group(it).column(leaf.index) for it in range(footer.num_row_groups))
    known = [it.statistics if it.is_stats_set else None for it in groups]
    bounds = [(it.min, it.max) if it and it.has_min_max else (None, None) for it in known]
    try:
        low, high = (pa.array(side, leaf.type) for side in zip(*bounds, strict=True))
        return cast_leaf(low, wanted), cast_leaf(high, wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None  # for example a truncated string that is not UTF-8
