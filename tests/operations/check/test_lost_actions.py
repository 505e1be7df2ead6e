"""A commit of delta-rs or Delta on Spark loses a file action: its metrics show it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.storage.local.store import LocalStore
from tests.support.damage import check, codes, edit_action, edit_commit
from tests.support.table_builder import Column, TableBuilder, commit_path


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


def merge(table: DeltaTable) -> None:
    source = pa.table({"id": [1, 5]})
    draft = table.merge(source, "s.id = t.id", source_alias="s", target_alias="t")
    draft.when_matched_update({"id": "t.id + 100"}).when_not_matched_insert_all().execute()


@pytest.mark.parametrize(
    "run",
    [
        lambda table: table.update(updates={"id": "id + 10"}, predicate="id = 1"),
        lambda table: table.delete("id = 1"),
        merge,
    ],
    ids=["update", "delete", "merge"],
)
def test_metrics_of_changes_by_delta_rs(
    tmp_path: Path, run: Callable[[DeltaTable], object]
) -> None:
    """Only an UPDATE does not count the files with changes among the added files."""
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, pa.table({"id": [1, 2, 3]}), configuration=feed)
    run(DeltaTable(tmp_path))
    store = LocalStore(str(tmp_path))
    assert codes(check(store)) == []
    commit = tmp_path / commit_path(1)
    lines = commit.read_bytes().splitlines(keepends=True)
    assert any(line.startswith(b'{"cdc"') for line in lines)
    lost = next(line for line in lines if line.startswith(b'{"add"'))
    commit.write_bytes(b"".join(line for line in lines if line != lost))
    assert codes(check(store)) == ["COMMIT_DOUBTFUL"]


@pytest.mark.parametrize(
    ("operation", "metrics"),
    [
        ("UPDATE", {"numAddedFiles": "1", "numAddedChangeFiles": "1"}),
        (
            "DELETE",
            {"numAddedFiles": "0", "numDeletionVectorsAdded": "1", "numAddedChangeFiles": "1"},
        ),
        ("MERGE", {"numTargetFilesAdded": "1", "numTargetChangeFilesAdded": "1"}),
    ],
)
def test_metrics_of_changes_by_spark(
    tmp_path: Path, operation: str, metrics: dict[str, str]
) -> None:
    """It counts the files with changes apart."""
    store = LocalStore(str(tmp_path))
    builder = TableBuilder(store, [Column("id")], features=["changeDataFeed"])
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    change = {"path": "_change_data/cdc-0.parquet", "partitionValues": {}, "size": 1}
    cdc = {"cdc": {**change, "dataChange": False}}
    builder.commit(builder.remove_action(path), builder.write_file([{"id": 2}]), cdc)
    edit_action(builder, 2, "commitInfo", operation=operation, operationMetrics=metrics)
    assert codes(check(store)) == []
    edit_commit(builder, 2, lambda action: None if "add" in action else action)
    assert codes(check(store)) == ["COMMIT_DOUBTFUL"]
