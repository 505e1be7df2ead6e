import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.errors import CorruptLogError, LogGapError, UsageError, VersionNotFoundError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.history.changes import Change, change_from_metrics
from deltactl.operations.history.diff import diff_versions
from deltactl.operations.history.run import (
    HistoryOptions,
    HistoryReport,
    VersionAt,
    commit_files,
    load_history,
    version_at,
)
from deltactl.protocol.paths import partition_directory
from deltactl.storage.open import open_store
from deltactl.table import Table
from deltactl.units import format_timestamp
from tests.support.history_logs import (
    PROTOCOL,
    SCHEMA,
    START_MS,
    add,
    ict_properties,
    info,
    log_path,
    metadata,
    remove,
    write_checkpoint,
    write_commit,
    write_log,
)
from tests.support.stores import CountingStore


def refuse_warning(message: str) -> None:
    raise AssertionError(message)


def load(root: Path, **options: Any) -> HistoryReport:
    return load_history(DeltaLog(open_store(str(root)), refuse_warning), HistoryOptions(**options))


def changes(root: Path) -> dict[int, Change]:
    return dict(load(root, changes=True).changes)


def test_changes_come_from_metrics() -> None:
    write = {"numFiles": "3", "numOutputBytes": "900", "numOutputRows": "30"}
    append = {"operation": "WRITE", "operationParameters": {"mode": "Append"}}
    assert change_from_metrics({**append, "operationMetrics": write}) == Change(3, 900, 0, 0, 30)
    overwrite = {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}
    assert change_from_metrics({**overwrite, "operationMetrics": write}) is None
    merge = {
        "numTargetFilesAdded": "1",
        "numTargetBytesAdded": "10",
        "numTargetFilesRemoved": "2",
        "numTargetBytesRemoved": "20",
        "numTargetRowsInserted": "3",
        "numTargetRowsUpdated": "4",
        "numTargetRowsDeleted": "5",
    }
    change = change_from_metrics({"operation": "MERGE", "operationMetrics": merge})
    assert change == Change(1, 10, 2, 20, 3, 5, 4)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"operationMetrics": "x"},
        {"operation": ["WRITE"], "operationMetrics": {}},
        {"operation": "DELETE", "operationMetrics": {"numAddedFiles": "many"}},
        {"operation": "WRITE", "operationParameters": 4, "operationMetrics": {"numFiles": 1}},
    ],
)
def test_odd_metrics_are_no_metrics(odd: dict[str, Any]) -> None:
    assert change_from_metrics(odd) is None


def test_changes_are_counted_where_metrics_lack(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 4}
    write_commit(
        tmp_path,
        2,
        info("DELETE"),
        remove("f1.parquet", rows=10),
        add("f1.parquet", deletionVector=vector),
    )
    write_commit(
        tmp_path, 3, info("OPTIMIZE"), remove("a", dataChange=False), add("b", dataChange=False)
    )
    write_commit(tmp_path, 4, info("WRITE"), add("c", rows=None), add("d"))
    write_commit(tmp_path, 5, {"txn": {"appId": "a", "version": 1}})
    write_commit(tmp_path, 6, remove("c", size=5), text=None)
    odd = '{"maxValues":{"numRecords":9},"numRecords":7}'
    write_commit(tmp_path, 7, add("e", stats=odd), add("g", stats="torn"), add("h"))
    write_commit(tmp_path, 8, add("i", stats=odd))
    assert changes(tmp_path) == {
        0: Change(0, 0, 0, 0),
        1: Change(1, 100, 0, 0, 10, 0),
        2: Change(1, 100, 1, 100, 0, 4),
        3: Change(1, 100, 1, 100, 0, 0),
        4: Change(2, 200, 0, 0),
        5: Change(0, 0, 0, 0),
        6: Change(0, 0, 1, 5),
        7: Change(3, 300, 0, 0),
        8: Change(1, 100, 0, 0, 7, 0),
    }


def test_rows_come_from_the_metrics_of_delta_rs(tmp_path: Path) -> None:
    """Its removes have no statistics, so that nothing can be counted there."""
    rows = pa.table({"id": range(10), "v": ["x"] * 10})
    write_deltalake(tmp_path, rows)
    table = DeltaTable(tmp_path)
    table.delete("id < 3")
    table.update({"v": "'y'"}, predicate="id = 7")
    more = pa.table({"id": [4, 5, 6, 11], "v": ["a", "b", "c", "d"]})
    merge = table.merge(more, "s.id = t.id", "s", "t")
    merge = merge.when_matched_delete("s.id = 4").when_matched_update_all("s.id > 4")
    merge.when_not_matched_insert_all().execute()
    write_deltalake(tmp_path, more.slice(3), mode="overwrite", predicate="id = 11")
    table.update_incremental()
    table.optimize.z_order(["id"])
    found = [change for _, change in sorted(changes(tmp_path).items())]
    assert [(it.rows_added, it.rows_removed, it.rows_updated) for it in found] == [
        (10, None, None),
        (None, 3, None),
        (None, None, 1),
        (1, 1, 2),
        (1, None, None),
        (0, 0, None),
    ]


def test_blank_lines_do_not_shift_the_counts(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    for version in (1, 2, 3):
        path = write_commit(tmp_path, version, info(), add("a"), add("b"))
        text = path.read_text().replace("\n", "\n\n \r\n")
        write_commit(tmp_path, version, text="\n" + text if version == 2 else text.rstrip())
    assert [changes(tmp_path)[v].files_added for v in (1, 2, 3)] == [2, 2, 2]


def test_counting_finds_what_is_broken_inside(tmp_path: Path) -> None:
    write_log(tmp_path, 4)
    write_commit(tmp_path, 2, text='{"commitInfo":{}}\n{"add":{"path\n{"add":{"path":"x"}}\n')
    report = load(tmp_path, changes=True)
    assert [row["problem"] is not None for row in report.rows] == [False, True, False, False]
    assert [row["reconstructible"] for row in report.rows] == [False, False, True, True]
    assert sorted(report.changes) == [0, 1, 3]


def test_absurd_sizes_do_not_overflow(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    stats = '{"numRecords":999999999999999999}'
    big = [add(f"f{i}", size=2**62, stats=stats) for i in range(3)]
    write_commit(tmp_path, 1, *big)
    counted = changes(tmp_path)[1]
    assert counted.bytes_added == 3 * 2**62
    assert counted.rows_added == pytest.approx(3e18)


def test_a_broken_checkpoint_is_a_warning_only(tmp_path: Path) -> None:
    write_log(tmp_path, 4)
    checkpoint = tmp_path / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    checkpoint.write_bytes(b"PAR1 cut off")
    warnings: list[str] = []
    report = load_history(DeltaLog(open_store(str(tmp_path)), warnings.append), HistoryOptions())
    assert [row["reconstructible"] for row in report.rows] == [True] * 4
    assert warnings == [
        f"the checkpoint of version 2 is invalid: _delta_log/{checkpoint.name} is truncated"
    ]


def at(root: Path, ms: int) -> VersionAt:
    return version_at(DeltaLog(open_store(str(root)), refuse_warning), START_MS + ms)


@pytest.mark.parametrize(
    ("ms", "version", "after"),
    [(0, 0, 1), (999, 0, 1), (1000, 1, 2), (2500, 2, 3), (3000, 3, None), (10**9, 3, None)],
)
def test_version_at_a_time(tmp_path: Path, ms: int, version: int, after: int | None) -> None:
    found = at(write_log(tmp_path, 4), ms)
    assert found.row["version"] == version
    assert (found.next_row["version"] if found.next_row else None) == after


def test_a_copied_commit_makes_later_ones_late(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    late = (START_MS + 900_000) / 1000
    os.utime(log_path(tmp_path, 2), (late, late))
    warnings: list[str] = []
    log = DeltaLog(open_store(str(tmp_path)), warnings.append)
    assert version_at(log, START_MS + 3500).row["version"] == 1
    (warning,) = warnings
    assert "as version 1, as by Delta on Spark, but the commit of version 3 has a file" in warning


@pytest.mark.parametrize("broken", [False, True])
def test_version_at_a_time_by_in_commit_timestamps(tmp_path: Path, broken: bool) -> None:
    write_log(tmp_path, 1, **ict_properties())
    write_commit(
        tmp_path, 0, info(inCommitTimestamp=START_MS), PROTOCOL, metadata(**ict_properties())
    )
    for version in range(1, 6):
        write_commit(tmp_path, version, info(inCommitTimestamp=START_MS + version * 10))
    if broken:
        log_path(tmp_path, 1).unlink()
    assert at(tmp_path, 35).row["version"] == 3
    assert at(tmp_path, 10**7).row["version"] == 5
    with pytest.raises(VersionNotFoundError):
        at(tmp_path, -1)


def test_version_at_reads_little(tmp_path: Path) -> None:
    store = CountingStore(open_store(str(write_log(tmp_path, 100))))
    assert version_at(DeltaLog(store, refuse_warning), START_MS + 50_000).row["version"] == 50
    assert store.calls["list_from"] == 1
    assert len(set(store.names["read_many"])) == 3  # the newest, the one found and the next


def test_files_of_a_commit_per_partition(tmp_path: Path) -> None:
    write_commit(tmp_path, 0, info("CREATE TABLE"), PROTOCOL, metadata("p"))
    write_commit(
        tmp_path,
        1,
        info(),
        add("p=a/1", partitionValues={"p": "a"}),
        add("p=a/2", partitionValues={"p": "a"}, rows=None),
        add("p=b/3", 7, 5, partitionValues={"p": 'b}"{'}),
        add("4", partitionValues={"p": None}),
        remove("p=c/5", 50, 3, partitionValues={"p": "c"}),
        remove("6", 60),
    )
    found = commit_files(DeltaLog(open_store(str(tmp_path)), refuse_warning), 1)
    assert found.row["version"] == 1
    facts = [
        (
            part.partition_values["p"],
            (part.added.num_files, part.added.size_bytes, part.added.num_rows),
            (part.removed.num_files, part.removed.size_bytes, part.removed.num_rows),
        )
        for part in found.partitions
    ]
    assert facts == [
        (None, (1, 100, 10), (1, 60, None)),
        ("a", (2, 200, None), (0, 0, 0)),
        ('b}"{', (1, 7, 5), (0, 0, 0)),
        ("c", (0, 0, 0), (1, 50, 3)),
    ]


def test_partition_columns_have_the_names_people_know(tmp_path: Path) -> None:
    mapped = SCHEMA.replace(
        '"name": "p", "type": "string", "nullable": true, "metadata": {}',
        '"name": "p", "type": "string", "nullable": true,'
        ' "metadata": {"delta.columnMapping.physicalName": "col-1"}',
    )
    mode = {"delta.columnMapping.mode": "name"}
    changes = {"schemaString": mapped, "configuration": mode}
    action = {"metaData": {**metadata("p")["metaData"], **changes}}
    write_commit(tmp_path, 0, info(), PROTOCOL, action)
    write_commit(tmp_path, 1, info(), add("f", partitionValues={"col-1": "a"}))
    store = open_store(str(tmp_path))
    found = commit_files(DeltaLog(store, refuse_warning), 1).partitions
    assert [part.partition_values for part in found] == [{"p": "a"}]
    log_path(tmp_path, 0).unlink()  # nothing to rename by any more
    found = commit_files(DeltaLog(store, lambda message: None), 1).partitions
    assert [part.partition_values for part in found] == [{"col-1": "a"}]


def mapped_metadata(**physical: str) -> Any:
    """A table of the string columns with these physical names, and partitioned by them."""
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {}}
        | ({"metadata": {"delta.columnMapping.physicalName": key}} if key != name else {})
        for name, key in physical.items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    action = metadata(*physical, delta_columnMapping_mode="name")["metaData"]
    return {"metaData": {**action, "schemaString": schema}}


@pytest.mark.parametrize(
    ("before", "after", "values", "shown"),
    [
        ({"p": "c1", "q": "c2"}, {"p": "p", "q": "q"}, {"p": "a", "q": "b"}, ["p=a/q=b +1-1"]),
        ({"p": "p", "q": "q"}, {"p": "c1", "q": "c2"}, {"c1": "a", "c2": "b"}, ["p=a/q=b +1-1"]),
        ({"q": "p", "p": "q"}, {"q": "q", "p": "p"}, {"q": "a", "p": "b"}, ["q=a/p=b +1-1"]),
        ({"r": "p", "p": "q"}, {"r": "r", "p": "p"}, {"r": "a", "p": "b"}, ["r=a/p=b +1-1"]),
        ({"p": "c1", "q": "c2"}, {"r": "c1", "q": "c2"}, {"c1": "a", "c2": "b"}, ["r=a/q=b +1-1"]),
        ({"p": "p", "q": "q"}, {"r": "r"}, {"r": "b"}, ["p=a/q=b +0-1", "r=b +1-0"]),
        ({"p": "p", "q": "q"}, {}, {}, [" +1-0", "p=a/q=b +0-1"]),
    ],
    ids=["unmapped", "mapped", "swapped", "reused", "renamed", "repartitioned", "unpartitioned"],
)
def test_each_version_of_a_difference_has_its_own_partition_columns(
    tmp_path: Path,
    before: dict[str, str],
    after: dict[str, str],
    values: dict[str, str],
    shown: list[str],
) -> None:
    """The columns are physical names by name, and ``values`` are of the only later file."""
    old = dict(zip(before.values(), "ab", strict=True))
    write_commit(tmp_path, 0, info(), PROTOCOL, mapped_metadata(**before))
    write_commit(tmp_path, 1, info(), add("1", partitionValues=old))
    replaced = (remove("1", partitionValues=old), add("2", partitionValues=values))
    write_commit(tmp_path, 2, info(), mapped_metadata(**after), *replaced)
    diff = diff_versions(DeltaLog(open_store(str(tmp_path)), refuse_warning), 1, 2)
    assert [
        f"{partition_directory(list(it.partition_values.items()))} "
        f"+{it.added.num_files}-{it.removed.num_files}"
        for it in diff.partitions
    ] == shown


def test_files_of_other_commits(tmp_path: Path) -> None:
    store = open_store(str(write_log(tmp_path, 5)))
    assert commit_files(DeltaLog(store, refuse_warning), 0).partitions == []
    whole = commit_files(DeltaLog(store, refuse_warning), 1).partitions
    assert [(dict(part.partition_values), part.added.num_files) for part in whole] == [({}, 1)]
    write_commit(tmp_path, 2, text='{"add":{"pa')
    log_path(tmp_path, 3).unlink()
    with pytest.raises(CorruptLogError, match=r"0002\.json"):
        commit_files(DeltaLog(store, refuse_warning), 2)
    with pytest.raises(LogGapError, match="the commit of version 3 is missing"):
        commit_files(DeltaLog(store, refuse_warning), 3)
    with pytest.raises(VersionNotFoundError, match="it has versions 0 to 4"):
        commit_files(DeltaLog(store, refuse_warning), 9)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_makes_no_sense(tmp_path: Path, limit: int) -> None:
    with pytest.raises(UsageError):
        Table(str(write_log(tmp_path, 3))).history(limit=limit)


def test_history_of_the_library(tmp_path: Path) -> None:
    write_log(tmp_path, 4)
    table = Table(str(tmp_path))
    history = table.history(limit=2)
    assert isinstance(history, pa.Table)
    assert history["version"].to_pylist() == [3, 2]
    assert table.history(since=format_timestamp(START_MS + 2000))["version"].to_pylist() == [3, 2]
    assert table.history(operations=["create table"])["version"].to_pylist() == [0]


def test_only_a_checkpoint_is_left(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    log_path(tmp_path, 0).unlink()
    write_checkpoint(tmp_path, 7)
    rows = load(tmp_path).rows
    assert [(row["version"], row["problem"], row["reconstructible"]) for row in rows] == [
        (7, None, True)
    ]
