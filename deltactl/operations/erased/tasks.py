"""The worker of a search: searches files of any kind, data files below their deletion vectors too.

Runs on any engine: a task is a small picklable value, and the worker opens the store by URI.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltactl.errors import DataFileError, DeltactlError, FileMissingError
from deltactl.log.audit.stored_actions import log_mask, read_stored_actions
from deltactl.operations.erased.found import Searched
from deltactl.operations.erased.logs import search_actions
from deltactl.operations.erased.report import TEXTS, NoColumnError, Where
from deltactl.operations.erased.schemas import Variant, resolve
from deltactl.operations.erased.sought import Sought, find_sought
from deltactl.operations.erased.texts import begins_as_parquet, file_has_value
from deltactl.operations.predicate.bounds import may_match
from deltactl.operations.predicate.terms import Column, ColumnRows
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.facts import select_leaf
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
from deltactl.storage.store import FileInfo, OldVersion, Store, Versions
from deltactl.storage.write_guard import refuse_changes

FILES: Final = pa.schema(
    [
        ("name", pa.string()),
        ("size_bytes", pa.int64()),
        ("partition_values", STRING_MAP),
        ("deletion_vector", DELETION_VECTOR_TYPE),
        ("place", pa.string()),
        ("version_id", pa.string()),
        ("until_ms", pa.int64()),
    ]
)
"""A task's files; ``partition_values`` are null if no action of the log names the file."""

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


def search_files(spec: SearchSpec, files: bytes, attempt: int) -> Searched:
    """Search the files of a task, columns of :data:`FILES` as an Arrow stream."""
    store = refuse_changes(open_store(spec.uri, spec.storage_options))
    sought = find_sought(resolve(spec.predicate, spec.schemas, spec.now_ms))
    with pa.ipc.open_stream(files) as stream:
        rows = stream.read_all().to_pylist()
    search = partial(_search_file, store, spec.uri, sought)
    searched = Searched(spec.uri)
    for found in map_requests(store, search, rows, at_once=_READ_AT_ONCE):
        searched += found
    return searched


def _search_file(store: Store, table: str, sought: Sought, row: Mapping[str, Any]) -> Searched:
    """Search one file, row of :data:`FILES`."""
    name, place, searched, stored = row["name"], row["place"], Searched(table), store
    if row["version_id"] is not None and store.versions is not None:
        version = OldVersion(name, row["version_id"], row["size_bytes"], 0)
        stored = cast("Store", _OldFile(store.versions, version))
    try:
        if log_mask(pa.array([name]))[0].as_py():  # an old version
            info = FileInfo(name, row["size_bytes"], 0)
            for part in read_stored_actions(stored, [info], sought.variants[0].metadata):
                search_actions(searched, part, place, sought)
            return searched
        with naming_file(name), stored.open_input(name) as source:
            is_text = place in TEXTS or (place == Where.VERSIONS and not name.endswith(".parquet"))
            may_be_data = place in (Where.OTHER, Where.VERSIONS)
            if not is_text or (may_be_data and begins_as_parquet(source)):
                searched.counts["data_files"] += 1
                _FileSearch(store, sought.variants, row, searched).run(source)
            else:
                searched.counts["text_files"] += 1
                if sought.is_known and file_has_value(name, place, source, sought):
                    searched.add(place, name, entries=1)
    except Exception as error:  # libraries raise errors of many kinds
        if isinstance(error, FileMissingError) and place != Where.LIVE:
            searched.counts["gone"] += 1
        else:
            searched.add_unread(name, place, error)
    return searched


@dataclass(frozen=True, slots=True)
class _OldFile:
    """What the readers need of a store, for one old version."""

    versions: Versions
    version: OldVersion

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        for name in names:
            with self.open_input(name) as source:
                yield source.read()

    def open_input(self, name: str) -> pa.NativeFile:
        return self.versions.open_old(self.version)


class _FileSearch:
    """Count the matching rows of one file."""

    def __init__(
        self,
        store: Store,
        variants: Sequence[Variant],
        row: Mapping[str, Any],
        searched: Searched,
    ) -> None:
        self._store, self._variants, self._row, self._searched = store, variants, row, searched
        self._is_named = row["partition_values"] is not None
        values = dict(row["partition_values"] or ()) if self._is_named else _values_of(row["name"])
        self._file = DataFile(row["name"], row["size_bytes"] or 0, partition_values=values)

    def run(self, source: pa.NativeFile) -> None:
        name = self._file.path
        with RowReader(StructType(()), (), "none").open(self._store, self._file, source) as parquet:
            deleted = self._read_vector()
            rows = hidden = 0
            for _, group in groupby(self._variants, lambda it: it.place):
                counted = self._count_first(parquet, list(group), deleted)
                rows, hidden = rows + counted[0], hidden + counted[1]
        until_ms = self._row["until_ms"]
        for place, count in ((self._row["place"], rows), (Where.HIDDEN, hidden)):
            if count:
                self._searched.add(place, name, rows=count, until_ms=until_ms)

    def _read_vector(self) -> BitMap64 | None:
        """Return the hidden rows; none if the vector cannot be read, which is a finding."""
        if self._row["deletion_vector"] is None:
            return None
        try:
            vector = DeletionVector(**self._row["deletion_vector"])
            return read_deletion_vector(self._store, replace(self._file, deletion_vector=vector))
        except DeltactlError as error:
            self._searched.add_unread(self._file.path, Where.HIDDEN, error)
            return None

    def _count_first(
        self, parquet: pq.ParquetFile, variants: Sequence[Variant], deleted: BitMap64 | None
    ) -> tuple[int, int]:
        """Count by the first variant whose types the columns of the file have."""
        try:
            return self._count(parquet, variants[0], deleted)
        except DataFileError as error:
            if isinstance(error, NoColumnError) or len(variants) == 1:
                raise
            return self._count_first(parquet, variants[1:], deleted)

    def _count(
        self, parquet: pq.ParquetFile, variant: Variant, deleted: BitMap64 | None
    ) -> tuple[int, int]:
        paths = variant.fields.values()
        tops = {path[0].name: _prune(path[0], paths) for path in paths}
        constants = self._constants(parquet, tops.values())
        partition = tuple(it for it in tops.values() if it.physical_name in constants)
        mode = variant.metadata.column_mapping_mode
        reader = RowReader(StructType(tuple(tops.values())), partition, mode)
        file = replace(self._file, partition_values=constants)
        sources = reader.find_columns(parquet.schema_arrow, self._file.path)
        if None in sources.values() and not self._is_named:
            raise NoColumnError("no action names it, and it lacks a column of the predicate")
        groups = _choose_groups(parquet, variant, sources)
        self._searched.counts["groups_skipped"] += parquet.metadata.num_row_groups - len(groups)
        rows = hidden = 0
        for _, run in groupby(enumerate(groups), lambda pair: pair[1] - pair[0]):
            for batch in reader.read_groups(parquet, file, None, [group for _, group in run]):
                count = batch.num_physical_rows
                columns = {
                    name: select_leaf(batch.columns, tuple(it.name for it in path))
                    for name, path in variant.fields.items()
                }
                mask = pc.fill_null(variant.term.evaluate(ColumnRows(columns, count)), False)
                self._searched.counts["rows"] += count
                rows += mask.true_count
                if deleted is not None:
                    gone = pc.invert(live_mask(deleted, batch.first_row, count))
                    hidden += pc.and_(mask, gone).true_count
        return rows - hidden, hidden

    def _constants(self, parquet: pq.ParquetFile, fields: Iterable[Field]) -> dict[str, str | None]:
        """Return the partition values of columns by physical name."""
        values, stored, found = self._file.partition_values, set(parquet.schema_arrow.names), {}
        for field_ in fields:
            names = field_.physical_name, field_.name
            key = next((it for it in names if it in values), None)
            # A directory of a file that no action names may be named by anything.
            if key is not None and (self._is_named or stored.isdisjoint(names)):
                found[field_.physical_name] = values[key]
        return found


def _values_of(name: str) -> dict[str, str | None]:
    """Return the partition values in the names of the directories of a file."""
    pairs = (part.partition("=") for part in name.split("/")[:-1] if "=" in part)
    return {hive_unescape(key): hive_value(value) for key, _, value in pairs}


def _prune(field: Field, paths: Iterable[Sequence[Field]]) -> Field:
    """Return a column with only those fields of its struct that the paths need."""
    below = [path[1:] for path in paths if path[0] == field and len(path) > 1]
    if not isinstance(field.type, StructType) or not below:
        return field
    members = {path[0].name: _prune(path[0], below) for path in below}
    return replace(field, type=StructType(tuple(members.values())))


def _choose_groups(
    parquet: pq.ParquetFile, variant: Variant, sources: Mapping[str, str | None]
) -> list[int]:
    """Return the row groups that may have a matching row, by the statistics of the footer."""
    footer, leaves = parquet.metadata, index_leaves(parquet.schema_arrow)

    def find(column: Column) -> tuple[pa.Array, pa.Array] | None:
        path = variant.fields[column.name]
        leaf = leaves.get((sources.get(path[0].name) or "",)) if len(path) == 1 else None
        if leaf is None or parquet.schema.column(leaf.index).physical_type not in _ORDERED:
            return None
        groups = (footer.row_group(it).column(leaf.index) for it in range(footer.num_row_groups))
        known = [it.statistics if it.is_stats_set else None for it in groups]
        bounds = [(it.min, it.max) if it and it.has_min_max else (None, None) for it in known]
        try:
            low, high = (pa.array(side, leaf.type) for side in zip(*bounds, strict=True))
            return cast_leaf(low, column.type), cast_leaf(high, column.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None  # for example a truncated string that is not UTF-8

    may = may_match(variant.term, find, footer.num_row_groups).to_pylist()
    return [index for index, has in enumerate(may) if has]
