"""``check --erased``: search everything that is still stored for values. Read-only.

The log is read first, with all its files, then one listing of everything below the root. Each file
of the listing is in one place: live, named by an action, or unknown to the log. The same is done
for the clones that are recorded in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, InterruptedRunError, UnsupportedFeatureError
from deltactl.log.audit.stored_actions import (
    checksum_mask,
    list_log_files,
    log_mask,
    read_stored_metadata,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.erased.data import DataSearch
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.logs import NAMES, search_log
from deltactl.operations.erased.report import (
    CLONES,
    ICEBERG,
    MANIFESTS,
    OTHER,
    OWN,
    PATHS,
    ErasedReport,
)
from deltactl.operations.erased.sought import SoughtTexts, Variant, find_texts, has_any, resolve
from deltactl.operations.erased.tasks import FILES, SearchSpec, search_file
from deltactl.operations.erased.texts import file_has_value
from deltactl.operations.erased.versions import VersionSearch
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import Metadata
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.names import OWN_DIR
from deltactl.storage.open import open_store
from deltactl.storage.parallel import map_requests
from deltactl.storage.store import Store

_NAMES_AT_ONCE: Final = 1 << 16
_PARQUET: Final = b"PAR1"


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
            tables[table.uri] = _search_table(
                table, predicate, context.of_log(log), found, versions
            )
            clones = {it.clone_uri for it in read_notes(table.store)}
            for uri in sorted(clones - tables.keys() - {it.uri for it in waiting}):
                store = open_store(uri, log.storage_options)
                waiting.append(DeltaLog(store, log.warn).read_only())
        except DeltactlError as error:
            if not tables or isinstance(error, InterruptedRunError):
                raise
            found.add_unread(table.uri, CLONES, error)
    return found.report(list(tables.items()), None if redact else predicate)


def _search_table(
    log: DeltaLog, predicate: str, context: RunContext, found: Found, versions: bool
) -> int:
    """Search a table; return its version."""
    store, snapshot = log.store, log.snapshot()
    log.ensure_complete()
    files = list_log_files(store)  # after the snapshot: no commit of its versions is left out
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    schemas = _find_schemas(snapshot, [*read_stored_metadata(store, files)])
    variants = resolve(predicate, schemas, found.now_ms)
    texts = find_texts(variants)
    if texts is None:
        places = (PATHS, "texts in the log", MANIFESTS, OWN, ICEBERG, OTHER)
        found.unsearchable |= dict.fromkeys(places)
    names, directories = _list(store, found)
    named = search_log(snapshot, files, variants, texts, found)
    spec = SearchSpec(
        log.uri,
        context.storage_options,
        predicate,
        tuple(it.metadata for it in variants),
        found.now_ms,
    )
    rest = DataSearch(snapshot, names, named, variants, found).run(spec, context)
    if texts is not None:
        _search_names(names, directories, texts, found)
        _search_texts(store, rest, variants, texts, found)
    VersionSearch(snapshot, variants, texts, found).run(reads=versions)
    return snapshot.version


def _find_schemas(snapshot: Snapshot, older: Sequence[Metadata]) -> list[Metadata]:
    """Return the different schemas in the log, the latest one first."""
    found: dict[object, Metadata] = {}
    for it in (snapshot.metadata, *reversed(older)):
        key = it.schema_string, it.column_mapping_mode, it.partition_columns
        found.setdefault(key, it)
    return list(found.values())


def _list(store: Store, found: Found) -> tuple[pa.Array, list[str]]:
    """Return the sorted names of all files below the root, and the directories."""
    chunks, directories = [pa.array([], pa.string())], []
    for part in store.walk_tree(lambda _: True):
        try:
            chunks.append(pa.array(part.files, pa.string()))
        except UnicodeEncodeError as error:
            found.add_unread("names that are not UTF-8", OTHER, error)
        directories += part.directories
        for link in part.links:
            found.add_unread(link, OTHER, UnsupportedFeatureError("a link"))
    names = pa.concat_arrays(chunks)
    names = names.take(pc.sort_indices(names))
    found.counts.names += len(names)
    for start in range(0, len(names), _NAMES_AT_ONCE):
        found.note_searched(*names.slice(start, _NAMES_AT_ONCE).to_pylist())
    return names, directories


def _search_names(
    names: pa.Array, directories: Sequence[str], texts: SoughtTexts, found: Found
) -> None:
    of_data = names.filter(pc.invert(log_mask(names)))
    folders = pa.array([f"{it}/" for it in directories], pa.string())
    files, entries = (texts.mask_paths(it).true_count for it in (of_data, folders))
    if files or entries:
        found.add(PATHS, files=files, entries=files or entries, part=NAMES)


def _search_texts(
    store: Store, names: pa.Array, variants: Sequence[Variant], texts: SoughtTexts, found: Found
) -> None:
    """Search the files that are neither data nor of the log; some are in memory at a time."""
    skipped = pc.or_(checksum_mask(names), log_mask(names))
    chosen = names.filter(pc.invert(skipped)).to_pylist()
    for name, content in zip(
        chosen, map_requests(store, partial(_read, store), chosen), strict=True
    ):
        found.ensure_running()
        found.counts.text_files += 1
        try:
            if isinstance(content, Exception):
                raise content
            place = _place_of(name)
            if place == OTHER and content[:4] == _PARQUET:
                row = dict.fromkeys(FILES.names) | {"name": name, "place": place}
                row["size_bytes"] = len(content)
                searched = search_file(store, variants, row, pa.BufferReader(content))
                found.take(searched)
                for hit in searched.hits:
                    found.add(place, files=1, rows=hit.rows)
            elif place == OTHER and has_any(pa.array([name.rpartition("/")[2]]), texts):
                found.add(place, files=1, entries=1, part=NAMES)
            elif file_has_value(name, content, texts):
                found.add(place, files=1, entries=1)
        except Exception as error:  # libraries raise errors of many kinds
            found.add_unread(name, _place_of(name), error)


def _read(store: Store, name: str) -> bytes | DeltactlError:
    try:
        return store.read(name)
    except DeltactlError as error:
        return error


def _place_of(name: str) -> str:
    if name.startswith(f"{MANIFEST_DIR}/"):
        return MANIFESTS
    if name.startswith(f"{OWN_DIR}/"):
        return OWN
    return ICEBERG if name.startswith("metadata/") else OTHER
