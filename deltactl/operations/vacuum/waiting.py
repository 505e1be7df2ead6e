"""Find the files that only the clock of this machine calls expired (see ``trusted_time``).

They wait until a commit proves the time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, InterruptedRunError, ignore_warning
from deltactl.log.physical_names import file_names
from deltactl.log.snapshot import Snapshot
from deltactl.operations.trusted_time import explain_waiting
from deltactl.operations.vacuum.candidates import WAITING
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.planner import Planner
from deltactl.operations.vacuum.spellings import distinct_names
from deltactl.option_names import option
from deltactl.units import DAY_MS, HOUR_MS, format_count


def plan_with_waiting(planner: Planner, clock_ms: int) -> VacuumPlan:
    """Plan a vacuum, and count the files that wait, given the time of this machine's clock.

    Warn of them if the plan has no files: a vacuum that removes files commits, which proves the
    time for later runs.

    Raises:
        DeltactlError: as ``Planner.plan``.
    """
    if clock_ms <= planner.retention.now_ms + HOUR_MS:
        return planner.plan()
    others = planner.names_of_others
    planner = replace(planner, read_others=cache(lambda: [*others()]))  # both plans use them
    plan = planner.plan()
    count = count_waiting(planner, clock_ms, warns=not plan.files.num_rows)
    return replace(plan, kept={**plan.kept, WAITING: count}) if count else plan


def count_waiting(planner: Planner, clock_ms: int, *, warns: bool) -> int:
    """Return how many files a vacuum would remove if it trusted this machine's clock.

    None, if the clock is not far ahead of the proven time. With ``warns``, warn of them if the
    table got no commit for the retention: tables that are written more often catch up by
    themselves.

    Raises:
        TableError: the log is damaged.
        SafetyError: a file of the log cannot be located.
    """
    retention = planner.retention
    until_ms = clock_ms - retention.retain_ms
    if clock_ms <= retention.now_ms + HOUR_MS:
        return 0
    names = _removed_between(planner.snapshot, retention.cutoff_ms, until_ms)
    if not len(names):
        return 0
    by_clock = replace(
        planner,
        retention=replace(retention, cutoff_ms=until_ms),
        context=replace(planner.context, warn=ignore_warning),
    )
    try:
        count: int = by_clock.select_removed(names).num_rows
    except InterruptedRunError:
        raise
    except DeltactlError:  # what needs them is unknown, which a plan without them need not know
        count = len(names)
    if count and warns and until_ms > retention.now_ms - DAY_MS:
        files = format_count(count, "file is", "files are")
        remedy = f"run vacuum with {option('force_retention', True)}"
        planner.context.warn(explain_waiting(files, remedy))
    return count


def _removed_between(snapshot: Snapshot, since_ms: int, until_ms: int) -> pa.ChunkedArray:
    """Return the names of the files that were removed at a time, and of their vectors."""
    found = [pa.chunked_array([], pa.string())]
    for batch in snapshot.tombstone_batches(("path", "deletion_vector", "deletion_timestamp_ms")):
        times = batch["deletion_timestamp_ms"]
        is_between = pc.and_(pc.greater_equal(times, since_ms), pc.less(times, until_ms))
        found.append(file_names(snapshot.store, batch.filter(is_between)))
    return distinct_names(*found)
