"""A commit was damaged and is still valid JSON: the checkpoint, which is right, must stay."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from deltactl.errors import DeltactlError, SafetyError, ignore_warning
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.table import Table
from tests.support.checkpoints import DAY_MS, NOW_MS, fail, memory_of, new_table
from tests.support.clock import FixedClock
from tests.support.damage import check, codes, edit_commit, edit_parquet
from tests.support.run import run_on
from tests.support.table_builder import LOG, TableBuilder, commit_path

NAME = f"{LOG}/{5:020d}.checkpoint.parquet"


def build(**info: Any) -> TableBuilder:
    """Version 6, with a checkpoint of 5. Version 3 adds two files, and 4 rewrites one."""
    builder = new_table()
    for number in (1, 2):
        builder.append([{"id": number, "p": None}])
    paths = builder.append([{"id": 3, "p": None}], [{"id": 4, "p": None}])
    added = builder.write_file([{"id": 30, "p": None}])
    builder.commit(builder.remove_action(paths[0]), added, operation="DELETE", **info)
    for number in (5, 6):
        builder.append([{"id": number, "p": None}])
    builder.checkpoint(5)
    builder.hint(5)
    return builder


def refused_repair(table: Table) -> Any:
    with pytest.raises(DeltactlError, match="was not repaired") as caught:
        table.repair_checkpoints()
    assert "TABLE" not in str(caught.value.hint)
    return caught.value.report


def lose(builder: TableBuilder, version: int, action: str) -> None:
    """Truncate a commit before its last actions of a kind."""
    edit_commit(builder, version, lambda it: None if action in it else it)


def lose_adds(builder: TableBuilder) -> None:
    lose(builder, 3, "add")


def lose_a_remove(builder: TableBuilder) -> None:
    lose(builder, 4, "remove")


def forget_tombstones(builder: TableBuilder) -> None:
    """The checkpoint is so late that its tombstones have expired."""
    edit_parquet(builder.store, NAME, lambda rows: [it for it in rows if it["remove"] is None])


def lose_a_remove_with_a_checksum(builder: TableBuilder) -> None:
    snapshot = DeltaLog(builder.store, fail).snapshot(5)
    write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    forget_tombstones(builder)
    lose_a_remove(builder)


def lose_a_remove_with_an_odd_checksum(builder: TableBuilder) -> None:
    """An error that is not about the files does not make its counts worthless."""
    lose_a_remove_with_a_checksum(builder)
    name = f"{LOG}/{5:020d}.crc"
    node = json.loads(builder.store.read(name)) | {"numMetadata": 2}
    builder.store.put(name, json.dumps(node).encode())


def lose_a_remove_that_is_counted(builder: TableBuilder) -> None:
    forget_tombstones(builder)
    lose_a_remove(builder)


def copy_over(builder: TableBuilder) -> None:
    builder.store.put(commit_path(3), builder.store.read(commit_path(2)))


def copy_another_table_over(builder: TableBuilder) -> None:
    other = new_table()
    other.append([{"id": 77, "p": None}])
    for version in (0, 1):
        lines = other.store.read(commit_path(version)).replace(b'"id": "', b'"id": "other-')
        builder.store.put(commit_path(version), lines)


COUNTED = {"operationMetrics": {"numRemovedFiles": "1", "numAddedFiles": "1"}}
DAMAGES: dict[str, tuple[dict[str, Any], Callable[[TableBuilder], None], str]] = {
    "adds": ({}, lose_adds, "which exists, and which no commit adds"),
    "a remove": ({}, lose_a_remove, "which no commit removes"),
    "a remove, by the metrics": (COUNTED, lose_a_remove_that_is_counted, "0 of the 1 remove act"),
    "a remove, by the checksum": ({}, lose_a_remove_with_a_checksum, "the checksum file of its"),
    "a remove, by an odd checksum": (
        {},
        lose_a_remove_with_an_odd_checksum,
        "agrees with it (_delta_log/00000000000000000005.crc: numFiles is",
    ),
    "a copy": ({}, copy_over, "has the same bytes as"),
    "another table": ({}, copy_another_table_over, "which no commit has"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_stays(damage: str) -> None:
    info, damage_commits, evidence = DAMAGES[damage]
    builder = build(**info)
    damage_commits(builder)
    before = memory_of(builder).contents()
    for checkpoints in {damage == "another table", True}:  # which has files of the same names
        report = check(builder.store, checkpoints=checkpoints)
        (found,) = [r for r in report.findings.to_pylist() if r["code"] == "CHECKPOINT_DOUBTFUL"]
        assert (found["file"], found["version"]) == (NAME, 5)
        assert evidence in found["problem"]
        assert "CHECKPOINT_WRONG" not in codes(report)
    repaired = refused_repair(Table("x", store=builder.store))
    (finding,) = [it for it in repaired.findings if it.name == NAME]
    assert (finding.repaired, finding.is_refused) == (False, True)
    assert memory_of(builder).contents() == before


def test_a_file_that_does_not_exist_is_no_evidence() -> None:
    builder = build()
    (path,) = [a["add"]["path"] for a in builder.commits[2] if "add" in a]
    lose(builder, 2, "add")
    builder.store.delete_many([path])
    assert Table("x", store=builder.store).repair_checkpoints().all_repaired


def test_the_way_out_if_the_checkpoint_is_wrong() -> None:
    builder = build()
    lose_adds(builder)
    builder.store.delete_many([NAME])  # its user moved it out of the table
    table = Table("x", store=builder.store)
    assert table.repair_checkpoints().all_repaired
    assert table.snapshot().num_files == 5


def test_a_vacuum_refuses_before_and_after_the_refused_repair() -> None:
    builder = build()
    lose_a_remove(builder)
    table = Table("x", store=builder.store, warn=ignore_warning)
    for _ in range(2):
        with pytest.raises(SafetyError, match="lacks files that the commits contain") as caught:
            table.vacuum(retain="0s", force_retention=True)
        assert "If the repair refuses, restore the file" in (caught.value.hint or "")
        assert not refused_repair(table).all_repaired


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_vacuum_names_the_doubtful_commit_and_not_the_checkpoint(is_asked: bool) -> None:
    builder = build(**COUNTED)
    lose_a_remove(builder)
    options = VacuumOptions(mode="full", retain_ms=0, force_retention=True)
    run = partial(vacuum_table, confirm=(lambda _: True) if is_asked else None)
    before = memory_of(builder).contents()
    with pytest.raises(SafetyError, match=f"^{commit_path(4)} may be damaged: .* lacks files"):
        run_on(builder.store, run, options, warn=ignore_warning)
    assert memory_of(builder).contents() == before
    # Without a backup, `deltactl explain COMMIT_DOUBTFUL` says to move the commit.
    builder.store.delete_many([commit_path(4)])
    report = run_on(builder.store, run, options, dry_run=True)
    table = Table("x", store=builder.store)
    assert (report.plan.files.num_rows, table.snapshot().num_files) == (1, 6)


def test_a_cleanup_does_not_blame_the_checkpoint_if_a_person_trusts_the_commit() -> None:
    builder = build(**COUNTED)
    lose_a_remove_that_is_counted(builder)
    for version in range(6):
        age_ms = (100 - version) * DAY_MS
        memory_of(builder).set_modified(commit_path(version), NOW_MS - age_ms)
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return True

    run = partial(checkpoint_table, confirm=confirm, confirm_doubt=confirm)
    with pytest.raises(SafetyError, match="disagrees with the older log files") as caught:
        run_on(builder.store, run, CheckpointOptions(cleanup_only=True), clock=FixedClock(NOW_MS))
    assert "see `deltactl explain COMMIT_DOUBTFUL`" in str(caught.value.hint)
    assert "Is the commit right?" in asked[-1]


def test_a_compacted_file_stays_beside_a_doubtful_commit() -> None:
    builder = build(**COUNTED)
    builder.compact(3, 4)
    lose_a_remove(builder)
    before = memory_of(builder).contents()
    report = check(builder.store, checkpoints=True)
    assert "COMPACTED_WRONG" not in codes(report)
    assert any("may have lost actions" in note for note in report.notes)
    refused_repair(Table("x", store=builder.store))
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize("run", ["repair", "fix"])
def test_a_checksum_that_is_right_stays_beside_a_doubtful_commit(run: str) -> None:
    builder = build(**COUNTED)
    builder.store.delete_many([NAME, f"{LOG}/_last_checkpoint"])
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    lose_a_remove(builder)
    report = check(builder.store, checkpoints=True)
    repairs = {row["code"]: row["repair"] for row in report.findings.to_pylist()}
    assert repairs["CHECKSUM_WRONG"].startswith("keep this file")
    assert "keep all checkpoints and .crc files" in repairs["COMMIT_DOUBTFUL"]
    table, before = Table("x", store=builder.store), memory_of(builder).contents()
    if run == "repair":
        (finding,) = refused_repair(table).findings
        assert (finding.name, finding.repaired) == (name, False)
        assert commit_path(4) in finding.remedy
    else:
        assert table.fix(kind="checksum").num_left == 1
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize("lost", ["add", "remove"])
@pytest.mark.parametrize("run", ["repair", "fix"])
def test_a_checksum_that_is_right_stays_beside_a_commit_without_metrics(
    run: str, lost: str
) -> None:
    builder = build()
    builder.store.delete_many([NAME, f"{LOG}/_last_checkpoint"])
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    lose(builder, 4, lost)
    table, before = Table("x", store=builder.store), memory_of(builder).contents()
    if run == "repair":
        (finding,) = refused_repair(table).findings
        assert (finding.name, finding.repaired) == (name, False)
        assert "a commit may have lost actions that this file has" in finding.remedy
    else:
        assert table.fix(kind="checksum").num_left == 1
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize("lost", ["add", "remove"])
def test_a_compacted_file_that_is_right_stays_beside_a_commit_without_metrics(lost: str) -> None:
    builder = build()
    builder.store.delete_many([NAME, f"{LOG}/_last_checkpoint"])
    builder.compact(3, 5)
    lose(builder, 4, lost)
    before = memory_of(builder).contents()
    (row,) = check(builder.store).findings.to_pylist()
    assert row["code"] == "COMPACTED_WRONG"
    assert row["repair"].startswith("a commit may have lost actions that this file has")
    (finding,) = refused_repair(Table("x", store=builder.store)).findings
    assert (finding.name, finding.repaired) == (row["file"], False)
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_no_checksum_file_is_written_beside_a_doubtful_commit(has_checkpoint: bool) -> None:
    """It would have the error of the commit, and look like a proof."""
    builder = build(**COUNTED)
    if not has_checkpoint:
        builder.store.delete_many([NAME, f"{LOG}/_last_checkpoint"])
    lose_a_remove(builder)
    before = memory_of(builder).contents()
    report = Table("x", store=builder.store).fix(kind="checksum").to_dict()
    (row,) = report["files"]
    assert row["obstacle"].startswith(f"{commit_path(4)} may be wrong: restore it from a backup")
    assert memory_of(builder).contents() == before


def test_a_checkpoint_of_an_earlier_version_is_wrong() -> None:
    """Its files are in commits before the checkpoint on which the check is based."""
    builder = new_table()
    (first,) = builder.append([{"id": 1, "p": None}])
    builder.remove(first)
    builder.checkpoint(2)
    builder.append([{"id": 2, "p": None}])
    builder.append([{"id": 3, "p": None}])
    builder.checkpoint(4)
    wrong = f"{LOG}/{4:020d}.checkpoint.parquet"
    builder.checkpoint(1)
    old = f"{LOG}/{1:020d}.checkpoint.parquet"
    builder.store.put(wrong, builder.store.read(old))
    builder.store.delete_many([old])
    assert "CHECKPOINT_DOUBTFUL" not in codes(check(builder.store, checkpoints=True))
    table = Table("x", store=builder.store)
    assert table.repair_checkpoints().all_repaired
    assert table.snapshot().num_files == 2
