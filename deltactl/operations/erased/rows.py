"""Count the rows of data files that match, also those that deletion vectors hide.

A file may store a partition column too, with other values than the log. So each value of such a
column is compared: a row matches if it does with some choice of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
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
from deltactl.operations.erased.sought import Sought, count_true
from deltactl.operations.erased.texts import footer_has_value
from deltactl.operations.predicate.bounds import held_by, may_match
from deltactl.operations.predicate.terms import Column, ColumnRows
from deltactl.parquet.broken_footers import ensure_valid_columns
from deltactl.parquet.dictionaries import read_suspects
from deltactl.parquet.facts import select_leaf
from deltactl.parquet.footer import LeafColumn, index_leaves
from deltactl.parquet.open_files import load_deletion_vector
from deltactl.parquet.projection import FileFields, Matcher, cast_leaf, ensure_field_ids
from deltactl.parquet.reader import DEFAULT_BATCH_ROWS, read_batches
from deltactl.protocol.deletion_vectors import DeletionVector, live_mask
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.protocol.stats import FieldPath
from deltactl.storage.store import Store

# Types whose bounds in footers are in the order of the values, and are safe to read.
_ORDERED: Final = ("INT32", "INT64", "BYTE_ARRAY")
_TEXTS: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_NULL: Final = pa.scalar(None)


class RowSearch:
    """A search of data files for the rows of a predicate."""

    def __init__(self, store: Store, sought: Sought) -> None:
        self._store, self._sought = store, sought
        self._places = [list(it) for _, it in groupby(sought.variants, lambda it: it.place)]

    def search(self, row: Mapping[str, Any], source: pa.NativeFile, searched: Searched) -> None:
        """Search a file, row of ``FILES``."""
        name, values, is_named = row["name"], row["partition_values"], True
        if values is None:
            values, is_named = _values_of(name), False
        known = {key.lower(): value for key, value in values}
        # As Spark reads INT96; nanoseconds end in the year 2262.
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as parquet:
            ensure_valid_columns(parquet.metadata, source.size())
            deleted = self._read_vector(row, searched)
            file = _File(
                parquet, source, parquet.schema_arrow, name, known, is_named, deleted, searched
            )
            try:
                counts = np.sum([file.count_first(it) for it in self._places], axis=0)
            except NoColumnError as error:  # a caller would add the name to the reason
                searched.add_unread(name, row["place"], error)
                return
            has_text = footer_has_value(parquet.metadata, file.schema, self._sought)
        is_skipped = not (searched.counts["rows"] or searched.counts["dictionaries"])
        searched.counts["files_skipped"] += is_skipped
        is_live = row["place"] == Where.LIVE
        *of_rows, unused = counts.tolist()
        places = row["place"], Where.STORED if is_live else row["place"], Where.HIDDEN
        for place, count in zip(places, of_rows, strict=True):
            if count:
                searched.add(place, name, rows=count, until_ms=row["until_ms"])
        # What deletes the rows of a file rewrites the file.
        parts = {"dictionaries": unused, "key-value metadata": has_text}
        for part, count in parts.items() if not any(of_rows) else ():
            if count:
                place = Where.BESIDE if is_live else row["place"]
                shown = (part,) if is_live else ()
                searched.add(place, name, entries=count, parts=shown, until_ms=row["until_ms"])

    def _read_vector(self, row: Mapping[str, Any], searched: Searched) -> BitMap64 | None:
        """Return the hidden rows; none if the vector cannot be read, which is a finding."""
        if row["deletion_vector"] is None:
            return None
        try:
            return load_deletion_vector(self._store, DeletionVector(**row["deletion_vector"]))
        except DeltactlError as error:
            searched.add_unread(row["name"], Where.HIDDEN, error)
            return None


def _values_of(name: str) -> list[tuple[str, str | None]]:
    """Return the partition values in the names of the directories of a file."""
    pairs = (part.partition("=") for part in name.split("/")[:-1] if "=" in part)
    return [(hive_unescape(key), hive_value(value)) for key, _, value in pairs]


@dataclass(frozen=True, slots=True)
class _File:
    """An open file; ``known``: its partition values in the log, or in names of directories."""

    parquet: pq.ParquetFile
    source: pa.NativeFile
    schema: pa.Schema
    name: str
    known: Mapping[str, str | None]
    is_named: bool
    deleted: BitMap64 | None
    searched: Searched

    def count_first(self, variants: Sequence[Variant]) -> Integers:
        """Count by the first variant whose types the columns of the file have."""
        try:
            return self._count(variants[0])
        except (DataFileError, CorruptLogError) as error:
            if isinstance(error, NoColumnError) or len(variants) == 1:
                raise
            return self.count_first(variants[1:])

    def _count(self, variant: Variant) -> Integers:
        """Return how many rows match by the log, only by what the file stores, and are hidden.

        If there is none: return also how many such values only dictionaries have.
        """
        stored = dict(self._stored(variant))
        constants = dict(self._constants(variant, stored))
        if not (self.is_named or variant.fields.keys() <= stored.keys() | constants.keys()):
            raise NoColumnError("no action names it, and it lacks a column of the predicate")
        groups = self._choose_groups(variant, stored, constants)
        self.searched.counts["groups_skipped"] += self.parquet.num_row_groups - len(groups)
        counts = np.zeros(4, np.int64)
        for first_row, columns, count in self._read(groups, variant, stored):
            logged, either = _find_rows(variant, columns, constants, count)
            live: Any = self.deleted is None or live_mask(self.deleted, first_row, count)
            only_stored = pc.and_not(either, logged)
            masks = pc.and_(logged, live), pc.and_(only_stored, live), pc.and_not(either, live)
            counts[:3] += [it.true_count for it in masks]
            self.searched.counts["rows"] += count
        if not counts.any():
            counts[3] = self._count_unused(variant, stored, constants)
        return counts

    def _count_unused(
        self, variant: Variant, stored: Mapping[str, FieldPath], constants: Mapping[str, pa.Scalar]
    ) -> int:
        """Count the values in dictionaries that no row has, and that some other values match."""
        total, leaves = 0, index_leaves(self.schema)
        known = {name: value for name, value in constants.items() if name not in stored}
        for name, path in stored.items():
            if (leaf := leaves.get(path)) is None:
                continue
            for group, dictionary in read_suspects(self.parquet, self.source, leaf, path):
                self.searched.counts["dictionaries"] += 1
                values = self._convert(dictionary, variant, name)
                columns = {it: pa.repeat(value, len(values)) for it, value in known.items()}
                rows = ColumnRows({**columns, name: values}, len(values))
                held = values.filter(held_by(variant.term, name, rows, known.keys()))
                if len(held):  # perhaps in rows that have other values beside it
                    read = self._read([group], variant, {name: path})
                    used = pa.chunked_array([it[name] for _, it, _ in read], held.type)
                    total += count_true(pc.invert(pc.is_in(held, value_set=used)))
        return total

    def _stored(self, variant: Variant) -> Iterator[tuple[str, FieldPath]]:
        """Yield the paths in the file of the columns that it has."""
        mode = variant.metadata.column_mapping_mode
        # Physical names too are compared without case: some writers of Parquet change it.
        matcher = Matcher("id" if mode == "id" else "none")
        ensure_field_ids(matcher, self.schema, self.name)
        for name, path in variant.fields.items():
            found, present = list[str](), FileFields(self.schema)
            for field in path:
                wanted = replace(field, name=field.physical_name if mode == "name" else field.name)
                if (index := matcher.find(wanted, present)) is None:
                    break
                found.append(present.names[index])
                if len(found) < len(path) and not pa.types.is_struct(present.type_of(index)):
                    raise DataFileError(f"{self.name!r}: {'.'.join(found)} is not a struct")
                present = present.members(index)
            else:
                yield name, tuple(found)

    def _choose_groups(
        self, variant: Variant, stored: Mapping[str, FieldPath], constants: Mapping[str, pa.Scalar]
    ) -> list[int]:
        """Return the row groups that may have a matching row, by the statistics of the footer."""
        count, leaves = self.parquet.num_row_groups, index_leaves(self.schema)

        def find(column: Column) -> tuple[pa.Array, pa.Array] | None:
            constant = constants.get(column.name, _NULL)
            if column.name not in stored:
                return (pa.repeat(constant, count),) * 2 if constant.is_valid else None
            leaf = leaves.get(stored[column.name])
            bounds = None if leaf is None else self._bounds(leaf, column.type)
            if bounds is None or not constant.is_valid:
                return bounds
            low, high = bounds
            return (
                pc.min_element_wise(low, constant, skip_nulls=False),
                pc.max_element_wise(high, constant, skip_nulls=False),
            )

        may = may_match(variant.term, find, count).to_pylist()
        return [index for index, has in enumerate(may) if has]

    def _bounds(self, leaf: LeafColumn, wanted: pa.DataType) -> tuple[pa.Array, pa.Array] | None:
        """Return the minimum and maximum of a column in each row group; null where unknown."""
        footer = self.parquet.metadata
        if self.parquet.schema.column(leaf.index).physical_type not in _ORDERED:
            return None
        if pa.types.is_string(wanted) and leaf.type not in _TEXTS:
            return None  # numbers have another order than their texts
        groups = (footer.row_group(it).column(leaf.index) for it in range(footer.num_row_groups))
        known = [it.statistics if it.is_stats_set else None for it in groups]
        # As bytes: strings, and bounds that were truncated, may not be UTF-8.
        minimum, maximum = ("min_raw", "max_raw") if leaf.type in _TEXTS else ("min", "max")
        bounds = [
            (getattr(it, minimum), getattr(it, maximum)) if it and it.has_min_max else (None, None)
            for it in known
        ]
        try:
            low, high = (_as_column(side, leaf.type) for side in zip(*bounds, strict=True))
            return cast_leaf(low, wanted), cast_leaf(high, wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None

    def _read(
        self, groups: Sequence[int], variant: Variant, stored: Mapping[str, FieldPath]
    ) -> Iterator[tuple[int, Mapping[str, pa.Array], int]]:
        """Yield the first row, the columns that the file has, and the number of rows of batches."""
        tops, footer = list({path[0]: None for path in stored.values()}), self.parquet.metadata
        sizes = [footer.row_group(it).num_rows for it in range(footer.num_row_groups)]
        for group in groups:
            first_row, end = sum(sizes[:group]), sum(sizes[: group + 1])
            if not tops:
                yield first_row, {}, sizes[group]
                continue
            for batch in read_batches(
                self.parquet, [group], tops, DEFAULT_BATCH_ROWS, use_threads=False
            ):
                columns = {
                    name: self._convert(select_leaf(batch, path), variant, name)
                    for name, path in stored.items()
                }
                yield first_row, columns, batch.num_rows
                first_row += batch.num_rows
            if first_row != end:
                raise DataFileError(f"{self.name!r} has other rows than its footer says")

    def _convert(self, array: pa.Array, variant: Variant, name: str) -> pa.Array:
        """Return a column in the type of the predicate; of partition columns, texts are parsed."""
        wanted = variant.columns[name].type
        plain = array.storage if isinstance(array, pa.ExtensionArray) else array
        try:
            return cast_leaf(plain, wanted)
        except pa.ArrowException as error:
            if name in variant.partition_names:
                return parse_partition_column(plain.cast(pa.string()), wanted, column=name)
            raise DataFileError(f"{self.name!r}: column {name!r} is no {wanted}") from error

    def _constants(
        self, variant: Variant, stored: Container[str]
    ) -> Iterator[tuple[str, pa.Scalar]]:
        """Yield the values of columns in the log, or in the names of directories."""
        for name, path in variant.fields.items():
            names = path[0].physical_name.lower(), path[0].name.lower()
            key = next((it for it in names if it in self.known), None)
            # A directory of a file that no action names may be named by anything.
            if key is not None and (self.is_named or name not in stored):
                yield name, _parse(self.known[key], variant.columns[name].type)


def _as_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return bounds as a column; strings are bytes that are not checked."""
    if kind in _TEXTS:
        return pa.array(values, pa.binary()).view(pa.string())
    return pa.array(values, kind)


@lru_cache
def _parse(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Return a partition value; many files have the same one."""
    return parse_partition_column(pa.array([text], pa.string()), kind)[0]


def _find_rows(
    variant: Variant,
    columns: Mapping[str, pa.Array],
    constants: Mapping[str, pa.Scalar],
    count: int,
) -> tuple[pa.Array, pa.Array]:
    """Return which rows match with the values in the log, and with any of those that they have."""
    values = {}
    for name, column in variant.columns.items():
        logged = [pa.repeat(constants[name], count)] if name in constants else []
        stored = [columns[name]] if name in columns else []
        values[name] = [*logged, *stored] or [pa.nulls(count, column.type)]
    choices = (dict(zip(values, it, strict=True)) for it in product(*values.values()))
    matches = (variant.term.evaluate(ColumnRows(it, count)) for it in choices)
    masks = [pc.fill_null(it, False) for it in matches]
    return masks[0], reduce(pc.or_, masks)
