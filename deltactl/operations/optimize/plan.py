"""Plan ``optimize``: choose bins of files from a snapshot, without reading data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn
from deltactl.log.audit.path_texts import multiple_texts_mask
from deltactl.log.commits.file_actions import ensure_complete
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.file_sizes import FileSizes, count_sizes
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.optimize.choice import (
    Choice,
    bin_sizes,
    divide_groups,
    leave_hot,
    limit_bytes,
    pack_bins,
    rows_of,
    select,
    select_for_layout,
)
from deltactl.operations.optimize.float_stats import float_stats_type, keep_float_stats
from deltactl.operations.optimize.layout.existing import Kept
from deltactl.operations.optimize.layout.expect import ExpectedSkipping
from deltactl.operations.optimize.layout.request import LayoutRequest, resolve_request
from deltactl.operations.optimize.layout.select import (
    ClusterLimit,
    LayoutPlan,
    Placed,
    count_outputs,
)
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.packing import PackingRule
from deltactl.operations.partition_groups import group_partitions
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.operations.skipping.change import RewrittenSets
from deltactl.operations.target_size import DEFAULT_MIN_SHARE, choose_target_bytes
from deltactl.operations.touched_partitions import find_touched
from deltactl.parquet.data_file import FLOAT_STATS
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.stats import num_records
from deltactl.protocol.stats_decoding import bounds_type, parse_stats
from deltactl.units import format_count

BOUNDS = "bounds"
"""Column of considered files: the statistics of the columns of a layout."""

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

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class OptimizePlan:
    """The plan of an optimize. Pure: no I/O.

    ``files``: the files to rewrite, one row each with ``ADD_SCHEMA`` columns (no ``stats``),
    ``num_records``, perhaps ``FLOAT_STATS``, and ``bin``, in the order of the output's rows.
    ``partitions`` has one row for each partition with a bin: ``partition``, ``files_before``,
    ``files_after``, ``bytes_before``, ``bytes_to_rewrite``, ``bins``. ``left_alone`` counts files
    by reason.
    ``sizes_before`` and ``sizes_after`` count the considered files by size; an output is assumed
    to be as large as its inputs, although compression may make it smaller. With a ``layout``, each
    bin is a cluster whose rows are shuffled between files, and ``skipping`` is the share that
    lookups skip before and after.
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
    skipping: ExpectedSkipping | None = None

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
    log: DeltaLog,
    snapshot: Snapshot,
    options: OptimizeOptions,
    now_ms: int,
    names: pa.ChunkedArray | None = None,
    *,
    loaded: tuple[pa.Table, int, int] | None = None,
) -> OptimizePlan:
    """Choose what to rewrite, from the log alone (a purge of dropped columns reads footers).

    Only files with one of ``names`` are considered, unless it is ``None``. ``loaded`` is what
    ``load_files`` returned for the same predicate, names and request, if it was called before.

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
    keeps = request is None and options.keeps_layouts
    # The other files of a partition show its layout.
    wanted = None if keeps else names
    files, unmatched, table_bytes = loaded or load_files(
        snapshot, predicate, wanted, request, options.copies_from_bytes
    )
    target = choose_target_bytes(
        options.target_bytes, snapshot.properties.target_file_size, table_bytes
    )
    minimum = options.min_file_bytes
    if minimum is None:
        minimum = int(target * DEFAULT_MIN_SHARE)
    groups = group_partitions(files["partition_values"], fields)
    choice = Choice(files, groups)
    if names is not None and wanted is None:
        others = pc.invert(pc.is_in(files["path"], value_set=names))
        choice.leave(np.asarray(others), "not changed by other writers")
    _leave_two_texts(choice, snapshot, log.warn)
    if unmatched:
        choice.left_alone["not matched by --where"] = unmatched
    if options.partitions is not None:
        choice.leave(_outside(choice, snapshot, options.partitions), "in a partition not chosen")
    if options.since_version is not None and _is_of(snapshot, options.since_table_id):
        untouched = _untouched(log, choice, snapshot, options.since_version)
        choice.leave(untouched, f"in a partition not touched since version {options.since_version}")
    layout: LayoutPlan | None
    skipping = None
    if request is None:
        kept = select(choice, log, snapshot, options, sizes=(target, minimum), now_ms=now_ms)
        rule = PackingRule(target, minimum, options.min_input_files)
        limit = ClusterLimit.of(options.max_bytes, target)
        bins, kept = pack_bins(choice, kept, rule, limit)
        whole = limit if kept is not None and kept.is_laid.any() else ClusterLimit()
        chosen = limit_bytes(choice, bins, options.max_bytes, whole, log.warn)
        after, layout = _keep_layouts(choice, chosen, kept, target)
    else:
        leave_hot(choice, options, now_ms)
        limit = ClusterLimit.of(options.max_bytes, target, divides=request.kind != "zorder")
        placed = select_for_layout(choice, request, options, limit)
        clusters = divide_groups(choice, choice.candidates, placed, limit, full=options.full)
        chosen = limit_bytes(choice, clusters, options.max_bytes, limit, log.warn)
        after = count_outputs(bin_sizes(choice.sizes, chosen), target)
        placed_bytes = _sum_placed(choice, chosen, placed)
        layout = LayoutPlan(request, tuple(after.tolist()), placed_bytes)
        skipping = _expect_skipping(choice, request, chosen, after)
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
        skipping=skipping,
    )


def _expect_skipping(
    choice: Choice, request: LayoutRequest, bins: list[Array], after: Array
) -> ExpectedSkipping:
    sets = np.full(choice.files.num_rows, -1, np.int64)
    sets[rows_of(bins)] = np.repeat(np.arange(len(bins)), [len(members) for members in bins])
    return ExpectedSkipping.of(request, choice.files[BOUNDS], RewrittenSets(sets, after))


def _keep_layouts(
    choice: Choice, bins: list[Array], kept: Kept | None, target: int
) -> tuple[Array, LayoutPlan | None]:
    """Return the number of outputs of each bin, and which of them keep a layout."""
    after = np.ones(len(bins), dtype=np.int64)
    if kept is None:
        return after, None
    requests = tuple(kept.request_of(int(choice.groups.ids[members[0]])) for members in bins)
    first = next((request for request in requests if request is not None), None)
    if first is None:
        return after, None
    is_placed = np.array([request is not None for request in requests])
    after = np.where(is_placed, count_outputs(bin_sizes(choice.sizes, bins), target), after)
    placed_bytes = _sum_placed(choice, bins, kept.placed)
    return after, LayoutPlan(first, tuple(after.tolist()), placed_bytes, requests)


def _sum_placed(choice: Choice, bins: list[Array], placed: Placed) -> int:
    """Return the bytes of inputs that are in the layout already."""
    rows = rows_of(bins)
    return int(choice.sizes[rows][placed.is_placed[rows]].sum())


def _sizes_after(sizes: Array, bins: list[Array], after: Array) -> Array:
    """Return the sizes of remaining files, and of outputs: equal shares of the inputs of a bin."""
    stays = np.ones(len(sizes), dtype=np.bool_)
    stays[rows_of(bins)] = False
    return np.concatenate([sizes[stays], np.repeat(bin_sizes(sizes, bins) // after, after)])


def load_files(
    snapshot: Snapshot,
    predicate: PartitionPredicate | None = None,
    names: pa.ChunkedArray | None = None,
    request: LayoutRequest | None = None,
    copies_from_bytes: int | None = None,
) -> tuple[pa.Table, int, int]:
    """Return matching files, the number of others, and the table's bytes.

    Of the statistics only those of the columns of a layout are kept, and those of floats of files
    from ``copies_from_bytes``.
    """
    kind = None if request is None else bounds_type(snapshot.metadata, request.paths)
    floats = None
    if request is None and copies_from_bytes is not None:
        floats = float_stats_type(snapshot)
    tables, unmatched, table_bytes = [], 0, 0
    for batch in snapshot.file_batches(_READ_COLUMNS):
        ensure_complete(batch)
        table_bytes += pc.sum(batch["size_bytes"]).as_py() or 0
        counted = batch.append_column("num_records", num_records(batch["stats"]))
        if kind is not None:
            counted = counted.append_column(BOUNDS, parse_stats(batch["stats"], kind))
        if floats is not None and copies_from_bytes is not None:
            kept = keep_float_stats(batch, floats, copies_from_bytes)
            counted = counted.append_column(FLOAT_STATS, kept)
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
        if kind is not None:
            tables = [tables[0].append_column(BOUNDS, pa.array([], kind))]
        if floats is not None:
            tables = [tables[0].append_column(FLOAT_STATS, pa.array([], pa.list_(floats)))]
    return pa.concat_tables(tables), unmatched, table_bytes


def _leave_two_texts(choice: Choice, snapshot: Snapshot, warn: Warn) -> None:
    """Exclude files with two path texts in the log.

    Readers return their rows twice, or still return removed rows: a rewrite would make that
    permanent.
    """
    mask = multiple_texts_mask(snapshot, choice.files)
    if not mask.any():
        return
    choice.leave(mask, TWO_TEXTS)
    first = choice.files["path"][int(np.flatnonzero(mask)[0])].as_py()
    warn(
        f"{format_count(int(mask.sum()), 'file')} excluded, such as {first!r}. The log has two "
        "path texts for each of these files, so readers treat one file as two. Run `deltactl "
        f"check {snapshot.store.uri}`"
    )


def _is_of(snapshot: Snapshot, table_id: str | None) -> bool:
    """Return whether a version is of this table, not of an earlier table at its address."""
    return table_id is None or table_id == snapshot.metadata.id


def _untouched(log: DeltaLog, choice: Choice, snapshot: Snapshot, since: int) -> Array:
    """Return files of partitions without added or removed files after a version."""
    if since > snapshot.version:  # perhaps of an earlier table at this address
        log.warn(f"there is no version {since} yet: all partitions are considered")
        return np.zeros(choice.files.num_rows, dtype=np.bool_)
    touched = find_touched(log, snapshot, since)
    if touched is None:
        return np.zeros(choice.files.num_rows, dtype=np.bool_)
    return _outside(choice, snapshot, touched)


def _outside(choice: Choice, snapshot: Snapshot, directories: Set[str]) -> Array:
    """Return files of partitions that have none of these directories."""
    fields = snapshot.metadata.partition_fields
    by_text = group_partitions(choice.files["partition_values"], fields, by_text=True)
    labels = [label in directories for label in by_text.labels()]
    hit = np.asarray(labels, dtype=np.bool_)[by_text.ids]
    # One partition may have several spellings.
    groups_hit = np.zeros(choice.groups.num_groups, dtype=np.bool_)
    groups_hit[choice.groups.ids[hit]] = True
    return np.asarray(~groups_hit[choice.groups.ids])


def _bin_files(choice: Choice, bins: list[Array]) -> pa.Table:
    rows = rows_of(bins)
    ids = np.repeat(np.arange(len(bins)), [len(members) for members in bins])
    known = [name for name in choice.files.column_names if name != BOUNDS]
    files = choice.files.select(known).take(pa.array(rows, pa.int64()))
    return files.append_column("bin", pa.array(ids, pa.int64()))


def _summarise(choice: Choice, bins: list[Array], after: Array) -> pa.Table:
    """Return one row per partition that has bins; ``after`` are the outputs of each bin."""
    num_groups = choice.groups.num_groups
    rows = rows_of(bins)
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
