"""The worker of a search: searches files of any kind, data files below their deletion vectors too.

Runs on any engine: a task is a small picklable value, and the worker opens the store by URI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import pyarrow as pa

from deltactl.errors import FileMissingError, SearchIncompleteError
from deltactl.log.audit.stored_actions import is_of_any_log, read_stored_actions
from deltactl.operations.erased.found import Searched
from deltactl.operations.erased.logs import search_actions
from deltactl.operations.erased.report import RECORDS, TEXTS, Where
from deltactl.operations.erased.rows import RowSearch
from deltactl.operations.erased.schemas import resolve
from deltactl.operations.erased.sought import Sought, find_sought
from deltactl.operations.erased.texts import begins_as_parquet, file_has_value
from deltactl.parquet.open_files import ensure_readable_path, naming_file
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_TYPE, STRING_MAP
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

_VANISHED: Final = "it was moved or deleted during the search: search again"
# Limits memory: rows of this many files are decoded at the same time.
_READ_AT_ONCE: Final = 4


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
    search = partial(_search_file, store, spec.uri, sought, RowSearch(store, sought))
    searched = Searched(spec.uri)
    for found in map_requests(store, search, rows, at_once=_READ_AT_ONCE):
        searched += found
    return searched


def _search_file(
    store: Store, table: str, sought: Sought, rows: RowSearch, row: Mapping[str, Any]
) -> Searched:
    """Search one file, row of :data:`FILES`."""
    name, place, searched, stored = row["name"], row["place"], Searched(table), store
    if row["version_id"] is not None and store.versions is not None:
        version = OldVersion(name, row["version_id"], row["size_bytes"], 0)
        stored = cast("Store", _OldFile(store.versions, version))
    try:
        if is_of_any_log(name):  # an old version, or of another table
            info = FileInfo(name, row["size_bytes"], 0)
            for part in read_stored_actions(stored, [info], sought.variants[0].metadata):
                search_actions(searched, part, place, sought)
            return searched
        ensure_readable_path(name)
        with naming_file(name), stored.open_input(name) as source:
            is_mixed = place in (Where.VERSIONS, Where.TABLES)
            is_text = place in TEXTS or (is_mixed and not name.endswith(".parquet"))
            if not is_text or (place not in RECORDS and begins_as_parquet(source)):
                searched.counts["data_files"] += 1
                rows.search(row, source, searched)
            else:
                searched.counts["text_files"] += 1
                if sought.is_known and file_has_value(name, place, source, sought):
                    # Their names have no values, so the report can say which to delete.
                    parts = (name.rpartition("/")[0],) if place == Where.JOURNALS else ()
                    searched.add(place, name, entries=1, parts=parts)
    except Exception as error:  # libraries raise errors of many kinds
        is_missing = isinstance(error, FileMissingError)
        if is_missing and place == Where.OF_SOURCE:  # in no listing
            searched.counts["gone"] += 1
        elif is_missing and place != Where.LIVE:
            searched.add_unread(name, place, SearchIncompleteError(_VANISHED))
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
