"""A run that is stopped: the cluster being placed is dropped, and the report has what is left."""

from pathlib import Path
from typing import Any

import pytest

from deltactl.engine.base import CancelToken
from deltactl.engine.local import LocalEngine
from deltactl.engine.spill import Spool
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.optimize.layout import tasks
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.operations.run_context import RunContext
from tests.operations.optimize.layout.test_run import build, rows_of, run
from tests.support.clock import FixedClock
from tests.support.stores import fresh_store, opened_as
from tests.support.table_builder import LOG, START_MS, Column, TableBuilder


class StopAfter(CancelToken):
    """A token that is set from a given question on."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit, self.asked = limit, 0

    def is_set(self) -> bool:
        self.asked += 1
        return self.asked > self.limit


def stopped(builder: TableBuilder, limit: int, **options: Any) -> OptimizeReport:
    context = RunContext(
        warn=lambda message: None,
        engine=LocalEngine(workers=1),
        clock=FixedClock(START_MS + 10**9, first_id=1 + limit * 100),
        sleep=lambda seconds: None,
        cancel=StopAfter(limit),
    )
    with opened_as(builder.store):
        return optimize_table(
            DeltaLog(builder.store, context.warn), OptimizeOptions(**options), context
        )


def test_a_cluster_is_dropped_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SmallSpool(Spool):
        def __init__(self, schema: Any, destinations: int, memory_bytes: int, folder: Any) -> None:
            super().__init__(schema, destinations, 1000, folder)

    monkeypatch.setattr(tasks, "Spool", SmallSpool)
    builder = build(files=6, rows=100)
    before, log = rows_of(builder.store), list(builder.store.list_from(LOG, ""))
    names = {info.name for info in builder.store.list_from("", "")}
    target = sum(add["size"] for add in builder.state.files.values()) // 4
    for limit in range(1, 200):
        report = stopped(
            builder, limit, cluster_by="id,w", target_bytes=target, spill_dir=str(tmp_path)
        )
        assert not list(tmp_path.iterdir())
        assert rows_of(builder.store) == before
        if not report.unfinished.bins:
            break
        assert report.interrupted
        assert not report.versions
        assert not report.failures
        assert (report.unfinished.bins, report.unfinished.files) == (1, 6)
        assert report.unfinished.bytes == report.plan.bytes_to_rewrite
        assert report.unfinished.largest_bytes == report.plan.bytes_to_rewrite
        assert list(builder.store.list_from(LOG, "")) == log
        assert {info.name for info in builder.store.list_from("", "")} == names
    assert limit > 10
    assert report.files_removed == 6


def partitioned() -> TableBuilder:
    columns = [Column("id"), Column("p", "string")]
    builder = TableBuilder(fresh_store(), columns, partition_by=["p"])
    for n in range(4):
        builder.append(*([{"id": n, "p": p}] for p in "abc"))
    return builder


@pytest.mark.parametrize("how", [{}, {"cluster_by": "id"}])
def test_finished_clusters_are_kept_and_the_others_are_counted(how: dict[str, Any]) -> None:
    found: dict[int, set[str]] = {}
    for limit in range(100):
        builder = partitioned()
        before = rows_of(builder.store)
        report = stopped(builder, limit, **how)
        assert rows_of(builder.store) == before
        rest = report.unfinished
        assert rest.bins == len(rest.partitions)
        assert (rest.files, report.files_removed) == (4 * rest.bins, 12 - 4 * rest.bins)
        assert report.interrupted or not rest.bins
        found[rest.bins] = set(rest.partitions)
        if not rest.bins:
            break
        again = run(builder.store, **how)
        assert set(again.plan.partitions["partition"].to_pylist()) == rest.partitions
    assert found.keys() == {0, 1, 2, 3}
    assert found[2] == {"p=b", "p=c"}
