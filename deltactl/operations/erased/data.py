"""Divide the files of a table into places, and search them: data files, texts, old versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.tasks import LazyTasks, as_stream
from deltactl.errors import SearchIncompleteError, StorageError, UnsupportedByStoreError
from deltactl.log.audit.stored_actions import log_mask
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.snapshot import Snapshot
from deltactl.operations.erased.fates import Fates, find_fates
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.logs import locate_known
from deltactl.operations.erased.report import BY_HAND, MOST_PARTS, Where, mask_directories
from deltactl.operations.erased.sought import Sought, count_true
from deltactl.operations.erased.tasks import FILES, SearchSpec, search_files
from deltactl.operations.erased.texts import iceberg_mask
from deltactl.operations.file_sizes import cut_files
from deltactl.operations.vacuum.journal import QUARANTINE_DIR, RUNS_DIR, list_runs
from deltactl.operations.vacuum.planner import Planner
from deltactl.option_names import option
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.path_columns import absolute_mask
from deltactl.protocol.vacuum_names import (
    HiddenRule,
    below_mask,
    change_data_mask,
    foreign_roots,
    vector_mask,
)
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import FileInfo, OldVersion

_LIVE_COLUMNS: Final = ("path", "size_bytes", "partition_values", "deletion_vector")
_FILES_A_TASK: Final = 512
_BYTES_A_TASK: Final = 256 << 20
_FOOTER_BYTES: Final = 64 << 10
_VACUUMED: Final = (Where.SHARED, Where.CHANGES, Where.OLDER, Where.UNREFERENCED)
_VERSIONS_AT_ONCE: Final = 1 << 14


def log_files_of(listed: pa.Table) -> list[FileInfo]:
    """Return the files of the log in a listing, which has the fields of ``FileInfo``."""
    is_it = pc.and_not(log_mask(listed["name"]), _checksum_mask(listed["name"]))
    return [FileInfo(**row) for row in listed.filter(is_it).to_pylist()]


def _checksum_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which names are of checksums of files, by Hadoop: they have no values."""
    return pc.match_substring_regex(names, r"(?:^|/)\.[^/]*\.crc$")


@dataclass(frozen=True, slots=True)
class FileSearch:
    """The search of the files of one version, of all that a listing has."""

    snapshot: Snapshot
    listed: pa.Table
    directories: Sequence[str]
    named: pa.Table
    sought: Sought
    found: Found
    planner: Planner | None

    def run(self, spec: SearchSpec, *, reads_versions: bool) -> None:
        """Search on the engine.

        Raises:
            InterruptedRunError: ``cancel`` was set.
        """
        live, found = self._live(), self.found
        # The log skips no file: some writers write wrong minima and maxima, and a file may store
        # other values of a partition column than those in the log.
        tables = (live, self._others(live["name"]), *self._old_versions(reads_versions))
        parts = [part for table in tables for part in _cut(table)]
        weights = [sum_sizes(it) + _FOOTER_BYTES * it.num_rows for it in parts]
        engine = found.context.engine.sized(sum(weights))
        found.engine = engine.name, engine.reason
        tasks = LazyTasks(weights, lambda number: as_stream(parts[number]))
        search = partial(search_files, spec)
        for _, result in replace(found.context, engine=engine).results(search, tasks):
            found += result
        found.ensure_running()

    def _live(self) -> pa.Table:
        tables = [FILES.empty_table()]
        for batch in self.snapshot.kept_batches(_LIVE_COLUMNS):
            columns = dict(zip(("name", *_LIVE_COLUMNS[1:]), batch.columns, strict=True))
            place = pa.repeat(str(Where.LIVE), batch.num_rows)
            tables.append(_as_files(batch.num_rows, place=place, **columns))
        return pa.concat_tables(tables)

    def _others(self, live: pa.ChunkedArray) -> pa.Table:
        """Return the files that are not live, of the log, or deletion vectors; search the names."""
        every = self._with_elsewhere()
        is_live = pc.is_in(every["name"], value_set=locate_known(self.snapshot.store, live))
        is_out = pc.or_(is_live, pc.or_(log_mask(every["name"]), _checksum_mask(every["name"])))
        files = every.filter(pc.invert(is_out)).combine_chunks()
        names = files["name"]
        is_kept = pc.starts_with(names, f"{QUARANTINE_DIR}/")
        stripped = pc.replace_substring_regex(names, rf"^{QUARANTINE_DIR}/[^/]*/", "")
        of_table = pc.if_else(is_kept, stripped, names)
        rows = pc.index_in(of_table, value_set=self.named["name"])
        fates = find_fates(self.planner, files, self.named["name"])
        ends, has_journal = self._find_runs(names)
        places = self._find_places(names, of_table, fates, has_journal)
        self._search_all_names(names, places, every["name"].filter(is_live))
        is_vector = vector_mask(of_table)
        self.found.counts["vectors"] += count_true(is_vector)
        return _as_files(
            len(names),
            place=places,
            name=names,
            size_bytes=files["size_bytes"],
            partition_values=self.named["partition_values"].take(rows),
            until_ms=self._find_ends(names, places, fates, ends),
        ).filter(pc.invert(is_vector))

    def _with_elsewhere(self) -> pa.Table:
        """Return all files of the listing, and those elsewhere, as of a shallow clone."""
        known = self.named["name"]
        files = pa.table({"name": pc.unique(known.filter(absolute_mask(known)))})
        return pa.concat_tables([self.listed, files], promote_options="default")

    def _find_runs(self, names: pa.ChunkedArray) -> tuple[pa.Array, pa.ChunkedArray]:
        """Return the ends of quarantined files; whether the journal of their run can be read."""
        runs = {it.run_id: it.quarantined_until_ms for it in list_runs(self.snapshot.store)}
        run_ids = pc.replace_substring_regex(names, rf"(?s)^{QUARANTINE_DIR}/([^/]*)/.*", r"\1")
        at = pc.index_in(run_ids, value_set=pa.array(list(runs), pa.string()))
        return pa.array(list(runs.values()), pa.int64()).take(at), pc.is_valid(at)

    def _find_ends(
        self,
        names: pa.ChunkedArray,
        places: pa.ChunkedArray,
        fates: Fates,
        quarantined: pa.Array,
    ) -> pa.ChunkedArray:
        """Return until when files are kept, as far as that is known: by a vacuum, or by a log."""
        elsewhere = self.named.filter(self.named["log_until_ms"].is_valid())
        elsewhere = elsewhere.sort_by([("log_until_ms", "descending")])
        by_log = elsewhere["log_until_ms"].take(pc.index_in(names, value_set=elsewhere["name"]))
        is_vacuumed = pc.is_in(places, value_set=pa.array(_VACUUMED, pa.string()))
        return pc.coalesce(quarantined, by_log, pc.if_else(is_vacuumed, fates.until_ms, None))

    def _find_places(
        self,
        names: pa.ChunkedArray,
        of_table: pa.ChunkedArray,
        fates: Fates,
        has_journal: pa.ChunkedArray,
    ) -> pa.ChunkedArray:
        """Return the places of files; ``of_table``: their names before a vacuum."""
        rule = HiddenRule(self.snapshot.metadata)
        is_hidden, is_named = rule.mask(names), fates.is_named
        is_data = pc.match_substring_regex(names, r"(?i)\.parquet$")
        roots = foreign_roots(
            self.listed["name"], self.directories, iceberg=not rule.hides_metadata
        )
        # Below another table's root, a vacuum keeps what the log does not name.
        later = self.named["name"].filter(self.named["is_later"])
        is_later = pc.is_in(of_table, value_set=later)
        is_vacuumed = pc.or_(is_later, pc.and_(fates.is_writers, "" not in roots))
        is_quarantined = pc.starts_with(names, f"{QUARANTINE_DIR}/")
        cases = {
            Where.QUARANTINE: pc.and_(is_quarantined, has_journal),
            Where.LOST: is_quarantined,
            Where.JOURNALS: pc.starts_with(names, f"{RUNS_DIR}/"),
            Where.OWN: pc.starts_with(names, f"{OWN_DIR}/"),
            Where.OF_SOURCE: absolute_mask(names),
            # A vacuum keeps what is below another table, and hidden names.
            Where.TABLES: below_mask(names, roots - {""}),
            Where.SHARED: fates.is_shared,
            Where.CHANGES: pc.and_(is_named, change_data_mask(of_table)),
            Where.OLDER: pc.and_not(is_named, is_hidden),
            Where.UNREFERENCED: pc.and_(is_vacuumed, pc.and_not(is_data, is_hidden)),
            Where.UNKNOWN: pc.and_not(is_data, is_hidden),
            Where.MANIFESTS: pc.starts_with(names, f"{MANIFEST_DIR}/"),
            Where.ICEBERG: pc.and_(pc.starts_with(names, "metadata/"), iceberg_mask(names)),
        }
        places = pa.repeat(str(Where.OTHER), len(names))
        for place, mask in reversed(cases.items()):
            places = pc.if_else(mask, str(place), places)
        return places

    def _search_all_names(
        self, names: pa.ChunkedArray, places: pa.ChunkedArray, live: pa.ChunkedArray
    ) -> None:
        """Search the names of all files and directories but those of the log.

        What ends the name of a file is what ends the file; a live one is rewritten.
        """
        checksums = self.listed["name"].filter(_checksum_mask(self.listed["name"]))
        count = self._search_names(Where.PATHS, live, (Where.STORED,))
        count += self._search_names(Where.PATHS, checksums)
        for place in map(Where, pc.unique(places).to_pylist()):
            self.found.manifests |= {self.found.table} if place == Where.MANIFESTS else set()
            of_place = names.filter(pc.equal(places, str(place)))
            name = Where.OTHER if place == Where.OTHER else Where.PATHS
            count += self._search_names(name, of_place, (place,))
        if not count:  # else files keep the directories
            self._search_directories()

    def _search_directories(self) -> None:
        """Search the names of directories: a full vacuum deletes those that it lists."""
        rule = HiddenRule(self.snapshot.metadata)
        roots = foreign_roots(self.listed["name"], self.directories, iceberg=True) - {""}
        folders = pa.chunked_array([[f"{it}/" for it in self.directories]], pa.string())
        is_kept = pc.or_(rule.mask(folders), below_mask(folders, roots))
        self._search_names(Where.PATHS, folders.filter(is_kept), is_file=False)
        listed = folders.filter(pc.invert(is_kept))
        self._search_names(Where.PATHS, listed, (Where.UNREFERENCED,), is_file=False)

    def _search_names(
        self, place: Where, names: pa.Array, of: tuple[Where, ...] = (), *, is_file: bool = True
    ) -> int:
        """Search names; return how many have a value."""
        has_value = self.sought.in_paths(names)
        if place == Where.OTHER:  # named by users: words without the end of the name
            words = pc.replace_substring_regex(names, r"(?s)^(?:.*/)?\.?|\.[^./]*$", "")
            has_value = pc.or_(has_value, self.sought.in_texts(words))
        found = names.filter(has_value)
        count = len(found)
        if count:
            by_hand = not set(of).isdisjoint(BY_HAND) or not (is_file or of)
            shown = found.slice(0, MOST_PARTS).to_pylist() if by_hand else ()
            parts = tuple(map(mask_directories, shown)) or ("paths",)
            self.found.add(place, files=count if is_file else 0, entries=count, parts=parts, of=of)
        return count

    def _old_versions(self, reads: bool) -> Iterator[pa.Table]:
        """Yield the old versions of objects; count them, and say so if they are not read."""
        versions, found, count = self.snapshot.store.versions, self.found, 0
        if versions is None:
            return
        try:
            listed = versions.list_old()
            while rows := list(islice(listed, _VERSIONS_AT_ONCE)):
                found.ensure_running()
                count += len(rows)
                found.note_searched([(it.name, it.version_id) for it in rows])
                self._search_names(Where.VERSIONS, pa.array([it.name for it in rows]))
                if reads:
                    yield _old_files(rows)
        except UnsupportedByStoreError as error:
            left = SearchIncompleteError(error.message)
            found.add_unread("old versions", Where.VERSIONS, left)
        except StorageError as error:
            found.add_unread(found.table, Where.VERSIONS, error)
        else:
            found.counts["old_versions"] += count
            if count and not reads:
                left = SearchIncompleteError(f"not searched without {option('versions', True)}")
                found.add_unread(f"{count:,} versions", Where.VERSIONS, left)


def _as_files(count: int, **columns: Any) -> pa.Table:
    """Return rows of ``FILES``, which are null in the columns that are not given."""
    nulls = {it.name: pa.nulls(count, it.type) for it in FILES}
    return pa.table({**nulls, **columns}, schema=FILES)


def _cut(files: pa.Table) -> Iterator[pa.Table]:
    sizes = np.maximum(pc.fill_null(files["size_bytes"], 0).to_numpy(), 0)
    for start, stop in cut_files(sizes, _FILES_A_TASK, _BYTES_A_TASK):
        yield files.slice(start, stop - start)


def _old_files(versions: Sequence[OldVersion]) -> pa.Table:
    files = _as_files(
        len(versions),
        place=[str(Where.VERSIONS)] * len(versions),
        name=[it.name for it in versions],
        size_bytes=[it.size_bytes for it in versions],
        version_id=[it.version_id for it in versions],
    )
    return files.filter(
        pc.invert(pc.or_(vector_mask(files["name"]), _checksum_mask(files["name"])))
    )
