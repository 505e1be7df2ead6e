"""Clusters and ``--max-bytes``: divided where it helps, otherwise named with what to do."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.engine.local import LocalEngine
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.optimize.layout.plan import (
    MAX_CLUSTER_BYTES,
    ClusterLimit,
    divide_clusters,
)
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.units import GIB, MIB, parse_size
from tests.operations.optimize.layout.test_run import build, reopened, rows_of, run
from tests.support.stores import opened_as
from tests.support.table_builder import TableBuilder


def total(builder: TableBuilder) -> int:
    return sum(add["size"] for add in builder.state.files.values())


def warnings_of(builder: TableBuilder, **options: Any) -> list[str]:
    said: list[str] = []
    context = RunContext(warn=said.append, engine=LocalEngine(workers=1))
    with opened_as(builder.store):
        optimize_table(
            DeltaLog(builder.store, context.warn), OptimizeOptions(**options), context, dry_run=True
        )
    return said


@settings(max_examples=200)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(1, 300))
def test_only_single_files_exceed_the_maximum(sizes: list[int], most: int) -> None:
    numbers = divide_clusters(np.array(sizes), most)
    assert numbers[0] == 0
    assert set(np.diff(numbers).tolist()) <= {0, 1}
    for number in range(numbers[-1] + 1):
        part = np.array(sizes)[numbers == number]
        assert part.sum() <= most or len(part) == 1


def test_a_limit_divides_only_what_is_still_useful() -> None:
    assert ClusterLimit.of(None, 256 * MIB).most_bytes == MAX_CLUSTER_BYTES
    assert ClusterLimit.of(2 * GIB, 256 * MIB).most_bytes == 2 * GIB
    assert ClusterLimit.of(GIB - 1, 256 * MIB) == ClusterLimit(MAX_CLUSTER_BYTES, GIB)
    assert ClusterLimit.of(2 * GIB, 256 * MIB, divides=False) == ClusterLimit()
    assert ClusterLimit.of(2 * GIB, 256 * MIB).finished(100 * GIB) == GIB


@pytest.mark.parametrize("how", [{"cluster_by": "id,w"}, {"cluster_by": "id", "layout": "linear"}])
def test_runs_with_a_limit_place_the_whole_table(how: dict[str, Any]) -> None:
    builder = build(files=40, rows=50)
    before = rows_of(builder.store)
    size = total(builder)
    options = {**how, "max_bytes": size // 3, "target_bytes": size // 40}
    placed = 0
    for _ in range(8):
        report = run(builder.store, **options)
        if report.plan.is_empty:
            break
        assert report.plan.bytes_to_rewrite <= size // 3
        placed += report.files_removed
        assert rows_of(builder.store) == before
    assert report.plan.is_empty
    reasons = {"in a finished cluster", "already in this layout"}
    left = report.plan.left_alone
    assert left.keys() <= reasons and sum(left.values()) == report.plan.considered_files
    assert 40 <= placed <= 60  # a smaller rest is placed twice at most


def test_a_plain_run_with_a_limit_divides_new_files_of_a_layout() -> None:
    builder = build(files=40, rows=50)
    size = total(builder)
    options: dict[str, Any] = {"target_bytes": size // 80, "max_bytes": size // 4}
    run(builder.store, cluster_by="id", target_bytes=size // 80)
    builder = reopened(builder)
    for n in range(40):
        builder.append([{"id": n * 50 + k, "v": "new", "w": 1} for k in range(50)])
    before = rows_of(builder.store)
    assert run(builder.store, dry_run=True, **options).plan.num_bins == 1
    taken = [run(builder.store, **options).files_removed for _ in range(12)]
    assert sum(taken) >= 40
    assert taken[-1] == 0
    assert rows_of(builder.store) == before


def test_a_cluster_that_is_too_large_is_named_with_the_size_to_raise() -> None:
    builder = build(files=10)
    size = total(builder)
    for how in ({"zorder_by": "id"}, {"cluster_by": "id"}):
        options: dict[str, Any] = {**how, "max_bytes": size // 2}
        plan = run(builder.store, dry_run=True, **options).plan
        assert plan.is_empty
        (reason,) = plan.left_alone
        assert plan.left_alone[reason] == 10
        assert reason.startswith("in bins larger than max_bytes (raise it to ")
        (warning,) = warnings_of(builder, **options)
        assert warning.startswith("10 files are not rewritten, because their bins are larger")
        raised = warning.partition("raise max_bytes to ")[2].removesuffix(" or more")
        assert raised in reason
        options["max_bytes"] = parse_size(raised)
        assert run(builder.store, dry_run=True, **options).plan.num_bins == 1
    assert not warnings_of(builder, cluster_by="id", max_bytes=size)


def test_small_targets_need_only_four_files_of_them() -> None:
    builder = build(files=10)
    size = total(builder)
    options = {"cluster_by": "id", "target_bytes": size // 12}
    (warning,) = warnings_of(builder, **options, max_bytes=size // 6)
    raised = parse_size(warning.partition("raise max_bytes to ")[2].removesuffix(" or more"))
    assert size // 3 - 12 <= raised < size // 2
    assert run(builder.store, dry_run=True, **options, max_bytes=raised).plan.num_bins >= 1


def test_a_bin_of_a_plain_run_that_is_too_large_is_named() -> None:
    builder = build(files=4)
    plan = run(builder.store, dry_run=True, max_bytes=10).plan
    assert [count for reason, count in plan.left_alone.items() if "raise it" in reason] == [4]
