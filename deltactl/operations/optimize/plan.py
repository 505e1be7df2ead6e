"""Plan ``optimize``: choose bins of files from a snapshot, without reading data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn, ignore_warning
from deltactl.log.snapshot import Snapshot
from deltactl.operations.columns import ensure_columns
from deltactl.operations.file_sizes import FileSizes, count_sizes
from deltactl.operations.optimize.clustered import clustered_mask
from deltactl.operations.optimize.layout.request import LayoutRequest, resolve_request
from deltactl.operations.optimize.layout.select import (
    LayoutPlan,
    Placed,
    count_outputs,
    divide_clusters,
)
from deltactl.operations.optimize.layout.tags import is_clustered_otherwise
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.packing import PackingRule, pack
from deltactl.operations.optimize.purge import purge_mask
from deltactl.operations.partition_groups import PartitionGroups, group_partitions
from deltactl.operations.path_encoding.index import multiple_texts_mask
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.operations.target_size import DEFAULT_MIN_SHARE, choose_target_bytes
from deltactl.operations.touched_partitions import find_touched
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.stats import num_records
from deltactl.units import format_count

TARGET_TAG = "deltactl.targetFileSize"
"""Tag of an output: the target size in bytes at the time of writing."""

TWO_TEXTS = "named by two texts in the log"
"""Why a file is not rewritten: see ``multiple_texts_mask``."""

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

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class OptimizePlan:
    """The plan of an optimize. Pure: no I/O.

    ``files`` holds the files to rewrite, one row each with ``ADD_SCHEMA`` columns (no ``stats``),
    ``num_records`` and ``bin``, in the order of the output's rows. ``partitions`` has one row
    for each partition with a bin: ``partition``, ``files_before``, ``files_after``,
    ``bytes_before``, ``bytes_to_rewrite``, ``bins``. ``left_alone`` counts files by reason.
    ``sizes_before`` and ``sizes_after`` count the considered files by size; an output is assumed
    to be as large as its inputs, although compression may make it smaller. With a ``layout``, each
    bin is a cluster, of which the rows are exchanged between files.
    """

    version: int
    table_id: str
    target_bytes: int
    min_bytes: int
    predicate: str | None
    files: pa.Table
    partitions: pa.Table
    left_alone: Mapping[str, int]
    considered_files: int
    considered_bytes: int
    sizes_before: FileSizes
    sizes_after: FileSizes
    layout: LayoutPlan | None = None

    @property
    def num_bins(self) -> int:
        """Return the number of bins: without a layout, each becomes one file."""
        return len(pc.unique(self.files["bin"]))

    @property
    def num_outputs(self) -> int:
        """Return the number of planned output files."""
        return self.num_bins if self.layout is None else sum(self.layout.files_after)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do."""
        return len(self.files) == 0

    @property
    def bytes_to_rewrite(self) -> int:
        """Return the input bytes of all bins."""
        return int(pc.sum(self.files["size_bytes"]).as_py() or 0)

    def iter_bins(self) -> Iterator[pa.Table]:
        """Yield the rows of each bin."""
        bins = self.files["bin"].to_numpy()
        edges = np.flatnonzero(np.diff(bins)) + 1
        for start, end in zip([0, *edges], [*edges, len(bins)], strict=True):
            if end > start:
                yield self.files.slice(start, end - start)


def plan_optimize(
    snapshot: Snapshot,
    options: OptimizeOptions,
    now_ms: int,
    warn: Warn = ignore_warning,
    names: pa.ChunkedArray | None = None,
    *,
    loaded: tuple[pa.Table, int, int] | None = None,
) -> OptimizePlan:
    """Choose what to rewrite, from the log alone (a purge of dropped columns reads footers).

    Only files with one of ``names`` are considered, unless it is ``None``. ``loaded`` is what
    ``load_files`` returned for the same predicate and names, if it was called before.

    Raises:
        UnsupportedFeatureError: a table feature forbids rewriting.
        PredicateError: ``where`` is not about partition columns.
        SafetyError: the schema has no columns, or lacks a partition column.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
    ensure_columns(snapshot, "rewrite files", unless_empty=True)
    fields = snapshot.metadata.known_partition_fields
    request = resolve_request(snapshot, options)
    predicate = None if options.where is None else parse_predicate(options.where, fields)
    files, unmatched, table_bytes = loaded or load_files(snapshot, predicate, names)
    target = choose_target_bytes(
        options.target_bytes, snapshot.properties.target_file_size, table_bytes
    )
    minimum = options.min_file_bytes
    if minimum is None:
        minimum = int(target * DEFAULT_MIN_SHARE)
    groups = group_partitions(files["partition_values"], fields)
    choice = _Choice(files, groups)
    _leave_two_texts(choice, snapshot, warn)
    if unmatched:
        choice.left_alone["not matched by --where"] = unmatched
    if options.partitions is not None:
        choice.leave(_outside(choice, snapshot, options.partitions), "in a partition not chosen")
    if options.since_version is not None and _is_of(snapshot, options.since_table_id):
        untouched = _untouched(choice, snapshot, options.since_version, warn)
        choice.leave(untouched, f"in a partition not touched since version {options.since_version}")
    layout = None
    if request is None:
        _select(choice, snapshot, options, (target, minimum), now_ms)
        bins = _pack_groups(choice, PackingRule(target, minimum, options.min_input_files), options)
        chosen = _limit_bytes(choice, bins, options.max_bytes)
        after = np.ones(len(chosen), dtype=np.int64)
    else:
        _leave_hot(choice, options, now_ms)
        placed = _select_for_layout(choice, request, options)
        chosen = _limit_bytes(choice, _divide_groups(choice, placed), options.max_bytes)
        after = count_outputs(_sums(choice.sizes, chosen), target)
        rows = _rows_of(chosen)
        placed_bytes = int(choice.sizes[rows][placed.is_placed[rows]].sum())
        layout = LayoutPlan(request, tuple(after.tolist()), placed_bytes)
    return OptimizePlan(
        version=snapshot.version,
        table_id=snapshot.metadata.id,
        target_bytes=target,
        min_bytes=minimum,
        predicate=None if predicate is None else predicate.sql,
        files=_bin_files(choice, chosen),
        partitions=_summarise(choice, chosen, after),
        left_alone={reason: count for reason, count in choice.left_alone.items() if count},
        considered_files=files.num_rows,
        considered_bytes=int(pc.sum(files["size_bytes"]).as_py() or 0),
        sizes_before=count_sizes(choice.sizes, minimum),
        sizes_after=count_sizes(_sizes_after(choice.sizes, chosen, after), minimum),
        layout=layout,
    )


def _sizes_after(sizes: Array, bins: list[Array], after: Array) -> Array:
    """Return the sizes of remaining files, and of outputs: equal shares of the inputs of a bin."""
    stays = np.ones(len(sizes), dtype=np.bool_)
    stays[_rows_of(bins)] = False
    return np.concatenate([sizes[stays], np.repeat(_sums(sizes, bins) // after, after)])


def _rows_of(bins: list[Array]) -> Array:
    """Return the rows of all bins, one after another."""
    return np.concatenate(bins) if bins else np.empty(0, dtype=np.int64)


def _sums(sizes: Array, bins: list[Array]) -> Array:
    """Return the bytes of each bin, none of which is empty."""
    if not bins:
        return np.empty(0, dtype=np.int64)
    lengths = np.fromiter(map(len, bins), np.int64, len(bins))
    return np.asarray(np.add.reduceat(sizes[_rows_of(bins)], np.cumsum(lengths) - lengths))


class _Choice:
    """The considered files, and the decisions made about each so far."""

    def __init__(self, files: pa.Table, groups: PartitionGroups) -> None:
        self.files, self.groups = files, groups
        self.sizes: Array = pc.fill_null(files["size_bytes"], 0).to_numpy()
        self.candidates: Array = np.ones(files.num_rows, dtype=np.bool_)
        self.forced: Array = np.zeros(files.num_rows, dtype=np.bool_)
        self.settled: Array = np.zeros(files.num_rows, dtype=np.bool_)
        self.left_alone: dict[str, int] = {}

    def leave(self, mask: Array, reason: str) -> None:
        """Remove files from the candidates, and count them by reason."""
        hit = self.candidates & mask
        self.candidates &= ~mask
        self.left_alone[reason] = self.left_alone.get(reason, 0) + int(hit.sum())


def load_files(
    snapshot: Snapshot,
    predicate: PartitionPredicate | None = None,
    names: pa.ChunkedArray | None = None,
) -> tuple[pa.Table, int, int]:
    """Return matching files without statistics, the number of others, and the table's bytes."""
    tables, unmatched, table_bytes = [], 0, 0
    for batch in snapshot.file_batches(_READ_COLUMNS):
        table_bytes += pc.sum(batch["size_bytes"]).as_py() or 0
        counted = batch.append_column("num_records", num_records(batch["stats"]))
        counted = counted.drop_columns("stats")
        if names is not None:
            counted = counted.filter(pc.is_in(counted["path"], value_set=names))
        if predicate is not None:
            mask = predicate.evaluate(counted["partition_values"])
            matched = counted.filter(mask)
            unmatched += counted.num_rows - matched.num_rows
            counted = matched
        tables.append(counted)
    if not tables:
        empty = snapshot.files.select(_READ_COLUMNS).drop_columns("stats")
        tables = [empty.append_column("num_records", pa.array([], pa.int64()))]
    return pa.concat_tables(tables), unmatched, table_bytes


def _leave_two_texts(choice: _Choice, snapshot: Snapshot, warn: Warn) -> None:
    """Exclude files that the log names by two path strings.

    Readers return their rows twice, or again after they were removed: a rewrite would make that
    permanent.
    """
    mask = multiple_texts_mask(snapshot, choice.files)
    if not mask.any():
        return
    choice.leave(mask, TWO_TEXTS)
    first = choice.files["path"][int(np.flatnonzero(mask)[0])].as_py()
    warn(
        f"{format_count(int(mask.sum()), 'file')} excluded: the log names each by two path texts, "
        f"and readers treat them as two files, such as {first!r}; run "
        f"`deltactl check {snapshot.store.uri}`"
    )


def _select(
    choice: _Choice,
    snapshot: Snapshot,
    options: OptimizeOptions,
    sizes: tuple[int, int],
    now_ms: int,
) -> None:
    """Decide which files are candidates, forced, or already written for this target."""
    target, minimum = sizes
    files = choice.files
    _leave_hot(choice, options, now_ms)
    if options.purge:
        wanted = purge_mask(snapshot, files)
        choice.leave(~wanted, "nothing to purge")
        choice.forced |= wanted
        return
    if not options.include_clustered:
        choice.leave(clustered_mask(snapshot, files), "clustered or Z-ordered")
    choice.forced |= _over_ratio(files, options.max_deleted_rows_ratio)
    choice.leave((choice.sizes >= minimum) & ~choice.forced, "large enough")
    tags = lookup_map(files["tags"], TARGET_TAG)
    choice.settled |= pc.fill_null(pc.equal(tags, str(target)), False).to_numpy()


def _leave_hot(choice: _Choice, options: OptimizeOptions, now_ms: int) -> None:
    """Exclude partitions that were written to lately."""
    if options.skip_hot_ms is not None:
        times = choice.files["modification_time_ms"]
        newest = choice.groups.newest(pc.fill_null(times, 0).to_numpy())
        hot = newest[choice.groups.ids] > now_ms - options.skip_hot_ms
        choice.leave(hot, "in a partition written to lately")


def _select_for_layout(choice: _Choice, request: LayoutRequest, options: OptimizeOptions) -> Placed:
    """Exclude files that are where the layout wants them."""
    placed = Placed.of(choice.files, request)
    if options.full:
        return placed
    if request.kind == "liquid":
        otherwise = is_clustered_otherwise(choice.files, request)
        choice.leave(otherwise, "clustered by other columns (--full)")
    forced = _over_ratio(choice.files, options.max_deleted_rows_ratio)
    if request.kind != "zorder":
        finished = placed.find_finished(choice.sizes, options.min_cluster_bytes)
        choice.leave(finished & ~forced, "in a finished cluster")
    alone = placed.find_alone(choice.candidates, choice.groups.ids)
    forced_groups = np.zeros(choice.groups.num_groups, dtype=np.bool_)
    forced_groups[choice.groups.ids[forced & choice.candidates]] = True
    choice.leave(alone & ~forced_groups[choice.groups.ids], "in this layout already")
    return placed


def _divide_groups(choice: _Choice, placed: Placed) -> list[Array]:
    """Return clusters as row indices: those of a partition, its unfinished clusters together."""
    rows = np.flatnonzero(choice.candidates)
    order = pc.sort_indices(
        pa.table(
            {
                "group": pa.array(choice.groups.ids[rows]),
                "cluster": pa.array(placed.clusters[rows]),
                "time": choice.files["modification_time_ms"].take(pa.array(rows)),
                "path": choice.files["path"].take(pa.array(rows)),
            }
        ),
        sort_keys=[(name, "ascending") for name in ("group", "cluster", "time", "path")],
    ).to_numpy()
    rows = rows[order]
    edges = np.flatnonzero(np.diff(choice.groups.ids[rows])) + 1
    clusters: list[Array] = []
    for part in np.split(rows, edges):
        numbers = divide_clusters(choice.sizes[part])
        pieces = np.split(part, np.flatnonzero(np.diff(numbers)) + 1)
        clusters += [piece for piece in pieces if len(piece)]
    return clusters


def _is_of(snapshot: Snapshot, table_id: str | None) -> bool:
    """Return whether a version is of this table, not of an earlier table at its address."""
    return table_id is None or table_id == snapshot.metadata.id


def _untouched(choice: _Choice, snapshot: Snapshot, since: int, warn: Warn) -> Array:
    """Return files of partitions without added or removed files after a version."""
    if since > snapshot.version:  # perhaps of an earlier table at this address
        warn(f"there is no version {since} yet: all partitions are considered")
        return np.zeros(choice.files.num_rows, dtype=np.bool_)
    touched = find_touched(snapshot, since, warn)
    if touched is None:
        return np.zeros(choice.files.num_rows, dtype=np.bool_)
    return _outside(choice, snapshot, touched)


def _outside(choice: _Choice, snapshot: Snapshot, directories: Set[str]) -> Array:
    """Return files of partitions that have none of these directories."""
    fields = snapshot.metadata.partition_fields
    by_text = group_partitions(choice.files["partition_values"], fields, by_text=True)
    labels = [label in directories for label in by_text.labels()]
    hit = np.asarray(labels, dtype=np.bool_)[by_text.ids]
    # One partition may have several spellings.
    groups_hit = np.zeros(choice.groups.num_groups, dtype=np.bool_)
    groups_hit[choice.groups.ids[hit]] = True
    return np.asarray(~groups_hit[choice.groups.ids])


def _over_ratio(files: pa.Table, ratio: float) -> Array:
    """Return files with more than ``ratio`` of their rows deleted, or an unknown ratio."""
    vectors = files["deletion_vector"]
    deleted = pc.cast(pc.struct_field(vectors, "cardinality"), pa.float64(), safe=False)
    share = pc.divide(deleted, pc.cast(files["num_records"], pa.float64(), safe=False))
    over = pc.if_else(pc.is_null(share), vectors.is_valid(), pc.greater(share, ratio))
    return np.asarray(pc.fill_null(over, False))


def _pack_groups(choice: _Choice, rule: PackingRule, options: OptimizeOptions) -> list[Array]:
    """Return bins as row indices, partition by partition, files in ingestion order."""
    rows = np.flatnonzero(choice.candidates)
    order = pc.sort_indices(
        pa.table(
            {
                "group": pa.array(choice.groups.ids[rows]),
                "time": choice.files["modification_time_ms"].take(pa.array(rows)),
                "path": choice.files["path"].take(pa.array(rows)),
            }
        ),
        sort_keys=[("group", "ascending"), ("time", "ascending"), ("path", "ascending")],
    ).to_numpy()
    rows = rows[order]
    edges = np.flatnonzero(np.diff(choice.groups.ids[rows])) + 1
    bins: list[Array] = []
    for part in np.split(rows, edges):
        if len(part) >= rule.min_input_files or choice.forced[part].any():
            packed = pack(choice.sizes[part], choice.settled[part], choice.forced[part], rule)
            bins += [part[members] for members in packed]
    packed_rows = _rows_of(bins)
    settled_left = int((choice.settled & choice.candidates).sum())
    settled_left -= int(choice.settled[packed_rows].sum())
    choice.left_alone["made for this target already"] = settled_left
    choice.left_alone["not worth a rewrite yet"] = len(rows) - len(packed_rows) - settled_left
    return bins


def _limit_bytes(choice: _Choice, bins: list[Array], max_bytes: int | None) -> list[Array]:
    """Return the bins that save most files per byte within a limit, in partition order."""
    if max_bytes is None:
        return bins
    weights = _sums(choice.sizes, bins).tolist()
    gain = [(1 - len(b)) / max(weight, 1) for b, weight in zip(bins, weights, strict=True)]
    taken: set[int] = set()
    left = max_bytes
    for index in sorted(range(len(bins)), key=lambda i: (gain[i], i)):
        if weights[index] <= left:
            taken.add(index)
            left -= weights[index]
    dropped = sum(len(bins[i]) for i in range(len(bins)) if i not in taken)
    choice.left_alone["over --max-bytes"] = dropped
    return [bins[i] for i in sorted(taken)]


def _bin_files(choice: _Choice, bins: list[Array]) -> pa.Table:
    rows = _rows_of(bins)
    ids = np.repeat(np.arange(len(bins)), [len(members) for members in bins])
    files = choice.files.take(pa.array(rows, pa.int64()))
    return files.append_column("bin", pa.array(ids, pa.int64()))


def _summarise(choice: _Choice, bins: list[Array], after: Array) -> pa.Table:
    """Return one row per partition that has bins; ``after`` are the outputs of each bin."""
    num_groups = choice.groups.num_groups
    rows = _rows_of(bins)
    rewritten = np.zeros(num_groups, dtype=np.int64)
    np.add.at(rewritten, choice.groups.ids[rows], choice.sizes[rows])  # exact, unlike bincount's
    removed = np.bincount(choice.groups.ids[rows], minlength=num_groups)
    firsts = np.array([members[0] for members in bins], dtype=np.int64)
    number = np.bincount(choice.groups.ids[firsts], minlength=num_groups)
    added = np.zeros(num_groups, dtype=np.int64)
    np.add.at(added, choice.groups.ids[firsts], after)
    before = np.bincount(choice.groups.ids, minlength=num_groups)
    size = np.bincount(choice.groups.ids, weights=choice.sizes, minlength=num_groups)
    touched = np.flatnonzero(added)
    summary = pa.table(
        {
            "partition": pa.array([choice.groups.label(int(g)) for g in touched], pa.string()),
            "files_before": pa.array(before[touched], pa.int64()),
            "files_after": pa.array((before - removed + added)[touched], pa.int64()),
            "bytes_before": pa.array(size[touched].astype(np.int64)),
            "bytes_to_rewrite": pa.array(rewritten[touched]),
            "bins": pa.array(number[touched]),
        }
    )
    return summary.sort_by("partition")


def format_predicates(plan: OptimizePlan) -> str:
    """Return the ``predicate`` parameter of the commit: a JSON array of SQL strings."""
    return json.dumps([] if plan.predicate is None else [plan.predicate], ensure_ascii=False)
