"""Search the data files of a table: live, of older versions, unknown to the log, in quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.tasks import LazyTasks, as_stream
from deltactl.errors import DeltactlError, SafetyError, UsageError
from deltactl.log.audit.stored_actions import checksum_mask, log_mask
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.find_files import find_files
from deltactl.log.physical_names import locate
from deltactl.log.snapshot import Snapshot
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.logs import NamedFiles
from deltactl.operations.erased.report import CHANGES, OLDER, QUARANTINE, UNREFERENCED
from deltactl.operations.erased.sought import (
    Variant,
    any_mask,
    partition_columns,
)
from deltactl.operations.erased.tasks import (
    FILES,
    LIVE,
    Searched,
    SearchSpec,
    search_files,
)
from deltactl.operations.file_sizes import cut_files
from deltactl.operations.predicate.bounds import may_match
from deltactl.operations.predicate.terms import Column
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.journal import QUARANTINE_DIR, list_runs
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_TYPE
from deltactl.protocol.paths import is_absolute
from deltactl.protocol.vacuum_names import change_data_mask, vector_mask
from deltactl.storage.names import OWN_DIR

_LIVE_COLUMNS: Final = ("path", "size_bytes", "partition_values", "deletion_vector")
_FILES_A_TASK: Final = 512
_BYTES_A_TASK: Final = 256 << 20
_FOOTER_BYTES: Final = 64 << 10
_STAT_NAMES: Final = 16_384


@dataclass(frozen=True, slots=True)
class DataSearch:
    """The search of the data files of one version, of all ``names`` below the root."""

    snapshot: Snapshot
    names: pa.Array
    named: NamedFiles
    variants: Sequence[Variant]
    found: Found

    def run(self, spec: SearchSpec, context: RunContext) -> pa.Array:
        """Search on the engine; return the names that are no data files.

        Raises:
            InterruptedRunError: ``cancel`` was set.
        """
        others, rest = self._divide()
        weights = [self._weigh(it) for it in self._cuts(others, count=True)]
        engine = context.engine.sized(sum(weights))
        self.found.engine = engine.name, engine.reason
        waiting = self._cuts(others)
        tasks = LazyTasks(weights, lambda _: as_stream(next(waiting)))
        for _, result in replace(context, engine=engine).results(
            partial(search_files, spec), tasks
        ):
            self._take(result)
        self.found.ensure_running()
        return rest

    @staticmethod
    def _weigh(task: pa.Table) -> int:
        return sum_sizes(task) + _FOOTER_BYTES * int(task.num_rows)

    def _cuts(self, others: pa.Table, *, count: bool = False) -> Iterator[pa.Table]:
        for table in (*self._live(count=count), others):
            sizes = np.maximum(pc.fill_null(table["size_bytes"], 0).to_numpy(), 0)
            for start, stop in cut_files(sizes, _FILES_A_TASK, _BYTES_A_TASK):
                yield table.slice(start, stop - start)

    def _live(self, *, count: bool) -> Iterator[pa.Table]:
        """Yield live files, except those whose partition values exclude a matching row."""
        for batch in self.snapshot.kept_batches(_LIVE_COLUMNS):
            files = batch.combine_chunks()
            for part in files.to_batches():
                may = any_mask([_may_match(it, part) for it in self.variants])
                if count:
                    self.found.counts.files_skipped += len(may) - may.true_count
                chosen = pa.table(part).filter(may)
                places = pa.repeat(pa.scalar(LIVE), chosen.num_rows)
                columns = [chosen[name] for name in _LIVE_COLUMNS]
                yield pa.table([*columns, places], schema=FILES)

    def _divide(self) -> tuple[pa.Table, pa.Array]:
        """Return the data files that are not live, and the names of files that are none."""
        live = [pa.array([], pa.string())]
        for batch in self.snapshot.kept_batches(("path",)):
            names = batch["path"]
            with suppress(SafetyError):
                names = pc.coalesce(locate(self.snapshot.store, names), names)
            live += names.chunks
        every = pa.concat_arrays([self.names, self._elsewhere()])
        names = every.filter(pc.invert(pc.is_in(every, pa.concat_arrays(live))))
        is_stored = pc.starts_with(names, f"{QUARANTINE_DIR}/")
        of_table = pc.if_else(
            is_stored, pc.replace_substring_regex(names, rf"^{QUARANTINE_DIR}/[^/]*/", ""), names
        )
        known = self.named.files["name"].combine_chunks()
        rows = pc.index_in(of_table, known)
        is_vector = vector_mask(of_table)
        is_data = pc.or_(pc.match_substring_regex(names, r"(?i)\.parquet$"), rows.is_valid())
        is_data = pc.or_(is_data, pc.or_(is_stored, change_data_mask(of_table)))
        is_data = pc.and_(is_data, pc.invert(checksum_mask(names)))
        is_own = pc.or_(log_mask(names), pc.starts_with(names, f"{OWN_DIR}/"))
        is_data = pc.and_(is_data, pc.or_(is_stored, pc.invert(is_own)))
        self.found.counts.vectors += is_vector.true_count
        is_data = pc.and_(is_data, pc.invert(is_vector))
        places = pc.if_else(rows.is_valid(), OLDER, UNREFERENCED)
        places = pc.if_else(change_data_mask(of_table), CHANGES, places)
        places = pc.if_else(is_stored, QUARANTINE, places)
        columns = [
            names,
            pa.nulls(len(names), pa.int64()),
            self.named.files["partition_values"].combine_chunks().take(rows),
            pa.nulls(len(names), DELETION_VECTOR_TYPE),
            places,
        ]
        rest = names.filter(pc.invert(pc.or_(is_data, is_vector)))
        return self._with_sizes(pa.table(columns, schema=FILES).filter(is_data)), rest

    def _elsewhere(self) -> pa.Array:
        """Return the files outside the table that an action names, as in a shallow clone."""
        names = self.named.files["name"].combine_chunks()
        texts = names.filter(pc.match_substring_regex(names, "^(?:/|[^/]*:)")).to_pylist()
        return pa.array(filter(is_absolute, texts), pa.string())

    def _with_sizes(self, files: pa.Table) -> pa.Table:
        sizes: list[int | None] = []
        for start in range(0, files.num_rows, _STAT_NAMES):
            names = files["name"].slice(start, _STAT_NAMES).to_pylist()
            infos, _ = find_files(self.snapshot.store, names)
            found = (infos.get(name) for name in names)
            sizes += [None if it is None else it.size_bytes for it in found]
        return files.set_column(1, "size_bytes", pa.array(sizes, pa.int64()))

    def _take(self, result: Searched) -> None:
        self.found.take(result)
        for place in dict.fromkeys(it.place for it in result.hits):
            hits = [it for it in result.hits if it.place == place]
            until = self._find_end(place, [it.name for it in hits])
            rows = sum(it.rows for it in hits)
            self.found.add(place, files=len(hits), rows=rows, until_ms=until)

    def _find_end(self, place: str, names: Sequence[str]) -> int | None:
        """Return when a vacuum may delete the last of some files, as far as that is known."""
        ends: list[int | None] = []
        if place == QUARANTINE:
            runs = {it.run_id: it.quarantined_until_ms for it in list_runs(self.snapshot.store)}
            ends = [runs.get(name[len(QUARANTINE_DIR) + 1 :].partition("/")[0]) for name in names]
        elif place == OLDER:
            removed = self.named.removed
            rows = pc.index_in(pa.array(names), removed["name"].combine_chunks())
            with suppress(UsageError):  # an invalid property
                retention_ms = self.snapshot.properties.deleted_file_retention_ms
                last = pc.max(removed["removed_ms_max"].take(rows)).as_py()
                ends = [None if last is None else last + retention_ms]
        return max(filter(None, ends), default=None)


def _may_match(variant: Variant, files: pa.RecordBatch) -> pa.Array:
    """Return for each file whether it may have a matching row, by its partition values.

    Minima and maxima in the log are not used: some writers write wrong ones.
    """
    try:
        names = variant.partition_names
        constants = partition_columns(variant, files["partition_values"], names)
    except DeltactlError:  # the file is opened, and the error is reported
        return pa.repeat(pa.scalar(True), files.num_rows)

    def find(column: Column) -> tuple[pa.Array, pa.Array] | None:
        value = constants.get(column.name)
        return None if value is None else (value, value)

    return may_match(variant.term, find, files.num_rows)
