"""``check --erased``: search everything that is still stored for values. Read-only.

First one listing of everything below the root, then the log, with all its files. Each file of the
listing is in one place: of the log, live, named by an action, or unknown to the log. The same is
done for the clones that are recorded in the table.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from deltactl.errors import (
    DeltactlError,
    InterruptedRunError,
    PredicateError,
    UnsupportedFeatureError,
)
from deltactl.log.audit.stored_actions import read_stored_metadata
from deltactl.log.commits.events import EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.erased.data import FileSearch, log_files_of
from deltactl.operations.erased.fates import open_planner
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.logs import search_log
from deltactl.operations.erased.report import TEXTS, ErasedReport, Where
from deltactl.operations.erased.schemas import resolve
from deltactl.operations.erased.sought import find_sought
from deltactl.operations.erased.tasks import SearchSpec
from deltactl.operations.optimize.layout.request import find_columns
from deltactl.operations.run_context import RunContext
from deltactl.operations.stored_files import list_facts
from deltactl.option_names import option
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.features import Operation, ensure_supported
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
    """Search a table, and the clones that are recorded in it, for values of a predicate.

    Raises:
        PredicateError: the predicate is not valid, or no schema in the log has its columns.
        TableError: there is no table, or its latest version cannot be rebuilt.
        UnsupportedFeatureError: the table cannot be read.
        InterruptedRunError: ``cancel`` was set.
    """
    found = Found(context=context.of_log(log), now_ms=context.clock.now_ms())
    waiting, tables = [log.read_only()], dict[str, int]()
    while waiting:
        table = waiting.pop(0)
        found.table = table.uri
        try:
            tables[table.uri] = _search_table(
                table, predicate, found, versions=versions, redact=redact
            )
            clones = {it.clone_uri for it in read_notes(table.store)}
            for uri in sorted(clones - tables.keys() - {it.uri for it in waiting}):
                store = open_store(uri, log.storage_options)
                waiting.append(DeltaLog(store, log.warn).read_only())
        except DeltactlError as error:
            if not tables or isinstance(error, InterruptedRunError):
                raise
            found.add_unread(table.uri, Where.CLONES, error)
    return found.report(list(tables.items()), None if redact else predicate)


def _search_table(
    log: DeltaLog, predicate: str, found: Found, *, versions: bool, redact: bool
) -> int:
    """Search a table; return its version."""
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
    try:
        sought = find_sought(resolve(predicate, schemas.values(), found.now_ms))
    except PredicateError:
        if not redact:
            raise
        raise PredicateError(
            "the predicate is not valid, or no schema in the log has its columns",
            hint=f"Rerun without {option('redact', True)} to see what is wrong.",
        ) from None
    found.sought.append(sought)
    present = {it.place: it.present for it in reversed(sought.variants) if it.present is not None}
    found.deleted[log.uri] = tuple(dict.fromkeys(present.values()))
    clustered = find_columns(snapshot, clustering_columns(snapshot.domains)) or ()
    found.clustered[log.uri] = ",".join(it.name for it in clustered)
    if not sought.is_known:
        found.unsearchable |= dict.fromkeys(
            (Where.PATHS, "texts in the log", "texts in footers", *TEXTS)
        )
    named = search_log(snapshot, files, sought, found)
    metadata = tuple(it.metadata for it in sought.variants)
    options = found.context.storage_options
    spec = SearchSpec(log.uri, options, predicate, metadata, found.now_ms)
    planner = open_planner(log, snapshot, events, found.context)
    if planner is not None:
        found.trusted_ms[log.uri] = planner.retention.now_ms
    search = FileSearch(snapshot, listed, directories, named, sought, found, planner)
    search.run(spec, reads_versions=versions)
    CommitBase.of(snapshot).ensure_same_table(log)
    return snapshot.version


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
