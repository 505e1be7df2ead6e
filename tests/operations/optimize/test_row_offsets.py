"""The result of a task says where the live rows of each input begin in the output."""

from collections.abc import Iterable, Iterator

import pyarrow.parquet as pq
import pytest

from deltactl.engine.base import Done
from deltactl.engine.local import LocalEngine
from deltactl.operations.optimize.commit_bins import OptimizeRun, Outcomes
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.optimize.tasks import RewriteResult
from tests.support.run import run_on
from tests.support.stores import MemoryStore, opened_as
from tests.support.table_builder import Column, TableBuilder


def test_offsets_count_live_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("memory://offsets/1")
    builder = TableBuilder(store, [Column("id")], features=("deletionVectors",))
    paths = builder.append(*([{"id": 10 * f + r} for r in range(5)] for f in range(3)))
    builder.delete_rows(paths[0], [1, 3])
    builder.delete_rows(paths[1], range(5))
    found: list[RewriteResult] = []

    class Watching(OptimizeRun):
        def collect(self, outcomes: Outcomes, folders: Iterable[str]) -> None:
            def watch() -> Iterator[Done[RewriteResult]]:
                for outcome in outcomes:
                    assert isinstance(outcome, Done)
                    found.append(outcome.result)
                    yield outcome

            super().collect(watch(), folders)

    monkeypatch.setattr("deltactl.operations.optimize.run.OptimizeRun", Watching)
    with opened_as(store):
        run_on(
            store,
            optimize_table,
            OptimizeOptions(),
            warn=pytest.fail,
            engine=LocalEngine(workers=1),
        )
    (result,) = found
    (output,) = result.outputs
    assert result.inputs is not None
    inputs = result.inputs.to_pydict()
    assert inputs["physical_rows"] == [5, 5, 5]
    ids = pq.read_table(store.open_input(output.path))["id"].to_pylist()
    starts = dict(zip(paths, inputs["first_row"], strict=True))
    assert ids[starts[paths[0]]] == 0
    assert ids[starts[paths[2]]] == 20
    assert sorted(starts.values()) in ([0, 3, 3], [0, 0, 3], [0, 5, 5], [0, 0, 5], [0, 3, 8])
