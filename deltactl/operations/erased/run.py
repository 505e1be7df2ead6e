"""``check --erased``: search everything that is still stored for values. Read-only.

First one listing of everything below the root, then the log, with all its files. Each file of the
listing is in one place: of the log, live, named by an action, or unknown to the log. The same is
done for the clones that are recorded in the table, and for tables in its subdirectories.
"""

from __future__ import annotations

from itertools import compress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    DeltactlError,
    InterruptedRunError,
    PredicateError,
    SearchIncompleteError,
    UnsupportedFeatureError,
)
from deltactl.log.audit.stored_actions import read_stored_metadata
from deltactl.log.commits.events import EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.erased.data import FileSearch, log_files_of
from deltactl.operations.erased.fates import open_planner
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.logs import search_log
from deltactl.operations.erased.report import TEXTS, ErasedReport, Where
from deltactl.operations.erased.schemas import resolve
from deltactl.operations.erased.sought import find_sought
from deltactl.operations.erased.tasks import SearchSpec
from deltactl.operations.find_tables import is_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.stored_files import list_facts
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.vacuum_names import HiddenRule, below_mask, foreign_roots
from deltactl.storage.local.uris import path_to_uri, uri_to_path
from deltactl.storage.names import is_local_uri
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from deltactl.units import format_count

_FILE_FIELDS: Final = ("name", "size_bytes", "modified_ms")


def search_erased(
    log: DeltaLog,
    predicate: str,
    context: RunContext,
    *,
    versions: bool = False,
    redact: bool = False,
) -> ErasedReport:
    """Search a table, the clones recorded in it, and tables in subdirectories, for values.

    Raises:
        PredicateError: the predicate is not valid, or no schema in the log has its columns.
        TableError: there is no table, or its latest version cannot be rebuilt.
        UnsupportedFeatureError: the table cannot be read.
        InterruptedRunError: ``cancel`` was set.
    """
    found = Found(context=context.of_log(log), now_ms=context.clock.now_ms())
    waiting, tables = [(log.read_only(), Where.LIVE)], dict[str, int]()
    while waiting:
        table, place = waiting.pop(0)
        found.table = table.uri
        try:
            tables[table.uri], below = _search_table(
                table, predicate, found, versions=versions, redact=redact
            )
            others = dict.fromkeys(below, Where.TABLES)
            others |= {it.clone_uri: Where.CLONES for it in read_notes(table.store)}
            for uri in sorted(others.keys() - tables.keys() - {it.uri for it, _ in waiting}):
                store = open_store(uri, log.storage_options)
                waiting.append((DeltaLog(store, log.warn).read_only(), others[uri]))
        except DeltactlError as error:
            if not tables or isinstance(error, InterruptedRunError):
                raise
            if isinstance(error, PredicateError):
                error = SearchIncompleteError("its schemas do not have the predicate's columns")
            found.add_unread(table.uri, place, error)
    return found.report(list(tables.items()), None if redact else predicate)


def _search_table(
    log: DeltaLog, predicate: str, found: Found, *, versions: bool, redact: bool
) -> tuple[int, list[str]]:
    """Search a table; return its version, and the addresses of tables in its subdirectories."""
    store, events = log.store, EventCollector()
    snapshot = log.snapshot(visitors=[events])
    log.ensure_complete()
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    # After the snapshot: no commit of its versions is left out.
    listed, directories = _list(store, found)
    files = log_files_of(listed)
    latest_first = (snapshot.metadata, *reversed([*read_stored_metadata(store, files)]))
    schemas = {
        (m.schema_string, m.column_mapping_mode, m.partition_columns): m for m in latest_first
    }
    sought = find_sought(resolve(predicate, schemas.values(), found.now_ms))
    if not sought.is_known:
        found.unsearchable |= dict.fromkeys((Where.PATHS, "texts in the log", *TEXTS))
    named = search_log(snapshot, files, sought, found)
    listed, directories, below = _leave_out_tables(snapshot, listed, directories, named, found)
    metadata = tuple(it.metadata for it in sought.variants)
    options = found.context.storage_options
    spec = SearchSpec(log.uri, options, predicate, metadata, found.now_ms)
    planner = open_planner(log, snapshot, events, found.context)
    if planner is not None:
        found.trusted_ms[log.uri] = planner.retention.now_ms
    search = FileSearch(snapshot, listed, directories, named, sought, found, planner)
    search.run(spec, reads_versions=versions)
    if redact:
        found.mask_names(sought)
    return snapshot.version, below


def _leave_out_tables(
    snapshot: Snapshot, listed: pa.Table, directories: list[str], named: pa.Table, found: Found
) -> tuple[pa.Table, list[str], list[str]]:
    """Return what is not of tables in subdirectories; and the addresses of these tables.

    A vacuum keeps their files, whatever the log of this table says.
    """
    names, uri = listed["name"], snapshot.store.uri
    iceberg = not HiddenRule(snapshot.metadata).hides_metadata
    roots = foreign_roots(names, directories, iceberg=iceberg) - {""}
    is_local = is_local_uri(uri)
    base, address = (uri_to_path(uri), path_to_uri) if is_local else (uri, str)
    is_delta = {it: is_table(snapshot.store, it) for it in sorted(roots)}
    below = [address(f"{base}/{it}") for it, is_it in is_delta.items() if is_it]
    for root in (it for it, is_it in is_delta.items() if not is_it):
        error = SearchIncompleteError("a table of another format")
        found.add_unread(f"{root}/", Where.TABLES, error)
    is_theirs = pc.and_not(below_mask(names, roots), pc.is_in(names, value_set=named["name"]))
    parts = pa.chunked_array([[f"{it}/" for it in directories]], pa.string())
    left = compress(directories, pc.invert(below_mask(parts, roots)).to_pylist())
    return listed.filter(pc.invert(is_theirs)), [*left], below


def _list(store: Store, found: Found) -> tuple[pa.Table, list[str]]:
    """Return all files below the root, by name, with the fields of ``FileInfo``; directories."""
    stored = list_facts(store)
    unknown = [(it, "a link") for it in stored.links]
    if stored.unusable:
        count = format_count(stored.unusable, "name")
        unknown.append((f"{count} that no log can contain", "a name"))
    for name, what in unknown:
        found.add_unread(name, Where.OTHER, UnsupportedFeatureError(what))
    listed = stored.rows().drop_columns("position").rename_columns(_FILE_FIELDS).sort_by("name")
    found.counts["names"] += listed.num_rows
    chunks = [chunk for name in _FILE_FIELDS[:2] for chunk in listed[name].chunks]
    found.note_searched(*(memoryview(it) for chunk in chunks for it in chunk.buffers() if it))
    return listed, stored.directories
