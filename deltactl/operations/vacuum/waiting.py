"""Count the files that have expired by this machine's clock only (see ``trusted_time``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.planner import Planner
from deltactl.units import HOUR_MS

WAITING: Final = "past the retention by this machine's clock only"


def with_waiting(planner: Planner, plan: VacuumPlan, clock_ms: int) -> VacuumPlan:
    """Return a plan that also counts such files among those that it keeps.

    They wait until a commit of another writer proves the time. If this machine's clock is not far
    ahead of the proven time, the plan is not changed.

    Raises:
        DeltactlError: as ``Planner.plan``.
    """
    retention = planner.retention
    by_clock = replace(retention, cutoff_ms=clock_ms - retention.retain_ms)
    if by_clock.cutoff_ms <= retention.cutoff_ms + HOUR_MS:
        return plan
    later = replace(
        planner,
        retention=by_clock,
        options=replace(planner.options, dump_listing=None),
        context=replace(planner.context, warn=lambda _: None),
    ).plan()
    count = _count_files(later) - _count_files(plan)
    return replace(plan, kept={**later.kept, WAITING: count}) if count > 0 else plan


def _count_files(plan: VacuumPlan) -> int:
    return int(plan.files.num_rows) + plan.left_over
