"""The worker of a search: counts the rows of data files that match, below deletion vectors too.

Runs on any engine: a task is a small picklable value, and the worker opens the store by URI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltactl.errors import (
    DataFileError,
    DeltactlError,
    FileMissingError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.operations.erased.sought import Variant, partition_columns, resolve
from deltactl.operations.predicate.bounds import may_match
from deltactl.operations.predicate.terms import Column, ColumnRows
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.footer import index_leaves
from deltactl.parquet.open_files import naming_file, read_deletion_vector
from deltactl.parquet.projection import cast_leaf
from deltactl.parquet.reader import RowReader
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_TYPE, STRING_MAP
from deltactl.protocol.deletion_vectors import DeletionVector, live_mask
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.protocol.schema import Field, StructType
from deltactl.storage.open import open_store
from deltactl.storage.parallel import map_requests
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes

FILES: Final = pa.schema(
    [
        ("name", pa.string()),
        ("size_bytes", pa.int64()),
        ("partition_values", STRING_MAP),
        ("deletion_vector", DELETION_VECTOR_TYPE),
        ("place", pa.string()),
    ]
)
"""A task's files; ``partition_values`` are null if no action of the log names the file."""

LIVE: Final = "live rows"
HIDDEN: Final = "rows that deletion vectors hide"

# Limits memory: rows of this many files are decoded at the same time.
_READ_AT_ONCE: Final = 4
# Types whose bounds in footers are in the order of the values, and are safe to read.
_ORDERED: Final = ("INT32", "INT64", "BYTE_ARRAY")


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """The values that all tasks share; ``schemas`` are those that have the predicate's columns."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    predicate: str
    schemas: tuple[Metadata, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A file with matching rows: the place it is in, and the rows that a vector does not hide."""

    name: str
    place: str
    rows: int


class NoColumnError(DataFileError):
    """A file without an action in the log, and without a column of the predicate."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be searched; ``code`` and ``exit_code`` are those of an error."""

    name: str
    place: str
    code: str
    reason: str
    exit_code: int = DataFileError.exit_code

    @classmethod
    def of(cls, name: str, place: str, error: Exception) -> Unread:
        """Return the file with a reason that has no text of the file or of its name."""
        kind = type(error.__cause__ or error).__name__
        reason = error.message if isinstance(error, NoColumnError) else f"unreadable: {kind}"
        if isinstance(error, ImportError):
            reason = "to read it, install deltactl[iceberg]"
        known = error if isinstance(error, DeltactlError) else DataFileError("")
        is_known = isinstance(known, StorageError | UnsupportedFeatureError)
        exit_code = known.exit_code if is_known else DataFileError.exit_code
        return cls(name, place, known.code, reason, exit_code)


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of a task. ``num_gone`` files of older versions do not exist any more."""

    num_files: int = 0
    num_rows: int = 0
    num_groups_skipped: int = 0
    num_gone: int = 0
    hits: tuple[Hit, ...] = ()
    unread: tuple[Unread, ...] = ()

    def __add__(self, other: Searched) -> Searched:
        """Return the sum of two results."""
        return Searched(
            self.num_files + other.num_files,
            self.num_rows + other.num_rows,
            self.num_groups_skipped + other.num_groups_skipped,
            self.num_gone + other.num_gone,
            self.hits + other.hits,
            self.unread + other.unread,
        )


def search_files(spec: SearchSpec, files: bytes, attempt: int) -> Searched:
    """Search the files of a task, columns of :data:`FILES` as an Arrow stream."""
    store = refuse_changes(open_store(spec.uri, spec.storage_options))
    variants = resolve(spec.predicate, spec.schemas, spec.now_ms)
    with pa.ipc.open_stream(files) as stream:
        rows = stream.read_all().to_pylist()
    search = partial(search_file, store, variants)
    return sum(map_requests(store, search, rows, at_once=_READ_AT_ONCE), start=Searched())


def search_file(
    store: Store,
    variants: Sequence[Variant],
    row: Mapping[str, Any],
    source: pa.NativeFile | None = None,
) -> Searched:
    """Search one file, row of :data:`FILES`, from ``source`` if it is already open."""
    name, place = row["name"], row["place"]
    try:
        return _FileSearch(store, variants, row).run(source)
    except FileMissingError as error:
        if place != LIVE:
            return Searched(num_gone=1)
        return Searched(unread=(Unread(name, place, error.code, "it does not exist"),))
    except DeltactlError as error:
        return Searched(num_files=1, unread=(Unread.of(name, place, error),))


class _FileSearch:
    """Count the matching rows of one file."""

    def __init__(self, store: Store, variants: Sequence[Variant], row: Mapping[str, Any]) -> None:
        self._store, self._place = store, row["place"]
        self._is_named = row["partition_values"] is not None
        values = dict(row["partition_values"] or ()) if self._is_named else _values_of(row["name"])
        node = row["deletion_vector"]
        self._file = DataFile(row["name"], row["size_bytes"] or 0, partition_values=values)
        self._vector = node
        self._variants = variants
        self._searched = Searched(num_files=1)

    def run(self, source: pa.NativeFile | None) -> Searched:
        with (
            RowReader(StructType(()), (), "none").open(self._store, self._file, source) as parquet,
            naming_file(self._file.path),
        ):
            deleted = self._read_vector()
            rows = hidden = 0
            for _, group in groupby(self._variants, lambda it: it.place):
                counted = self._count_first(parquet, list(group), deleted)
                rows, hidden = rows + counted[0], hidden + counted[1]
        hits = [Hit(self._file.path, self._place, rows)] if rows else []
        hits += [Hit(self._file.path, HIDDEN, hidden)] if hidden else []
        return replace(self._searched, hits=tuple(hits))

    def _read_vector(self) -> BitMap64 | None:
        """Return the hidden rows; none if the vector cannot be read, which is a finding."""
        if self._vector is None:
            return None
        try:
            vector = DeletionVector(**self._vector)
            return read_deletion_vector(self._store, replace(self._file, deletion_vector=vector))
        except DeltactlError as error:
            unread = Unread.of(self._file.path, HIDDEN, error)
            self._searched = replace(self._searched, unread=(unread,))
            return None

    def _count_first(
        self, parquet: pq.ParquetFile, variants: Sequence[Variant], deleted: BitMap64 | None
    ) -> tuple[int, int]:
        """Count by the first variant whose types the columns of the file have."""
        for variant in variants[:-1]:
            try:
                return self._count(parquet, variant, deleted)
            except DataFileError as error:
                if isinstance(error, NoColumnError):
                    raise
        return self._count(parquet, variants[-1], deleted)

    def _count(
        self, parquet: pq.ParquetFile, variant: Variant, deleted: BitMap64 | None
    ) -> tuple[int, int]:
        values, keys = self._file.partition_values, {}
        for name, column in variant.columns.items():
            own = {column.physical_name, name} & set(parquet.schema_arrow.names)
            key = next((k for k in (column.physical_name, name) if k in values), None)
            # A directory of a file that no action names may be named by anything.
            if key and (self._is_named or not own):
                keys[name] = key
        texts = pa.array([list(values.items())], STRING_MAP)
        named = {
            name: replace(variant.columns[name], physical_name=key) for name, key in keys.items()
        }
        constants = partition_columns(replace(variant, columns=named), texts, named)
        stored = {name: path for name, path in variant.fields.items() if name not in constants}
        tops = {path[0].name: _prune(path[0], stored.values()) for path in stored.values()}
        reader = RowReader(
            StructType(tuple(tops.values())), (), variant.metadata.column_mapping_mode
        )
        sources = reader.find_columns(parquet.schema_arrow, self._file.path) if tops else {}
        self._ensure_present(stored, sources)
        groups = _choose_groups(parquet, variant, constants, stored, sources)
        skipped = parquet.metadata.num_row_groups - len(groups)
        self._searched += Searched(num_groups_skipped=skipped)
        rows = hidden = 0
        for run in _consecutive(groups):
            for batch in reader.read_groups(parquet, self._file, None, run):
                count = batch.num_physical_rows
                columns = {it: pa.repeat(value[0], count) for it, value in constants.items()}
                columns |= {it: _leaf(batch.columns, path) for it, path in stored.items()}
                mask = pc.fill_null(variant.term.evaluate(ColumnRows(columns, count)), False)
                self._searched += Searched(num_rows=count)
                both = _count_true(mask)
                if deleted is not None:
                    mask = pc.and_(mask, live_mask(deleted, batch.first_row, count))
                rows, hidden = rows + _count_true(mask), hidden + both - _count_true(mask)
        return rows, hidden

    def _ensure_present(
        self, stored: Mapping[str, tuple[Field, ...]], sources: Mapping[str, str | None]
    ) -> None:
        """Refuse a file of unknown origin without a column: its values may have other names."""
        lacking = [name for name, path in stored.items() if sources[path[0].name] is None]
        if lacking and not self._is_named:
            raise NoColumnError("no action names it, and it lacks a column of the predicate")


def _count_true(mask: pa.Array) -> int:
    return int(mask.true_count)


def _values_of(name: str) -> dict[str, str | None]:
    """Return the partition values in the names of the directories of a file."""
    pairs = (part.partition("=") for part in name.split("/")[:-1] if "=" in part)
    return {hive_unescape(key): hive_value(value) for key, _, value in pairs}


def _prune(field: Field, paths: Any) -> Field:
    """Return a column with only those fields of its struct that the paths need."""
    if not isinstance(field.type, StructType):
        return field
    below = [path[1:] for path in paths if path[0] == field and len(path) > 1]
    if not below:
        return field
    members = {path[0].name: _prune(path[0], below) for path in below}
    return replace(field, type=StructType(tuple(members.values())))


def _leaf(batch: pa.RecordBatch, path: Sequence[Field]) -> pa.Array:
    column = batch.column(path[0].name)
    for part in path[1:]:
        column = pc.struct_field(column, part.name)
    return column


def _choose_groups(
    parquet: pq.ParquetFile,
    variant: Variant,
    constants: Mapping[str, pa.Array],
    stored: Mapping[str, tuple[Field, ...]],
    sources: Mapping[str, str | None],
) -> list[int]:
    """Return the row groups that may have a matching row, by the statistics of the footer."""
    count = parquet.metadata.num_row_groups
    leaves = index_leaves(parquet.schema_arrow)

    def find(column: Column) -> tuple[pa.Array, pa.Array] | None:
        if column.name in constants:
            value = pa.repeat(constants[column.name][0], count)
            return value, value
        path = stored[column.name]
        leaf = leaves.get((sources[path[0].name] or "",)) if len(path) == 1 else None
        if leaf is None or parquet.schema.column(leaf.index).physical_type not in _ORDERED:
            return None
        stats = [parquet.metadata.row_group(i).column(leaf.index).statistics for i in range(count)]
        known = [it if it is not None and it.has_min_max else None for it in stats]
        try:
            low = pa.array([None if it is None else it.min for it in known], leaf.type)
            high = pa.array([None if it is None else it.max for it in known], leaf.type)
            return cast_leaf(low, column.type), cast_leaf(high, column.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None  # for example a truncated string that is not UTF-8

    mask = may_match(variant.term, find, count)
    return [index for index, may in enumerate(mask.to_pylist()) if may]


def _consecutive(groups: Sequence[int]) -> Iterator[list[int]]:
    for _, run in groupby(enumerate(groups), lambda pair: pair[1] - pair[0]):
        yield [group for _, group in run]
