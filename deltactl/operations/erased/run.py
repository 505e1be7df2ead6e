"""``check --erased``: search everything that is still stored for values. Read-only.

The log is read first, with all its files, then one listing of everything below the root. Each file
of the listing is in one place: live, named by an action, or unknown to the log. The same is done
for the clones that are recorded in the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltactl.errors import DeltactlError, InterruptedRunError, UnsupportedFeatureError
from deltactl.log.audit.stored_actions import list_log_files, read_stored_metadata
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.erased.data import FileSearch
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.logs import search_log
from deltactl.operations.erased.report import TEXTS, ErasedReport, Where
from deltactl.operations.erased.schemas import resolve
from deltactl.operations.erased.sought import find_sought
from deltactl.operations.erased.tasks import SearchSpec
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.candidates import Listing, list_facts
from deltactl.protocol.actions import Metadata
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from deltactl.units import format_count


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
    found = Found(context, context.clock.now_ms())
    waiting, tables = [log.read_only()], dict[str, int]()
    while waiting:
        table = waiting.pop(0)
        found.table = table.uri
        try:
            of_log = context.of_log(log)
            tables[table.uri] = _search_table(
                table, predicate, of_log, found, versions=versions, redact=redact
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
    log: DeltaLog,
    predicate: str,
    context: RunContext,
    found: Found,
    *,
    versions: bool,
    redact: bool,
) -> int:
    """Search a table; return its version."""
    store, snapshot = log.store, log.snapshot()
    log.ensure_complete()
    files = list_log_files(store)  # after the snapshot: no commit of its versions is left out
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    schemas = _find_schemas(snapshot, [*read_stored_metadata(store, files)])
    variants = resolve(predicate, schemas, found.now_ms)
    sought = find_sought(variants)
    if sought is None:
        found.unsearchable |= dict.fromkeys((Where.PATHS, "texts in the log", *TEXTS))
    stored = _list(store, found)
    named = search_log(snapshot, files, variants, sought, found)
    metadata = tuple(it.metadata for it in variants)
    spec = SearchSpec(log.uri, context.storage_options, predicate, metadata, found.now_ms)
    search = FileSearch(snapshot, stored, named, variants, sought, found)
    search.run(spec, context, reads_versions=versions)
    if redact and sought is not None:
        found.mask_names(sought)
    return snapshot.version


def _find_schemas(snapshot: Snapshot, older: Sequence[Metadata]) -> list[Metadata]:
    """Return the different schemas in the log, the latest one first."""
    found: dict[object, Metadata] = {}
    for it in (snapshot.metadata, *reversed(older)):
        key = it.schema_string, it.column_mapping_mode, it.partition_columns
        found.setdefault(key, it)
    return list(found.values())


def _list(store: Store, found: Found) -> Listing:
    """Return all files below the root, by name, and the directories."""
    stored = list_facts(store)
    if stored.non_utf8:
        what = format_count(stored.non_utf8, "name")
        found.add_unread(
            f"{what} that is not UTF-8", Where.OTHER, UnsupportedFeatureError("a name")
        )
    for link in stored.links:
        found.add_unread(link, Where.OTHER, UnsupportedFeatureError("a link"))
    rows = stored.rows().sort_by("path")
    stored.files, stored.facts = rows["path"], rows.select(["size_bytes"])
    found.counts["names"] += rows.num_rows
    chunks = [chunk for column in rows.columns for chunk in column.chunks]
    found.note_searched(*(memoryview(it) for chunk in chunks for it in chunk.buffers() if it))
    return stored
