"""`check`: lost commits behind a checkpoint, commits that contradict themselves, older versions."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.log.keyed_hash import SeenKeys
from deltactl.operations.check.report import CheckReport
from deltactl.table import Table
from tests.interop.judges import rows_with_duckdb
from tests.operations.check.damages import write_sum
from tests.support.checkpoints import fail, new_table
from tests.support.damage import (
    DEEP,
    check,
    codes,
    edit_action,
    edit_commit,
    measure,
    table,
    true_stats,
)
from tests.support.table_builder import (
    Action,
    Column,
    TableBuilder,
    checkpoint_parquet,
    commit_path,
    encode_lines,
)


def problems(report: CheckReport) -> list[str]:
    found: list[str] = report.findings["problem"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("checkpoints", "lost", "problem"),
    [
        ([4], [4], "commit 4 is missing up to the newest checkpoint, of version 4"),
        ([4], [2, 3, 4], "commits 2 to 4 are missing up to the newest checkpoint, of version 4"),
        ([4], [0, 4], "commit 4 is missing up to the newest checkpoint, of version 4"),
        ([1, 4], [0, 3, 4], "commits 3 to 4 are missing up to the newest checkpoint, of version 4"),
        ([3], [0, 3], "commit 3 is missing between 2 and 4"),
        ([3], [0, 2, 3], "commits 2 to 3 are missing between 1 and 4"),
        ([2, 3], [0, 2], "commit 2 is missing between 1 and 3"),
        ([3], [3], "commit 3 is missing between 2 and 4"),
        ([3], [0, 1, 2, 3], None),
        ([3], [0, 2], None),
        ([4], [0, 1, 2, 3], None),
        ([1, 4], [0, 1, 2, 3], "commits 2 to 3 are missing between 1 and 4"),
        ([4], [0, 1, 2, 3, 4], "commit 4 is missing up to the newest checkpoint, of version 4"),
    ],
)
def test_the_commit_of_a_checkpoint_is_lost(
    checkpoints: Sequence[int], lost: Sequence[int], problem: str | None
) -> None:
    builder = table()
    for version in checkpoints:
        builder.checkpoint(version)
    builder.store.delete_many([commit_path(version) for version in lost])
    report = check(builder.store, **DEEP)
    assert report.version == 4
    assert problems(report) == ([] if problem is None else [problem])
    assert codes(report) == ([] if problem is None else ["HISTORY_GAP"])


def test_delta_rs_leaves_an_old_checkpoint_of_several_files() -> None:
    builder = table()
    builder.checkpoint(1, "multipart")
    builder.checkpoint(4)
    builder.forget_commits(4)
    assert codes(check(builder.store)) == []


@pytest.mark.parametrize(
    "kind", ["classic", "multipart", "v2-json", "v2-parquet", "v2-inline", "v2-classic"]
)
@pytest.mark.parametrize("lost", [[6], [5, 6], [4, 5, 6], [2, 6]])
def test_the_newest_commits_of_deletion_vectors_are_lost(lost: list[int], kind: str) -> None:
    """Their checkpoint is compared with no commit: what they removed is not known."""
    builder = table(features=["deletionVectors", "v2Checkpoint"])
    path = next(path for path, vector in builder.state.files if vector)
    for positions in ([1, 2, 3], [1, 2, 3, 4]):
        builder.delete_rows(path, positions)
    write_sum(builder, 0)
    builder.checkpoint(6, kind)
    assert codes(check(builder.store, **DEEP)) == []
    builder.store.delete_many([commit_path(version) for version in lost])
    for options in ({}, DEEP):
        assert codes(check(builder.store, **options)) == ["HISTORY_GAP"]


def test_a_commit_with_a_far_higher_version() -> None:
    """An unrelated file can have any version: no memory is needed for those in between."""
    builder = table()
    builder.store.put(commit_path(10**15), builder.store.read(commit_path(3)))
    assert codes(check(builder.store)) == ["COMMIT_DOUBTFUL", "LOG_GAP"]


@pytest.mark.parametrize(
    ("action", "member"),
    [
        *(("add", name) for name in ("size", "modificationTime", "dataChange", "partitionValues")),
        ("remove", "dataChange"),
    ],
)
def test_a_file_action_without_a_member_that_readers_need(action: str, member: str) -> None:
    builder = table()
    actions = [{"remove": remove_of(builder, 1)["remove"]}, add_of(builder, 1)]
    place = next(n for n, it in enumerate(actions) if action in it)
    del actions[place][action][member]
    say(builder, 2, *actions)
    report = check(builder.store)
    assert "COMMIT_UNREADABLE" in codes(report)
    assert f"one of its {action} actions has no {member}" in problems(report)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("format", None),
        ("format", {"options": {}}),
        ("format", {"provider": "parquet"}),
        ("configuration", None),
        ("id", None),
        ("partitionColumns", None),
    ],
)
def test_a_metadata_action_without_a_member_that_readers_need(member: str, value: Any) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, "metaData", **{member: value})
    report = check(builder.store)
    assert codes(report) == ["SCHEMA_INVALID"]
    (problem,) = problems(report)
    assert problem.startswith(f"its metaData action has no {member}")


@pytest.mark.parametrize(
    ("member", "value"), [("format", {"provider": "parquet", "options": []}), ("configuration", [])]
)
def test_a_metadata_action_with_a_list_for_an_object(member: str, value: Any) -> None:
    builder = table()
    edit_action(builder, 0, "metaData", **{member: value})
    assert "COMMIT_UNREADABLE" in codes(check(builder.store))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nullable": None}, "'nullable' is not true or false"),
        ({"nullable": "true"}, "'nullable' is not true or false"),
        ({"metadata": None}, "the metadata of field"),
        ({"metadata": ...}, "has no metadata"),
        ({"type": {"type": "struct", "fields": []}}, "a struct has no fields"),
    ],
)
def test_a_field_of_the_schema_without_a_member(change: dict[str, Any], problem: str) -> None:
    builder = table()
    schema = json.loads(builder.metadata_action()["metaData"]["schemaString"])
    schema["fields"][0] |= change
    for name in [name for name, value in change.items() if value is ...]:
        del schema["fields"][0][name]
    builder.change_metadata(schemaString=json.dumps(schema))
    report = check(builder.store)
    assert any(problem in it for it in problems(report))


def test_a_commit_with_a_byte_order_mark() -> None:
    builder = table()
    name = commit_path(2)
    builder.store.put(name, b"\xef\xbb\xbf" + builder.store.read(name))
    report = check(builder.store)
    assert codes(report) == ["COMMIT_UNREADABLE"]
    assert "byte order mark" in problems(report)[0]


NOBODY = "its commitInfo does not name the writer"


def say(builder: TableBuilder, version: int, *actions: Action) -> None:
    """Append actions to a commit."""
    name = commit_path(version)
    builder.store.put(name, builder.store.read(name) + encode_lines(actions))


def add_of(builder: TableBuilder, version: int) -> Action:
    return next(a for a in builder.commits[version] if "add" in a)


def remove_of(builder: TableBuilder, version: int) -> Action:
    return {
        "remove": {
            "path": add_of(builder, version)["add"]["path"],
            "deletionTimestamp": 1,
            "dataChange": True,
        }
    }


def txn(application: str) -> Action:
    return {"txn": {"appId": application, "version": 3}}


def domain(name: str) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": False}}


@pytest.mark.parametrize(
    ("actions", "found"),
    [
        ([txn("a"), txn("a")], ["it has 2 txn actions of 'a'"]),
        ([txn("a"), txn("b")], []),
        ([domain("a"), domain("a")], ["it has 2 domainMetadata actions of 'a'"]),
        ([domain("a"), domain("b")], []),
        (
            [{"checkpointMetadata": {"version": 1}}],
            ["it has a checkpointMetadata action, which only checkpoints may have"],
        ),
        (
            [{"sidecar": {"path": "a", "sizeInBytes": 1, "modificationTime": 1}}],
            ["it has a sidecar action, which only checkpoints may have"],
        ),
        ([{**txn("a"), "somethingNew": {}}], []),
        ([{**txn("a"), "remove": None, "cdc": None}], []),
        ([{"commitInfo": {"operationMetrics": {}, "txn": {}}}], []),
    ],
)
def test_a_commit_says_each_thing_once(actions: list[Action], found: list[str]) -> None:
    builder = new_table(Column("id"), features=["domainMetadata"])
    builder.append([{"id": 1}])
    say(builder, 1, *actions)
    report = check(builder.store)
    assert problems(report) == found
    assert report.findings["code"].to_pylist() == ["COMMIT_AMBIGUOUS"] * len(found)
    assert report.findings["version"].to_pylist() == [1] * len(found)


def test_a_file_is_added_twice() -> None:
    builder = table()
    file = add_of(builder, 2)
    version = builder.commit(file, file, engineInfo="Rewriter/1")
    (row,) = check(builder.store, **DEEP).findings.to_pylist()
    assert row["problem"] == "it adds more than once 'p=1/f00002.parquet' (by 'Rewriter/1')"
    assert (row["version"], "restore" in row["repair"]) == (version, True)


def test_a_file_is_added_and_removed() -> None:
    builder = table()
    say(builder, 2, remove_of(builder, 2))
    (found,) = (text for text in problems(check(builder.store)) if "adds and removes" in text)
    assert found == f"it adds and removes 'p=1/f00002.parquet' ({NOBODY})"


def test_many_contradictions_are_one_finding() -> None:
    builder = new_table(Column("id"))
    builder.append([{"id": 1}], [{"id": 2}], [{"id": 3}])
    say(builder, 1, *(action for action in builder.commits[1] if "add" in action))
    expected = f"it adds more than once 'f00001.parquet' and 2 more ({NOBODY})"
    assert problems(check(builder.store)) == [expected]


def test_a_row_delete_and_a_file_that_comes_back_are_in_order() -> None:
    builder = table()
    builder.delete_rows("p=0/f00001.parquet", [5])
    builder.remove("p=1/f00002.parquet")
    builder.commit(add_of(builder, 2))
    assert codes(check(builder.store, **DEEP)) == []


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"p": "1", "q": "2"}, "adds have a value for 'q', which is not a partition column"),
        ({}, "adds have no value for the partition column 'p'"),
        (
            {"P": "1"},
            "adds have no value for the partition column 'p' "
            "and a value for 'P', which is not a partition column",
        ),
        ({"p": '1":{}, \\'}, None),
    ],
)
def test_keys_of_partition_values(values: dict[str, str], problem: str | None) -> None:
    builder = new_table(Column("id"), Column("p", "string"), partition_by=["p"])
    builder.append([{"id": 1, "p": "a"}])
    edit_action(builder, 1, "add", partitionValues=values)
    report = check(builder.store)
    assert problems(report) == ([] if problem is None else [problem])
    assert codes(report) == ([] if problem is None else ["PARTITION_VALUE"])


@pytest.mark.parametrize(
    ("kind", "text", "is_bad"),
    [
        ("date", "2025-02-19 13:00:00", True),
        ("date", "2025-2-19", False),
        ("timestamp_ntz", "2025-02-19T13:00:00", True),
        ("timestamp_ntz", "2025-02-19 13:00:00.5", False),
        ("timestamp", "2025-02-19", True),
        ("timestamp", "2025-02-19T13:00:00Z", False),
        ("decimal(10,2)", "1.5", False),
    ],
)
@pytest.mark.parametrize("is_widened", [False, True])
def test_partition_values_in_another_form(
    kind: str, text: str, is_bad: bool, is_widened: bool
) -> None:
    """Files that are older than a change of the type keep their form."""
    changes = {"delta.typeChanges": [{"fromType": "date", "toType": kind}]} if is_widened else {}
    builder = new_table(Column("id"), Column("p", kind, metadata=changes), partition_by=["p"])
    builder.append([{"id": 1, "p": None}])
    edit_action(builder, 1, "add", partitionValues={"p": text})
    is_found = "PARTITION_VALUE" in codes(check(builder.store))
    assert is_found == (is_bad and not is_widened)


def test_partition_values_of_a_table_without_partitions() -> None:
    builder = new_table(Column("id"))
    builder.append([{"id": 1}])
    edit_action(builder, 1, "add", partitionValues={"id": "1"})
    assert codes(check(builder.store)) == ["PARTITION_VALUE"]


@pytest.mark.parametrize(("text", "is_found"), [("01/11/2026", True), ("2026-11-01", False)])
def test_partition_values_of_removed_files(tmp_path: Path, text: str, is_found: bool) -> None:
    """DuckDB parses them, too, until a checkpoint has the files without them."""
    columns = [Column("id"), Column("p", "date")]
    builder = TableBuilder(tmp_path, columns, partition_by=["p"])
    builder.append([{"id": 1, "p": None}])
    add = builder.write_file([{"id": 2, "p": None}])
    add["add"]["partitionValues"] = {"p": text}
    builder.commit(add)
    builder.remove(add["add"]["path"])
    found = check(builder.store).findings.to_pylist()
    assert [row["code"] for row in found] == ["PARTITION_VALUE"] * is_found
    if is_found:
        assert "deltactl checkpoint" in found[0]["repair"]
        with pytest.raises(duckdb.Error, match="Failed to parse value"):
            rows_with_duckdb(tmp_path)
    Table(tmp_path).checkpoint()
    assert codes(check(builder.store)) == []
    assert [row["id"] for row in rows_with_duckdb(tmp_path)] == [1]


@pytest.mark.parametrize("value", ["7 dogs", ""])
@pytest.mark.parametrize("name", ["deletedFileRetentionDuration", "logRetentionDuration"])
def test_a_retention_that_is_not_valid_is_noted(name: str, value: str) -> None:
    key = f"delta.{name}"
    builder = new_table(Column("id"), properties={key: value})
    report = check(builder.store)
    assert codes(report) == []
    assert any(f"{key} is invalid, and vacuum" in note for note in report.notes)


def test_keys_go_with_the_partitioning_of_their_time() -> None:
    builder = table()
    for path, _ in list(builder.state.files):
        builder.remove(path)
    builder.change_metadata(partitionColumns=[])
    builder.partition_by = ()
    builder.append([{"id": 1, "name": "a", "p": 1}])
    assert codes(check(builder.store, all_versions=True)) == []


@pytest.mark.parametrize("lost", [[2], [1, 2], [0, 2], [2, 4], [2, 3, 4]])
@pytest.mark.parametrize("again", [False, True])
def test_keys_after_a_lost_change_of_the_partitioning(lost: list[int], again: bool) -> None:
    builder = new_table(Column("id"), Column("p"), partition_by=["p"])
    (path,) = builder.append([{"id": 1, "p": 1}])
    builder.commit(builder.remove_action(path), builder.metadata_action(partitionColumns=[]))
    builder.partition_by = ()
    (path,) = builder.append([{"id": 2, "p": 2}])
    if again:
        action = builder.metadata_action(partitionColumns=["p"])
        builder.commit(builder.remove_action(path), action)
        builder.partition_by = ("p",)
    for number in range(3, 6):
        builder.append([{"id": number, "p": number}])
    for version in (2, 4):
        builder.checkpoint(version)
    assert codes(check(builder.store, **DEEP)) == []
    builder.store.delete_many([commit_path(version) for version in lost])
    for as_of in (4, None):
        report = check(builder.store, version=as_of, **DEEP)
        assert codes(report) == ["HISTORY_GAP"]
    edit_action(builder, 6, "add", partitionValues={"q": "1"})
    assert "PARTITION_VALUE" in codes(check(builder.store))


def test_partition_values_of_older_versions() -> None:
    builder = table()
    edit_action(builder, 2, "add", partitionValues={"p": "one"})
    builder.remove("p=1/f00002.parquet")
    latest = check(builder.store, **DEEP)
    assert codes(latest) == []
    report = check(builder.store, all_versions=True, **DEEP)
    assert codes(report) == ["PARTITION_VALUE"]
    assert report.counts.num_checked > latest.counts.num_checked
    assert report.counts.num_rows == latest.counts.num_rows  # those of the table, each once
    assert report.findings["file"].to_pylist() == ["p=1/f00002.parquet"]


def older(kind: str, **changes: Any) -> CheckReport:
    """Check all versions of a table with an action that was wrong in version 0, and was fixed."""
    builder = new_table(Column("id"))
    builder.append([{"id": 1}])
    (good,) = (action for action in builder.commits[0] if kind in action)
    builder.commit(good)
    builder.commit({"txn": {"appId": "a", "version": 1}})
    edit_action(builder, 0, kind, **changes)
    assert codes(check(builder.store)) == []
    return check(builder.store, all_versions=True, **DEEP)


def test_protocols_of_older_versions() -> None:
    report = older("protocol", writerFeatures=["appendOnly"])
    assert codes(report) == ["PROTOCOL_INVALID"]
    assert report.findings["version"].to_pylist() == [0]
    assert report.counts.num_checked == 1


def test_schemas_of_older_versions() -> None:
    report = older("metaData", schemaString="{")
    assert codes(report) == ["SCHEMA_INVALID"]
    assert report.counts.num_checked == 1
    assert report.notes == (
        "files of older versions were not checked: the schema of a version is invalid",
    )


def test_a_lasting_problem_is_reported_once() -> None:
    builder = new_table(Column("id"))
    for number in range(3):
        builder.change_metadata(configuration={"n": str(number)})
    edit_commit(
        builder,
        0,
        lambda a: {"protocol": {**a["protocol"], "minReaderVersion": 0}} if "protocol" in a else a,
    )
    assert codes(check(builder.store, all_versions=True)) == ["PROTOCOL_INVALID"]
    assert check(builder.store, all_versions=True).findings.num_rows == 1


def test_seen_keys_are_those_of_a_set() -> None:
    numbers = np.random.default_rng(7).integers(0, 3000, 5000)
    seen, known = SeenKeys(), set[str]()
    for batch in np.array_split(numbers, 60):
        keys = [f"f{number}" for number in batch]
        mask = seen.take(pa.chunked_array([keys[:20], keys[20:]], pa.string())).to_pylist()
        expected = [key not in known and key not in keys[:i] for i, key in enumerate(keys)]
        assert mask == expected
        known.update(keys)
    assert seen.take(pa.chunked_array([], pa.string())).to_pylist() == []


def test_two_actions_of_files_in_a_line() -> None:
    builder = table()
    both = {**add_of(builder, 2), "cdc": {"path": "x", "partitionValues": {"p": "1"}}}
    edit_commit(builder, 2, lambda action: both if "add" in action else action)
    said = "has several actions: add, cdc"
    report = check(builder.store)
    assert codes(report) == ["COMMIT_AMBIGUOUS", "LOG_UNREADABLE"]
    assert problems(report) == [
        f"line 2 {said}; its commitInfo does not name the writer",
        f"{commit_path(2)}: line 2 {said}",
    ]


@pytest.mark.parametrize(
    "line",
    [
        {**txn("a"), "commitInfo": {}},
        {**txn("a"), "somethingNew": {}, "remove": {"path": "x"}},
        {**txn("a"), "remove": None, "cdc": {"path": "x"}},
    ],
)
def test_a_line_with_two_actions_and_its_writer(line: Action) -> None:
    """The checkpoint after it holds the state; the rest of the table is checked as ever."""
    builder = table()
    builder.checkpoint(4)
    say(builder, 1, line)
    say(builder, 3, txn("b"), txn("b"))
    named = {"commitInfo": {"timestamp": 1, "engineInfo": "Odd/1.0"}}
    edit_commit(builder, 1, lambda action: named if list(action) == ["commitInfo"] else action)
    number = builder.store.read(commit_path(1)).count(b"\n")
    keys = ", ".join(
        key for key, value in line.items() if key != "somethingNew" and value is not None
    )
    report = check(builder.store)
    assert problems(report) == [
        f"line {number} has several actions: {keys}; written by 'Odd/1.0'",
        "it has 2 txn actions of 'b'",
    ]
    assert set(codes(report)) == {"COMMIT_AMBIGUOUS"}
    assert report.counts.num_checked == 3


def test_a_checkpoint_with_a_row_of_two_actions() -> None:
    """One that has a row without an action too, so that the counts of its footer do not show it."""
    builder = table()
    state = builder.state
    shared = {**remove_of(builder, 2), "txn": {"appId": "a", "version": 1}}
    lines: list[Action] = [
        {"protocol": state.protocol},
        {"metaData": state.metadata},
        *({"add": add} for add in state.files.values()),
        {},
        shared,
    ]
    builder.store.put(
        f"_delta_log/{builder.version:020d}.checkpoint.parquet", checkpoint_parquet(lines)
    )
    report = check(builder.store)
    assert codes(report) == ["CHECKPOINT_UNREADABLE"]
    (problem,) = problems(report)
    assert problem.endswith(f"row {len(lines)} has several actions: txn, remove")
    assert report.counts.num_checked == 3


WRITE = {"numFiles": "2", "numOutputRows": "2"}
DELETE = {"numAddedFiles": "1", "numRemovedFiles": "1"}
MERGE = {"numTargetFilesAdded": 0, "numTargetFilesRemoved": 0, "numTargetDeletionVectorsAdded": 1}
RESTORE = {"numRestoredFiles": "1", "numRemovedFiles": "0"}
RUST_RESTORE = {"numRestoredFile": 1, "numRemovedFile": 1}
RUST = {"num_added_files": 1, "num_removed_files": 1, "num_added_rows": 1}
RUST_OPTIMIZE = {"numFilesAdded": 1, "numFilesRemoved": 2, "filesRemoved": '{"totalFiles":2}'}


@pytest.mark.parametrize(
    ("metrics", "adds", "removes", "problem"),
    [
        (WRITE, 2, 0, None),
        (WRITE, 1, 0, "it has 1 of the 2 add actions, for 2 rows, that"),
        (WRITE, 0, 0, "it has 0 of the 2 add actions, for 2 rows, that"),
        (WRITE | {"numOutputRows": "1"}, 1, 0, None),  # the other file had no rows
        ({"numFiles": "2"}, 1, 0, None),
        (WRITE | {"numRemovedFiles": "1"}, 2, 0, "it has 0 of the 1 remove action that"),
        (DELETE, 1, 1, None),
        (DELETE, 1, 0, "it has 0 of the 1 remove action that"),
        (DELETE, 0, 0, "it has 0 of the 1 add action and 0 of the 1 remove action that"),
        (DELETE, 2, 2, None),  # not all writers count all actions
        (MERGE, 1, 1, None),
        (MERGE, 0, 1, "it has 0 of the 1 add action that"),
        (MERGE, 1, 0, "it has 0 of the 1 remove action that"),
        (DELETE | {"numDeletionVectorsAdded": "1", "minFileSize": "9"}, 1, 1, None),  # OPTIMIZE
        (RESTORE, 1, 0, None),
        (RESTORE, 0, 0, "it has 0 of the 1 add action that"),
        (RUST_RESTORE, 1, 1, None),
        (RUST_RESTORE, 0, 1, "it has 0 of the 1 add action that"),
        (RUST_RESTORE, 1, 0, "it has 0 of the 1 remove action that"),
        (RUST, 1, 1, None),
        (RUST, 0, 1, "it has 0 of the 1 add action, for 1 row, that"),
        (RUST_OPTIMIZE, 1, 2, None),
        (RUST_OPTIMIZE, 1, 1, "it has 1 of the 2 remove actions that"),
        (RUST_OPTIMIZE, 0, 2, "it has 0 of the 1 add action that"),
        ({"numConvertedFiles": "2"}, 2, 0, None),
        ({"numConvertedFiles": "2"}, 1, 0, "it has 1 of the 2 add actions that"),
        ({"numAddedFiles": "many", "numRemovedFiles": -1}, 0, 0, None),
        ("none", 0, 0, None),
    ],
)
def test_a_commit_with_fewer_actions_than_its_metrics_say(
    metrics: object, adds: int, removes: int, problem: str | None
) -> None:
    builder = new_table(Column("id"))
    old = builder.append([{"id": 1}], [{"id": 2}])
    row = [{"id": 3}]
    added = [builder.write_file(row, stats=true_stats(row, ["id"])) for _ in range(adds)]
    removed = [builder.remove_action(path) for path in old[:removes]]
    builder.commit(*added, *removed, operationMetrics=metrics)
    found = check(builder.store).findings.to_pylist()
    assert [row["code"] for row in found] == ["COMMIT_DOUBTFUL"] * (problem is not None)
    assert all(row["problem"].startswith(problem) for row in found)


def test_files_of_changes_may_be_counted() -> None:
    builder = new_table(Column("id"))
    builder.append([{"id": 1}])
    path = "_change_data/c.parquet"
    cdc = {"path": path, "partitionValues": {}, "size": 1, "dataChange": False}
    metrics = {"num_added_files": 2}
    builder.commit(builder.write_file([{"id": 2}]), {"cdc": cdc}, operationMetrics=metrics)
    assert codes(check(builder.store)) == []


@pytest.mark.parametrize("is_measured", [True, False])
def test_older_checksums_have_a_repair_that_helps(is_measured: bool) -> None:
    builder = table()
    if is_measured:
        measure(builder)
    snapshot = DeltaLog(builder.store, fail).snapshot(2)
    name = write_checksum(builder.store, snapshot, snapshot.num_files + 1, snapshot.size_bytes)
    assert name is not None
    options = {"checkpoints": True, "all_versions": True}
    repairs = check(builder.store, **options).findings["repair"].to_pylist()
    if is_measured:
        expected = f"move {name} out of the table: readers of the latest version do not need it"
        assert set(repairs) == {expected}
    else:
        assert len(set(repairs)) == 1
        assert "a commit may have lost actions that this file has: _delta_log/" in repairs[0]
    builder.store.delete_many([name])
    assert codes(check(builder.store, **options)) == []
