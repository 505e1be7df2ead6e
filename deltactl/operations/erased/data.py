"""Divide the files of a table into places, and search them: data files, texts, old versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.tasks import LazyTasks, as_stream
from deltactl.errors import (
    DeltactlError,
    PartialSuccessError,
    StorageError,
    UnsupportedByStoreError,
    UsageError,
)
from deltactl.log.audit.stored_actions import checksum_mask, log_mask
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.snapshot import Snapshot
from deltactl.operations.erased.found import Found, Hit
from deltactl.operations.erased.logs import NamedFiles, locate_known
from deltactl.operations.erased.report import Unread, Where
from deltactl.operations.erased.schemas import Variant
from deltactl.operations.erased.sought import Sought, count_true
from deltactl.operations.erased.tasks import FILES, SearchSpec, search_files
from deltactl.operations.file_sizes import cut_files
from deltactl.operations.predicate.bounds import may_match
from deltactl.operations.predicate.terms import Column, PartitionRows
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.candidates import Listing
from deltactl.operations.vacuum.journal import QUARANTINE_DIR, list_runs
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_TYPE
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.paths import is_absolute
from deltactl.protocol.vacuum_names import change_data_mask, vector_mask
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import OldVersion

_LIVE_COLUMNS: Final = ("path", "size_bytes", "partition_values", "deletion_vector")
_FILES_A_TASK: Final = 512
_BYTES_A_TASK: Final = 256 << 20
_FOOTER_BYTES: Final = 64 << 10
_NO_NAMES: Final = pa.array([], pa.string())
_VERSIONS_AT_ONCE: Final = 1 << 14
_WITH_ENDS: Final = (Where.QUARANTINE, Where.OLDER)


@dataclass(frozen=True, slots=True)
class FileSearch:
    """The search of the files of one version, of all that a listing has."""

    snapshot: Snapshot
    stored: Listing
    named: NamedFiles
    variants: Sequence[Variant]
    sought: Sought | None
    found: Found

    def run(self, spec: SearchSpec, context: RunContext, *, reads_versions: bool) -> None:
        """Search on the engine.

        Raises:
            InterruptedRunError: ``cancel`` was set.
        """
        live, found = self._live(), self.found
        # Minima and maxima in the log are not used: some writers write wrong ones.
        may = [_may_match(self.variants, it) for it in live.to_batches()]
        chosen = live.filter(pa.chunked_array(may, pa.bool_()))
        found.counts["files_skipped"] += live.num_rows - chosen.num_rows
        tables = (chosen, self._others(live["name"]), *self._old_versions(reads_versions))
        parts = [part for table in tables for part in _cut(table)]
        weights = [sum_sizes(it) + _FOOTER_BYTES * it.num_rows for it in parts]
        engine = context.engine.sized(sum(weights))
        found.engine = engine.name, engine.reason
        tasks = LazyTasks(weights, lambda number: as_stream(parts[number]))
        search = partial(search_files, spec)
        for _, result in replace(context, engine=engine).results(search, tasks):
            found.counts.update(result.counts)
            found.unread += result.unread
            ends = self._find_ends([it for it in result.hits if it.place in _WITH_ENDS])
            for hit in result.hits:
                found.add(hit, ends.get(hit.name))
        found.ensure_running()

    def _live(self) -> pa.Table:
        tables = [FILES.empty_table()]
        for batch in self.snapshot.kept_batches(_LIVE_COLUMNS):
            count = batch.num_rows
            ends = pa.repeat(str(Where.LIVE), count), pa.nulls(count, pa.string())
            columns = [*(batch[it] for it in _LIVE_COLUMNS), *ends]
            tables.append(pa.table(columns, schema=FILES))
        return pa.concat_tables(tables)

    def _others(self, live: pa.ChunkedArray) -> pa.Table:
        """Return the files that are not live, of the log, or deletion vectors; search the names."""
        known = self.named.files.combine_chunks()
        every = self._with_elsewhere(known["name"])
        is_live = pc.is_in(every["name"], value_set=locate_known(self.snapshot.store, live))
        is_of_log = pc.or_(checksum_mask(every["name"]), log_mask(every["name"]))
        files = every.filter(pc.invert(pc.or_(is_live, is_of_log)))
        names = files["name"].combine_chunks()
        is_kept = pc.starts_with(names, f"{QUARANTINE_DIR}/")
        stripped = pc.replace_substring_regex(names, rf"^{QUARANTINE_DIR}/[^/]*/", "")
        of_table = pc.if_else(is_kept, stripped, names)
        rows = pc.index_in(of_table, value_set=known["name"])
        places = _find_places(names, of_table, rows.is_valid())
        if self.sought is not None:
            self._search_all_names(self.sought, names.filter(pc.equal(places, str(Where.OTHER))))
        is_vector = vector_mask(of_table)
        self.found.counts["vectors"] += is_vector.true_count
        values = known["partition_values"].take(rows)
        vectors, ids = (pa.nulls(len(names), kind) for kind in (DELETION_VECTOR_TYPE, pa.string()))
        columns = [names, files["size_bytes"], values, vectors, places, ids]
        return pa.table(columns, schema=FILES).filter(pc.invert(is_vector))

    def _with_elsewhere(self, known: pa.ChunkedArray) -> pa.Table:
        """Return names and sizes of all files, and of those elsewhere, as of a shallow clone."""
        assert self.stored.facts is not None
        texts = known.filter(pc.match_substring_regex(known, "^(?:/|[^/]*:)")).to_pylist()
        elsewhere = pa.array(filter(is_absolute, texts), pa.string())
        names = pa.chunked_array([*self.stored.files.chunks, elsewhere])
        sizes = [*self.stored.facts["size_bytes"].chunks, pa.nulls(len(elsewhere), pa.int64())]
        return pa.table({"name": names, "size_bytes": pa.chunked_array(sizes)})

    def _search_all_names(self, sought: Sought, others: pa.Array) -> None:
        """Search the names of all files and directories but those of the log."""
        listed = self.stored.files
        is_out = pc.or_(log_mask(listed), pc.is_in(listed, value_set=others))
        folders = pa.array([f"{it}/" for it in self.stored.directories], pa.string())
        self._search_names(sought, Where.OTHER, others)
        self._search_names(sought, Where.PATHS, listed.filter(pc.invert(is_out)), folders)

    def _search_names(
        self, sought: Sought, place: Where, names: pa.Array, directories: pa.Array = _NO_NAMES
    ) -> None:
        files, more = (count_true(sought.in_paths(it)) for it in (names, directories))
        if files or more:
            self.found.add(Hit(place, files=files, entries=files or more, part="paths"))

    def _old_versions(self, reads: bool) -> Iterator[pa.Table]:
        """Yield the old versions of objects; count them, and say so if they are not read."""
        versions, found = self.snapshot.store.versions, self.found
        if versions is None:
            return
        count = 0
        try:
            listed = versions.list_old()
            while rows := list(islice(listed, _VERSIONS_AT_ONCE)):
                found.ensure_running()
                count += len(rows)
                found.note_searched([(it.name, it.version_id) for it in rows])
                if self.sought is not None:
                    names = pa.array([it.name for it in rows])
                    self._search_names(self.sought, Where.VERSIONS, names)
                if reads:
                    yield _as_files(rows)
        except UnsupportedByStoreError as error:
            self._leave_versions("old versions", error.message)
        except StorageError as error:
            found.add_unread(found.table, Where.VERSIONS, error)
        else:
            found.counts["old_versions"] += count
            if count and not reads:
                reason = f"not searched without {option('versions', True)}"
                self._leave_versions(f"{count:,} versions", reason)

    def _leave_versions(self, what: str, reason: str) -> None:
        kind = PartialSuccessError
        self.found.unread.append(Unread(what, Where.VERSIONS, kind.code, reason, kind.exit_code))

    def _find_ends(self, hits: Sequence[Hit]) -> dict[str, int | None]:
        """Return when a vacuum may delete files, as far as that is known."""
        if not hits:
            return {}
        runs = {it.run_id: it.quarantined_until_ms for it in list_runs(self.snapshot.store)}
        names = [it.name for it in hits]
        run_ids = [name.removeprefix(f"{QUARANTINE_DIR}/").partition("/")[0] for name in names]
        ends = {name: runs.get(run_id) for name, run_id in zip(names, run_ids, strict=True)}
        removed = self.named.removed
        rows = pc.index_in(pa.array(names), removed["name"].combine_chunks())
        with suppress(UsageError):  # an invalid property
            retention_ms = self.snapshot.properties.deleted_file_retention_ms
            last = pc.add(removed["removed_ms_max"].take(rows), retention_ms).to_pylist()
            ends |= {it: end for it, end in zip(names, last, strict=True) if end is not None}
        return ends


def _find_places(names: pa.Array, of_table: pa.Array, is_named: pa.Array) -> pa.Array:
    """Return the place of each file that is not live; ``of_table`` is its name before a vacuum."""
    cases = {
        Where.QUARANTINE: pc.starts_with(names, f"{QUARANTINE_DIR}/"),
        Where.OWN: pc.starts_with(names, f"{OWN_DIR}/"),
        Where.CHANGES: change_data_mask(of_table),
        Where.OLDER: is_named,
        Where.UNREFERENCED: pc.match_substring_regex(names, r"(?i)\.parquet$"),
        Where.MANIFESTS: pc.starts_with(names, f"{MANIFEST_DIR}/"),
        Where.ICEBERG: pc.starts_with(names, "metadata/"),
    }
    conditions = pa.StructArray.from_arrays(list(cases.values()), names=list(cases))
    return pc.case_when(conditions, *map(str, cases), str(Where.OTHER))


def _cut(files: pa.Table) -> Iterator[pa.Table]:
    """Yield the files of each task."""
    sizes = np.maximum(pc.fill_null(files["size_bytes"], 0).to_numpy(), 0)
    for start, stop in cut_files(sizes, _FILES_A_TASK, _BYTES_A_TASK):
        yield files.slice(start, stop - start)


def _as_files(versions: Sequence[OldVersion]) -> pa.Table:
    rows = [
        (it.name, it.size_bytes, None, None, str(Where.VERSIONS), it.version_id) for it in versions
    ]
    columns = map(pa.array, zip(*rows, strict=True), FILES.types)
    files = pa.table(list(columns), schema=FILES)
    return files.filter(pc.invert(pc.or_(vector_mask(files["name"]), checksum_mask(files["name"]))))


def _may_match(variants: Sequence[Variant], files: pa.RecordBatch) -> pa.Array:
    """Return for each file whether it may have a matching row, by its partition values."""

    def may(variant: Variant) -> pa.Array:
        rows = PartitionRows(files["partition_values"])

        def find(column: Column) -> tuple[pa.Array, pa.Array] | None:
            if column.name not in variant.partition_names:
                return None
            return rows.typed(column), rows.typed(column)

        try:
            return may_match(variant.term, find, files.num_rows)
        except DeltactlError:  # the file is opened, and the error is reported
            return pa.repeat(True, files.num_rows)

    return reduce(pc.or_, map(may, variants))
