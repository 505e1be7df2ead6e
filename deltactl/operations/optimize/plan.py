"""Plan ``optimize``: candidates -> exclusions -> bins -> layout, without reading data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, SafetyError, ignore_warning, join_reasons
from deltactl.log.commits.events import ZOrderCommits
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Integers
from deltactl.operations.file_sizes import FileSizes, count_sizes, sum_groups
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.optimize.bins import bin_sizes, limit_bytes, pack_bins, rows_of
from deltactl.operations.optimize.candidates import (
    Candidates,
    LoadedFiles,
    find_candidates,
    load_files,
    suspect_mask,
)
from deltactl.operations.optimize.copy_candidates import leave_lacking_defaults, separate_undecoded
from deltactl.operations.optimize.exclusions import exclude_files
from deltactl.operations.optimize.layout.expect import ExpectedSkipping
from deltactl.operations.optimize.layout.plan import LayoutPlan, plan_layout
from deltactl.operations.optimize.layout.request import resolve_request
from deltactl.operations.optimize.options import NOTHING_TO_PURGE, OptimizeOptions
from deltactl.operations.optimize.packing import PackingRule
from deltactl.operations.optimize.undecoded import adapt_options
from deltactl.operations.predicate.parse import parse_predicate
from deltactl.operations.skipping.lookups import RewrittenSets
from deltactl.operations.target_size import DEFAULT_MIN_SHARE, choose_target_bytes
from deltactl.protocol.deletion_vectors import DeletionVector
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.stats_decoding import bounds_type, parse_stats

_READ_COLUMNS = ("path", "partition_values", "stats")


@dataclass(frozen=True, slots=True)
class OptimizePlan:
    """The plan of an optimize. Pure: no I/O.

    ``files``: the files to rewrite, one row each with ``ADD_SCHEMA`` columns (no ``stats``),
    ``num_records``, ``known_stats`` if any are merged, ``only_copied`` (whether the bin has columns
    that are not decoded) and ``bin``, in the order of the output's rows.
    ``partitions`` has one row for each partition with a bin: ``partition``, ``files_before``,
    ``files_after``, ``bytes_before``, ``bytes_to_rewrite``, ``bins``. ``left_alone`` counts files
    by reason; ``missing_partitions`` were chosen, but have no file.
    ``sizes_before`` and ``sizes_after`` count the considered files by size; an output is assumed
    to be as large as its inputs, although compression may make it smaller. With a ``layout``, each
    bin is a cluster whose rows are shuffled between files.
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
    missing_partitions: tuple[str, ...] = ()

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
        return sum_sizes(self.files)

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
    z_orders: ZOrderCommits,
    loaded: LoadedFiles | None = None,
) -> OptimizePlan:
    """Choose what to rewrite, from the log alone (a purge of dropped columns reads footers).

    Only files with one of ``names`` are considered, unless it is ``None``. ``z_orders`` visited the
    commits that were read for the snapshot. ``loaded`` is what ``load_files`` returned for the same
    predicate and names, if it was called before.

    Raises:
        UnsupportedFeatureError: a table feature forbids rewriting.
        PredicateError: ``where`` is not about partition columns.
        SafetyError: the schema has no columns, or lacks a partition column; or a purge of all
            vectors, old types or names would leave files as they are.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
    ensure_columns(snapshot, "rewrite files", unless_empty=True)
    fields = snapshot.metadata.known_partition_fields
    options = adapt_options(snapshot.metadata, options)
    request = resolve_request(snapshot, options)
    predicate = None if options.where is None else parse_predicate(options.where, fields, now_ms)
    if loaded is None:
        # The other files of a partition show its layout.
        wanted = None if request is None and options.keeps_layouts else names
        loaded = load_files(snapshot, predicate, wanted)
    rule = _choose_rule(snapshot, options, loaded.table_bytes)
    candidates = find_candidates(log, snapshot, options, loaded, names=names, now_ms=now_ms)
    layouts, limit = exclude_files(
        candidates, log, snapshot, options, request=request, rule=rule, z_orders=z_orders
    )
    leave_lacking_defaults(candidates, snapshot)
    separate_undecoded(candidates, snapshot, options)
    bins, layouts = pack_bins(candidates, layouts, rule, limit, again=options.places_again)
    # A limit for given partitions is that of a budget, and no option.
    warn = log.warn if options.partitions is None else ignore_warning
    bins = limit_bytes(candidates, bins, options.max_bytes, limit, warn)
    groups = candidates.groups.ids[np.array([members[0] for members in bins], np.int64)]
    assigned = np.where(layouts.is_placed, candidates.sizes, 0)
    layout = plan_layout(
        request,
        layouts,
        groups,
        sizes=bin_sizes(candidates.sizes, bins),
        assigned=bin_sizes(assigned, bins),
        target_bytes=rule.target_bytes,
    )
    outputs = np.array([1] * len(bins) if layout is None else layout.files_after, np.int64)
    left_alone = {reason: count for reason, count in candidates.left_alone.items() if count}
    if options.purged != "deleted" and names is None:
        _ensure_all_purged(left_alone)
    return OptimizePlan(
        version=snapshot.version,
        table_id=snapshot.metadata.id,
        target_bytes=rule.target_bytes,
        min_bytes=rule.min_bytes,
        predicate=None if predicate is None else predicate.sql,
        files=_bin_files(candidates, bins),
        partitions=_summarise(candidates, bins, outputs),
        left_alone=left_alone,
        considered_files=loaded.files.num_rows,
        considered_bytes=int(candidates.sizes.sum()),
        sizes_before=count_sizes(candidates.sizes, rule.min_bytes),
        sizes_after=count_sizes(_sizes_after(candidates.sizes, bins, outputs), rule.min_bytes),
        layout=layout,
        missing_partitions=candidates.missing,
    )


def _ensure_all_purged(left_alone: Mapping[str, int]) -> None:
    left = [f"{n} {reason}" for reason, n in left_alone.items() if reason != NOTHING_TO_PURGE]
    if left:
        raise SafetyError(
            f"files cannot be rewritten: {join_reasons(left)}",
            hint="Use Delta on Spark: ALTER TABLE DROP FEATURE.",
        )


def _choose_rule(snapshot: Snapshot, options: OptimizeOptions, table_bytes: int) -> PackingRule:
    known = snapshot.properties.target_file_size
    target = choose_target_bytes(options.target_bytes, known, table_bytes)
    minimum = options.min_file_bytes
    if minimum is None:
        minimum = int(target * DEFAULT_MIN_SHARE)
    return PackingRule(target, minimum, options.min_input_files)


def _sizes_after(sizes: Integers, bins: list[Integers], outputs: Integers) -> Integers:
    """Return the sizes of remaining files, and of outputs: equal shares of the inputs of a bin."""
    stays = np.ones(len(sizes), dtype=np.bool_)
    stays[rows_of(bins)] = False
    new = np.repeat(bin_sizes(sizes, bins) // outputs, outputs)
    return np.concatenate([sizes[stays], new])


def _bin_files(candidates: Candidates, bins: list[Integers]) -> pa.Table:
    rows = rows_of(bins)
    ids = np.repeat(np.arange(len(bins)), [len(members) for members in bins])
    files = candidates.files.take(pa.array(rows, pa.int64()))
    files = files.append_column("only_copied", pa.array(candidates.shapes[rows] > 0))
    return files.append_column("bin", pa.array(ids, pa.int64()))


def _summarise(candidates: Candidates, bins: list[Integers], outputs: Integers) -> pa.Table:
    """Return one row per partition that has bins; ``outputs`` of each bin."""
    ids, num_groups = candidates.groups.ids, candidates.groups.num_groups
    rows = rows_of(bins)
    firsts = np.array([members[0] for members in bins], dtype=np.int64)
    before, size = sum_groups(ids, candidates.sizes, num_groups)
    removed, rewritten = sum_groups(ids[rows], candidates.sizes[rows], num_groups)
    number, added = sum_groups(ids[firsts], outputs, num_groups)
    touched = np.flatnonzero(added)
    summary = pa.table(
        {
            "partition": pa.array([candidates.groups.label(int(g)) for g in touched], pa.string()),
            "files_before": pa.array(before[touched], pa.int64()),
            "files_after": pa.array((before - removed + added)[touched], pa.int64()),
            "bytes_before": pa.array(size[touched]),
            "bytes_to_rewrite": pa.array(rewritten[touched]),
            "bins": pa.array(number[touched]),
        }
    )
    return summary.sort_by("partition")


def find_unusable(plan: OptimizePlan) -> Mapping[int, DeltactlError]:
    """Return for each bin that cannot be rewritten the error of one of its deletion vectors."""
    vectors = plan.files["deletion_vector"]
    if vectors.null_count == len(vectors):
        return {}
    suspects = np.flatnonzero(suspect_mask(vectors))
    bins = plan.files["bin"].to_numpy()[suspects]
    found: dict[int, DeltactlError] = {}
    for number, row in zip(bins.tolist(), suspects.tolist(), strict=True):
        if number not in found:
            try:
                DeletionVector(**vectors[row].as_py())
            except DeltactlError as error:
                found[number] = error
    return found


def drop_bins(plan: OptimizePlan, numbers: Collection[int]) -> OptimizePlan:
    """Return the plan without some of its bins, the others numbered again from 0."""
    if not numbers:
        return plan
    dropped = list(numbers)
    bins = plan.files["bin"].to_numpy()
    kept = ~np.isin(bins, dropped)
    files = plan.files.filter(pa.array(kept))
    again = np.unique(bins[kept], return_inverse=True)[1].astype(np.int64)
    index = files.schema.get_field_index("bin")
    files = files.set_column(index, "bin", pa.array(again, pa.int64()))
    layout = plan.layout
    if layout is not None:
        rest = [n for n in range(len(layout.files_after)) if n not in numbers]
        layout = replace(
            layout,
            files_after=tuple(layout.files_after[n] for n in rest),
            requests=tuple(layout.requests[n] for n in rest),
        )
    return replace(plan, files=files, layout=layout)


def expect_skipping(snapshot: Snapshot, plan: OptimizePlan) -> ExpectedSkipping | None:
    """Return the shares for the columns of the layout; ``None`` without a layout.

    If layouts are kept, these are the columns of the first one. They are known only after all tags
    were read, so the statistics are read again.
    """
    layout = plan.layout
    if layout is None:
        return None
    metadata, request = snapshot.metadata, layout.request
    predicate = None
    if plan.predicate is not None:
        predicate = parse_predicate(plan.predicate, metadata.known_partition_fields)
    kind = bounds_type(metadata, request.paths)
    bounds: list[pa.Array] = []
    sets: list[Integers] = [np.empty(0, np.int64)]
    bins = plan.files["bin"].combine_chunks()
    for batch in snapshot.file_batches(_READ_COLUMNS):
        matched = batch
        if predicate is not None:
            matched = batch.filter(predicate.evaluate(batch["partition_values"]))
        bounds += parse_stats(matched["stats"], kind).chunks
        rows = pc.index_in(matched["path"], value_set=plan.files["path"])
        sets.append(pc.fill_null(pc.take(bins, rows), -1).to_numpy())
    others = frozenset(n for n, kept in enumerate(layout.requests) if kept not in (None, request))
    rewritten = RewrittenSets(np.concatenate(sets), np.array(layout.files_after, np.int64))
    return ExpectedSkipping.of(request, pa.chunked_array(bounds, kind), rewritten, others)
