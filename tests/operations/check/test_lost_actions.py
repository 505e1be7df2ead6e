"""A commit of delta-rs loses a file action: its metrics show it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.storage.local.store import LocalStore
from tests.support.damage import check, codes
from tests.support.table_builder import commit_path


def zero_interval(table: DeltaTable) -> None:
    """Commit each bin of a compaction by itself."""
    table.optimize.compact(min_commit_interval=timedelta(0), max_concurrent_tasks=1)


@pytest.mark.parametrize(
    "run",
    [
        lambda table: table.optimize.compact(),
        lambda table: table.optimize.compact(target_size=1),  # skips all files
        lambda table: table.optimize.compact(partition_filters=[("p", "=", "a")]),
        zero_interval,
        lambda table: table.optimize.z_order(["id"]),
    ],
)
def test_metrics_of_an_optimize_of_delta_rs(
    tmp_path: Path, run: Callable[[DeltaTable], object]
) -> None:
    """Each commit counts its own files; a commit that loses a remove has fewer than its metrics."""
    for number in range(3):
        rows = {"id": [number, number + 10], "p": ["a", "b"]}
        write_deltalake(tmp_path, pa.table(rows), mode="append", partition_by=["p"])
    run(DeltaTable(tmp_path))
    latest = DeltaTable(tmp_path).version()
    store = LocalStore(str(tmp_path))
    assert codes(check(store)) == []
    for version in range(3, latest + 1):
        commit = tmp_path / commit_path(version)
        lines = commit.read_bytes().splitlines(keepends=True)
        lost = next(line for line in lines if line.startswith(b'{"remove"'))
        commit.write_bytes(b"".join(line for line in lines if line != lost))
    found = check(store).findings.to_pylist()
    doubtful = [row["version"] for row in found if row["code"] == "COMMIT_DOUBTFUL"]
    assert doubtful == [*range(3, latest + 1)]
