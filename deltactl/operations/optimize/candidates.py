"""Find the files that an optimize may rewrite: the first step of a plan, from the log alone."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn, ignore_warning, join_reasons
from deltactl.log.audit.path_texts import multiple_texts_mask
from deltactl.log.commits.file_actions import ensure_complete, sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags, Integers
from deltactl.operations.caught_up import caught_up_version
from deltactl.operations.leases import read_last_run
from deltactl.operations.optimize.known_stats import known_stats_type, mergeable_leaves
from deltactl.operations.optimize.options import LAST_RUN, OptimizeOptions
from deltactl.operations.partition_groups import PartitionGroups, find_touched, group_partitions
from deltactl.operations.predicate.parse import PartitionPredicate
from deltactl.option_names import option
from deltactl.protocol.deletion_vectors import STORAGE_TYPES
from deltactl.protocol.stats import num_records
from deltactl.protocol.stats_decoding import parse_stats
from deltactl.units import HOUR_MS, format_count, format_timestamp

TWO_TEXTS = "listed under two path texts in the log"
"""A reason why a file is not rewritten: see ``multiple_texts_mask``."""

_READ_COLUMNS = (
    "path",
    "encoded_path",
    "partition_values",
    "size_bytes",
    "stats",
    "tags",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
    "modification_time_ms",
    "clustering_provider",
)


class LoadedFiles(NamedTuple):
    """The files that are considered, the number of other files, and the bytes of the table."""

    files: pa.Table
    num_others: int
    table_bytes: int


@dataclass(slots=True, eq=False)
class Candidates:
    """The considered files by partition, and the decision about each so far.

    ``mask`` are the files that may be rewritten; ``forced`` are rewritten in any case; ``settled``
    are outputs for the same target size; ``outgrown`` are small outputs for at most half of it, in
    the layout of the options or of the table. Only files of the same ``shapes`` get into one bin;
    those of shape 0 are decoded, or copied as usual. ``row_groups``: how many must be copied of
    each file. ``left_alone`` counts the other files by reason. ``missing``: chosen partitions
    without a file.
    """

    files: pa.Table
    groups: PartitionGroups
    sizes: Integers
    mask: Flags
    forced: Flags
    settled: Flags
    outgrown: Flags
    shapes: Integers
    row_groups: Integers
    left_alone: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, files: pa.Table, groups: PartitionGroups) -> Candidates:
        """Return all files as candidates."""
        sizes = pc.fill_null(files["size_bytes"], 0).to_numpy()
        none = np.zeros(len(sizes), np.bool_)
        zeros = np.zeros((2, len(sizes)), np.int64)
        return cls(files, groups, sizes, ~none, none, none, none, *zeros)

    def leave(self, mask: Flags, reason: str) -> None:
        """Remove files from the candidates, and count them by reason."""
        hit = self.mask & mask
        self.mask = self.mask & ~mask
        self.left_alone[reason] = self.left_alone.get(reason, 0) + int(hit.sum())


def load_files(
    snapshot: Snapshot,
    predicate: PartitionPredicate | None = None,
    names: pa.ChunkedArray | None = None,
) -> LoadedFiles:
    """Read the files that match ``predicate``, only those with one of ``names`` if given."""
    unmatched = table_bytes = 0
    leaves = mergeable_leaves(snapshot)
    kind = known_stats_type(leaves)

    def read(batch: pa.Table) -> pa.Table:
        nonlocal unmatched, table_bytes
        ensure_complete(batch)
        table_bytes += sum_sizes(batch)
        files = batch.append_column("num_records", num_records(batch["stats"]))
        if leaves:
            files = files.append_column("known_stats", parse_stats(batch["stats"], kind))
        files = files.drop_columns("stats")
        if names is not None:
            files = files.filter(pc.is_in(files["path"], value_set=names))
        if predicate is None:
            return files
        matched = files.filter(predicate.evaluate(files["partition_values"]))
        unmatched += files.num_rows - matched.num_rows
        return matched

    tables = [read(batch) for batch in snapshot.file_batches(_READ_COLUMNS)]
    files = pa.concat_tables(tables or [read(snapshot.files.select(_READ_COLUMNS))])
    return LoadedFiles(files, unmatched, table_bytes)


def find_candidates(
    log: DeltaLog,
    snapshot: Snapshot,
    options: OptimizeOptions,
    loaded: LoadedFiles,
    *,
    names: pa.ChunkedArray | None,
    now_ms: int,
) -> Candidates:
    """Return the files that the options allow to rewrite; only ``names``, if given.

    Raises:
        CorruptLogError: a partition value is not valid for the type of its column.
        SafetyError: a file has a value of a column that is not a partition column.
    """
    files = loaded.files
    fields = snapshot.metadata.known_partition_fields
    candidates = Candidates.of(files, group_partitions(files["partition_values"], fields))
    if names is not None:
        others = pc.invert(pc.is_in(files["path"], value_set=names))
        candidates.leave(np.asarray(others), "not changed by other writers")
    _leave_two_texts(candidates, snapshot, log.warn)
    candidates.left_alone[f"not matched by {option('where')}"] = loaded.num_others
    if options.partitions is not None:
        outside, missing = _outside(candidates, snapshot, options.partitions)
        candidates.leave(outside, "in a partition not chosen")
        if missing and names is None and options.where is None:
            candidates.missing = tuple(missing)
            log.warn(f"no file is in the partition {join_reasons(missing)}")
    _leave_untouched(candidates, log, snapshot, options)
    if options.skip_hot_ms is not None:
        times = pc.fill_null(files["modification_time_ms"], 0).to_numpy()
        known = drop_future(times, now_ms, log.warn if names is None else ignore_warning)
        hot = candidates.groups.newest(known) > now_ms - options.skip_hot_ms
        candidates.leave(hot[candidates.groups.ids], "in a recently written partition")
    return candidates


def drop_future(times: Integers, now_ms: int, warn: Warn) -> Integers:
    """Return the times of files, with 0 for those that only a wrong clock can give.

    They would keep a partition recently written until then, and its small files with it. A rewrite
    of a partition that is written to risks only a conflict.
    """
    is_future = times > now_ms + HOUR_MS
    if is_future.any():
        warn(
            f"the log dates {format_count(int(is_future.sum()), 'file')} in the future, up to "
            f"{format_timestamp(int(times.max()))}: a clock is wrong. These times do not make a "
            "partition recently written"
        )
    return np.where(is_future, 0, times)


def _leave_two_texts(candidates: Candidates, snapshot: Snapshot, warn: Warn) -> None:
    """Exclude files with two path texts in the log.

    Readers return their rows twice, or still return removed rows: a rewrite would make that
    permanent.
    """
    mask = multiple_texts_mask(snapshot, candidates.files)
    if not mask.any():
        return
    candidates.leave(mask, TWO_TEXTS)
    first = candidates.files["path"][int(np.flatnonzero(mask)[0])].as_py()
    warn(
        f"{format_count(int(mask.sum()), 'file')} excluded, such as {first!r}. The log has two "
        "path texts for each of these files, so readers treat one file as two. Run `deltactl "
        f"check {snapshot.store.uri}`"
    )


def _leave_untouched(
    candidates: Candidates, log: DeltaLog, snapshot: Snapshot, options: OptimizeOptions
) -> None:
    """Exclude partitions without added or removed files after ``since_version``."""
    since = _find_since(log, snapshot, options)
    if since is None:
        return
    touched = find_touched(log, snapshot, since)
    if touched is not None:
        outside, _ = _outside(candidates, snapshot, touched)
        candidates.leave(outside, f"in a partition not touched since version {since}")


def _find_since(log: DeltaLog, snapshot: Snapshot, options: OptimizeOptions) -> int | None:
    """Return the version after which a change counts; ``None``: any change.

    The last run may be of an earlier table at this address, or of a log that was replaced by a
    backup: then nothing is excluded.
    """
    if options.since_version != LAST_RUN:
        return None if options.since_version is None else int(options.since_version)
    last = read_last_run(log.store, "optimize")
    if last is None or last.table_id != snapshot.metadata.id or last.caught_up_version is None:
        return None
    since = caught_up_version(last, log, snapshot)
    if since is None:
        log.warn(
            f"version {last.caught_up_version} of the last run is not known to be a version of "
            "this log: all partitions are considered"
        )
    return since


def _outside(
    candidates: Candidates, snapshot: Snapshot, directories: Set[str]
) -> tuple[Flags, list[str]]:
    """Return the files that are in none of these partitions, and the partitions without a file."""
    fields, groups = snapshot.metadata.partition_fields, candidates.groups
    by_text = group_partitions(candidates.files["partition_values"], fields, by_text=True)
    labels = by_text.labels()
    hit = np.asarray([label in directories for label in labels], dtype=np.bool_)[by_text.ids]
    # One partition may have several spellings.
    groups_hit = np.zeros(groups.num_groups, dtype=np.bool_)
    groups_hit[groups.ids[hit]] = True
    return ~groups_hit[groups.ids], sorted(directories - set(labels))


def suspect_mask(vectors: pa.ChunkedArray) -> Flags:
    """Return a mask of the vectors of an unknown type, or with missing or negative numbers."""

    def field(name: str) -> pa.ChunkedArray:
        return pc.struct_field(vectors, name)

    is_known = pc.is_in(field("storage_type"), value_set=pa.array(STORAGE_TYPES))
    is_sound = pc.and_(
        pc.greater_equal(field("size_bytes"), 0),
        pc.greater_equal(pc.fill_null(field("offset"), 0), 0),
    )
    is_whole = pc.and_(field("path_or_inline_dv").is_valid(), field("cardinality").is_valid())
    is_usable = pc.and_(pc.and_(is_known, is_whole), pc.fill_null(is_sound, False))
    return np.asarray(pc.and_(vectors.is_valid(), pc.invert(is_usable))).astype(np.bool_)
