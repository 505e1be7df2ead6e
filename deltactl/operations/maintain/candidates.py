"""Find candidates for optimize in each partition, from the plan of optimize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn, ignore_warning
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Integers
from deltactl.operations.maintain.actions import (
    SHARE_WRITTEN,
    Action,
    Bins,
    Effect,
    TableSubject,
    predict_cost,
)
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.optimize.candidates import drop_future
from deltactl.operations.optimize.exclusions import TARGET_TAG
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.plan import OptimizePlan, expect_skipping
from deltactl.operations.partition_groups import group_partitions
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.stats_columns import list_leaves
from deltactl.units import (
    DAY_MS,
    GIB,
    format_age,
    format_count,
    format_duration,
    format_size,
    to_duration_ms,
)

_REQUESTS_A_RUN: Final = 12  # leases, the log, the commit
_REQUESTS_A_FILE: Final = 2
# A partition with less to gain is not rewritten.
_MIN_FILES_FEWER: Final = 5
_MIN_UNCLUSTERED_BYTES: Final = GIB

# Bytes of a file without its rows, measured on files of pyarrow with snappy.
_FOOTER_BYTES: Final = 230
_FOOTER_BYTES_A_COLUMN: Final = 300
_MOST_OF_A_FILE: Final = 0.9


def options_of(policy: MaintainPolicy) -> OptimizeOptions:
    """Return the options of optimize for a policy."""
    return OptimizeOptions(
        target_bytes=policy.target_bytes,
        min_file_bytes=policy.min_file_bytes,
        max_deleted_rows_ratio=policy.max_deleted_rows_ratio,
        cluster_by=policy.cluster_columns,
    )


@dataclass(frozen=True, slots=True)
class HotRule:
    """The partitions that others are writing to, found by the newest file of other writers.

    ``labels`` has the time of that file for each partition, ms since 1970 UTC.
    """

    labels: Mapping[str, int]
    num_partitions: int
    files_a_day: int

    @classmethod
    def of(
        cls, snapshot: Snapshot, files: pa.Table, policy: MaintainPolicy, now_ms: int, warn: Warn
    ) -> HotRule:
        """Examine the live files of a table; files that optimize wrote do not count."""
        groups = group_partitions(
            files["partition_values"], snapshot.metadata.known_partition_fields
        )
        times = pc.fill_null(files["modification_time_ms"], 0).to_numpy()
        is_ours = lookup_map(files["tags"], TARGET_TAG).is_valid().to_numpy()
        skip_ms = to_duration_ms(policy.skip_hot)
        is_used = skip_ms and "optimize" in policy.actions
        written = drop_future(
            np.where(is_ours, 0, times), now_ms, warn if is_used else ignore_warning
        )
        newest = groups.newest(written)
        hot = np.flatnonzero(newest > now_ms - skip_ms) if skip_ms else ()
        labels = {groups.label(int(group)): int(newest[group]) for group in hot}
        return cls(labels, groups.num_groups, int((written > now_ms - DAY_MS).sum()))


def find_optimize(subject: TableSubject, plan: OptimizePlan, hot: HotRule) -> list[Action]:
    """Return an action for each partition with enough work."""
    if plan.is_empty:
        return []
    fields = subject.snapshot.metadata.known_partition_fields
    groups = group_partitions(plan.files["partition_values"], fields)
    starts = np.flatnonzero(np.diff(plan.files["bin"].to_numpy(), prepend=-1))
    columns = len(list_leaves(subject.snapshot.metadata.data_schema))
    footer_bytes = _FOOTER_BYTES + _FOOTER_BYTES_A_COLUMN * columns
    bins = _sum_bins(plan, starts, footer_bytes)
    group_of_bin = groups.ids[starts]
    has_vector = plan.files["deletion_vector"].is_valid().to_numpy().astype(np.int64)
    deleting = np.add.reduceat(has_vector, starts)
    order = np.argsort(group_of_bin, kind="stable")
    edges = np.flatnonzero(np.diff(group_of_bin[order])) + 1
    actions = []
    skipped = None
    for label, mine in zip(groups.labels(), np.split(order, edges), strict=True):
        chosen = bins.take(mine)
        request = None if plan.layout is None else plan.layout.requests[int(mine[0])]
        if request is None:
            action = _join_files(subject, label, chosen, int(deleting[mine].sum()))
        else:
            skipped = _skipped_now(subject, plan) if skipped is None else skipped
            action = _place_rows(subject, plan, label, chosen, request, skipped=skipped)
        if action is not None:
            actions.append(_block_hot(action, hot, subject))
    return actions


def _sum_bins(plan: OptimizePlan, starts: Integers, footer_bytes: int) -> Bins:
    """Return the facts about each bin; ``footer_bytes`` of each file are not rows."""
    sizes = pc.fill_null(plan.files["size_bytes"], 0).to_numpy()
    lengths = np.diff(np.append(starts, plan.files.num_rows))
    after = np.ones(len(starts), np.int64) if plan.layout is None else plan.layout.files_after
    outputs, size = np.asarray(after, np.int64), np.add.reduceat(sizes, starts)
    footers = np.maximum(lengths - outputs, 0) * footer_bytes
    gone = np.add.reduceat(_deleted_bytes(plan.files, sizes), starts) + footers
    freed = gone + np.asarray(np.maximum(size - gone, 0) * (1 - SHARE_WRITTEN), np.int64)
    most = np.asarray(size * _MOST_OF_A_FILE, np.int64)
    return Bins(files=lengths, bytes=size, outputs=outputs, freed=np.minimum(freed, most))


def _deleted_bytes(files: pa.Table, sizes: Integers) -> Integers:
    """Return the bytes of deleted rows in each file, as if all rows had one size."""
    deleted = pc.struct_field(files["deletion_vector"], "cardinality")
    deleted = pc.fill_null(pc.cast(deleted, pa.float64(), safe=False), 0.0).to_numpy()
    rows = pc.fill_null(pc.cast(files["num_records"], pa.float64(), safe=False), 0.0).to_numpy()
    share = np.divide(deleted, rows, out=np.zeros_like(deleted), where=rows > 0)
    return np.asarray(sizes * np.clip(share, 0.0, 1.0), np.int64)


def _join_files(subject: TableSubject, label: str, bins: Bins, deleting: int) -> Action | None:
    """Return the action that merges small files, and removes deleted rows of ``deleting`` files."""
    gone = int(bins.files.sum() - bins.outputs.sum())
    if gone < _MIN_FILES_FEWER and not deleting:
        return None
    merge = f"{format_count(int(bins.files.sum()), 'small file')} become {len(bins)}"
    purge = f"{format_count(deleting, 'file')} with deleted rows"
    reason = ", ".join([*([merge] if gone else []), *([purge] if deleting else [])])
    return Action(
        table=subject.facts.table,
        name="optimize",
        reason=f"{reason} ({format_size(int(bins.bytes.sum()))})",
        predicted=_predict_rewrite(subject, bins, 0),
        partition=label,
        bins=bins,
    )


def _place_rows(
    subject: TableSubject,
    plan: OptimizePlan,
    label: str,
    bins: Bins,
    request: LayoutRequest,
    *,
    skipped: float,
) -> Action | None:
    """Return the action that places the rows of a partition by columns."""
    placed = 0 if plan.layout is None else plan.layout.placed_bytes
    unclustered = plan.bytes_to_rewrite - placed  # of the whole table
    gone = int(bins.files.sum() - bins.outputs.sum())
    if unclustered < _MIN_UNCLUSTERED_BYTES and gone < _MIN_FILES_FEWER:
        return None
    files, size = format_count(int(bins.files.sum()), "file"), int(bins.bytes.sum())
    reason = f"{files} not clustered by {', '.join(request.names)} ({format_size(size)})"
    return Action(
        table=subject.facts.table,
        name="optimize",
        reason=reason,
        predicted=_predict_rewrite(subject, bins, len(request.columns), skipped),
        partition=label,
        bins=bins,
        places_rows=True,
    )


def _skipped_now(subject: TableSubject, plan: OptimizePlan) -> float:
    """Return the share of files that a lookup skips now, for the column with the lowest share."""
    expected = expect_skipping(subject.snapshot, plan)
    return (None if expected is None else expected.find_least()) or 0.0


def _predict_rewrite(
    subject: TableSubject, bins: Bins, columns: int, skipped: float = 0.0
) -> Effect:
    """Return the benefit and cost of a rewrite of bins.

    An output is assumed to be a little smaller than the live rows of its inputs, with one footer.
    ``columns``: the number of columns of the layout, 0 without a layout; ``skipped``: the share of
    files that a query by one of them skips now.
    """
    files, size = int(bins.files.sum()), int(bins.bytes.sum())
    outputs, freed = int(bins.outputs.sum()), int(bins.freed.sum())
    requests = _REQUESTS_A_RUN + _REQUESTS_A_FILE * (files + outputs)
    cost = predict_cost(
        subject.log.uri, bytes_read=size, bytes_written=size - freed, requests=requests
    )
    skipping = freed
    if columns:
        share = np.maximum(1 - np.maximum(bins.outputs, 1) ** (-1.0 / columns) - skipped, 0.0)
        skipping += int(((bins.bytes - bins.freed) * share).sum())
    return cost + Effect(
        files_removed=files - outputs, requests_saved=files - outputs, skipping_bytes=skipping
    )


def _block_hot(action: Action, hot: HotRule, subject: TableSubject) -> Action:
    newest_ms = hot.labels.get(action.partition or "")
    if newest_ms is None:
        return action
    age = format_age(subject.now_ms - newest_ms)
    limit = format_duration(to_duration_ms(subject.policy.skip_hot))
    return replace(action, blocked=f"recently written: newest file {age}, skip-hot {limit}")
