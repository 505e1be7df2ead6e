"""A checkpoint has the content of an older one, as after a wrong restore from a backup.

Commits show it, or version checksum files, which another writer wrote.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from deltactl.errors import DeltactlError, SafetyError, ignore_warning
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs
from tests.operations.vacuum.test_local import age
from tests.support.damage import check, codes, edit_action, edit_commit, measure
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path

pytestmark = pytest.mark.usefixtures("trusted_clock")

STALE = f"{LOG}/{3:020d}.checkpoint.parquet"
FORCED: dict[str, Any] = {"retain": "0s", "force_retention": True, "max_orphan_fraction": 1.0}


def checksum(version: int) -> str:
    return f"{LOG}/{version:020d}.crc"


def build(root: Path, *, first: int = 0, checksums: tuple[int, ...] = ()) -> TableBuilder:
    """Version 3 restored the file of row 1, which version 2 removed; version 4 added row 4.

    The checkpoint of version 3 is that of version 2. Commits before ``first`` are gone.
    """
    builder = TableBuilder(LocalStore(str(root)), [Column("id")])
    (path,) = builder.append([{"id": 1}])
    add = builder.find(path)
    builder.commit(builder.remove_action(path), builder.write_file([{"id": 2}]))
    builder.commit({"add": add})
    builder.append([{"id": 4}])
    for version in checksums:
        snapshot = DeltaLog(builder.store, ignore_warning).snapshot(version)
        write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    builder.checkpoint(2)
    old = f"{LOG}/{2:020d}.checkpoint.parquet"
    builder.store.put(STALE, builder.store.read(old))
    builder.store.delete_many([old])
    builder.hint(3)
    builder.forget_commits(first)
    age(root)
    return builder


def write_other_metadata(builder: TableBuilder, path: Path) -> Path:
    """Write the checksum file of a version with other properties."""
    snapshot = DeltaLog(builder.store, ignore_warning).snapshot(int(path.stem))
    write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    node = json.loads(path.read_text())
    node["metadata"]["configuration"] = {"a": "b"}
    path.write_text(json.dumps(node))
    return path


def describe(builder: TableBuilder, code: str, name: str, **options: bool) -> str:
    """Check; return the repair of a code, which is that of a file. Only checksums may be wrong."""
    report = check(builder.store, **options)
    assert {*codes(report)} <= {code, "CHECKSUM_WRONG"}
    rows = [row for row in report.findings.to_pylist() if row["code"] == code]
    assert {row["file"] for row in rows} == {name}
    return str(rows[0]["repair"])


@pytest.mark.parametrize("thorough", [False, True])
def test_the_commit_of_the_version_contradicts(tmp_path: Path, thorough: bool) -> None:
    """Log cleanup keeps this commit beside its checkpoint."""
    builder = build(tmp_path, first=3)
    repair = describe(builder, "CHECKPOINT_DOUBTFUL", STALE, checkpoints=thorough)
    assert "no other file of the log can rebuild version 3" in repair
    assert "--repair" not in repair
    with pytest.raises(SafetyError, match=r"3\.json: 1 files instead of 2"):
        Table(tmp_path).repair_checkpoints()
    with pytest.raises(SafetyError, match="lacks files that the commits contain"):
        Table(tmp_path).vacuum(**FORCED)
    with pytest.raises(SafetyError, match="disagrees with the older log files"):
        Table(tmp_path).restore(version=3)
    builder.store.put(STALE, b"")
    builder.checkpoint(3)
    assert codes(check(builder.store, checkpoints=thorough)) == []


@pytest.mark.parametrize("thorough", [False, True])
def test_the_checksum_of_the_checkpoint_contradicts(tmp_path: Path, thorough: bool) -> None:
    builder = build(tmp_path, first=4, checksums=(3,))
    repair = describe(builder, "CHECKPOINT_DOUBTFUL", STALE, checkpoints=thorough)
    assert repair.endswith(f"If the rows are right, move {checksum(3)} out of the table instead")
    with pytest.raises(SafetyError, match="3.crc: numFiles is 2, but the log has 1"):
        Table(tmp_path).repair_checkpoints()
    assert_vacuum_is_refused(tmp_path, "of its version: numFiles is 2, but the log has 1")
    (tmp_path / checksum(3)).unlink()  # the rows are right
    assert codes(check(builder.store, checkpoints=thorough)) == []
    assert Table(tmp_path).vacuum(**FORCED).files_removed == 1


def test_a_checksum_of_an_older_version_is_kept(tmp_path: Path) -> None:
    builder = build(tmp_path, first=3, checksums=(3,))
    report = check(builder.store, checkpoints=True, all_versions=True)
    assert codes(report) == ["CHECKPOINT_DOUBTFUL", "CHECKSUM_WRONG"]
    repairs = {row["repair"] for row in report.findings.to_pylist() if row["file"] == checksum(3)}
    assert len(repairs) == 1
    assert f"keep this file: it may be right, and {STALE} wrong" in repairs.pop()


@pytest.mark.parametrize("thorough", [False, True])
def test_the_checksum_of_the_latest_version_contradicts(tmp_path: Path, thorough: bool) -> None:
    builder = build(tmp_path, first=4, checksums=(4,))
    repair = describe(builder, "CHECKSUM_WRONG", checksum(4), checkpoints=thorough)
    assert f"keep this file: it may be right, and {STALE} wrong" in repair
    assert_vacuum_is_refused(tmp_path, "checkpoint of version 3: numFiles is 3, but the log has 2")


def test_optimize_warns_without_the_commits_and_vacuum_stays_refused(tmp_path: Path) -> None:
    """The new version has no checksum file. A checkpoint of it would hide the older one."""
    builder = build(tmp_path, first=4, checksums=(4,))
    said: list[str] = []
    assert Table(tmp_path, warn=said.append).optimize().versions == (5,)
    assert [text for text in said if "gone, so the checkpoint was used, as by all readers" in text]
    assert_vacuum_is_refused(tmp_path, "checkpoint of version 3: numFiles is 3, but the log has 2")
    with pytest.raises(SafetyError, match="numFiles is 3, but the log has 2"):
        Table(tmp_path).checkpoint()
    repair = describe(builder, "CHECKSUM_WRONG", checksum(4))
    assert f"keep this file: it may be right, and {STALE} wrong" in repair
    (tmp_path / checksum(5)).write_bytes(b"{")  # not valid: the one before it counts
    assert_vacuum_is_refused(tmp_path, "checkpoint of version 3: numFiles is 3, but the log has 2")
    (tmp_path / checksum(5)).unlink()
    assert Table(tmp_path).fix(kind="checksum").num_left == 1
    assert not (tmp_path / checksum(5)).exists()


def test_an_older_checkpoint_with_the_same_error_proves_nothing(tmp_path: Path) -> None:
    builder = build(tmp_path, first=4, checksums=(4,))
    DeltaTable(tmp_path).create_checkpoint()
    builder.append([{"id": 5}])
    assert_vacuum_is_refused(tmp_path, "of its version: numFiles is 3, but the log has 2")
    repair = describe(builder, "CHECKSUM_WRONG", checksum(4))
    assert "keep this file: it may be right" in repair
    with pytest.raises(DeltactlError, match="unknown whether this file or .*4.checkpoint.parq"):
        Table(tmp_path).repair_checkpoints()
    assert (tmp_path / checksum(4)).exists()


def test_a_later_checkpoint_is_not_compared_with_a_doubtful_one(tmp_path: Path) -> None:
    builder = build(tmp_path, first=3)
    builder.append([{"id": 5}])
    builder.checkpoint(5)
    describe(builder, "CHECKPOINT_DOUBTFUL", STALE, checkpoints=True)
    assert Table(tmp_path, warn=pytest.fail).vacuum(**FORCED).files_removed == 0


@pytest.mark.parametrize("is_latest", [False, True])
def test_check_says_which_metadata_stop_a_vacuum(tmp_path: Path, is_latest: bool) -> None:
    builder = build(tmp_path, first=3 if is_latest else 4)
    builder.checkpoint(3)
    version = 3
    if is_latest:
        version = builder.version
        DeltaTable(tmp_path).create_checkpoint()
        builder.forget_commits(4)
    name = write_other_metadata(builder, tmp_path / checksum(version))
    assert_vacuum_is_refused(tmp_path, "metadata differs from the log")
    (row, *_) = check(builder.store).findings.to_pylist()
    assert row["code"] == ("CHECKSUM_WRONG" if is_latest else "CHECKPOINT_DOUBTFUL")
    what = (
        "they are right, move this file" if is_latest else f"the rows are right, move {name.name}"
    )
    assert f"If {what} out of the table" in row["repair"].replace(f"{LOG}/", "")
    name.unlink()
    assert Table(tmp_path, warn=pytest.fail).vacuum(**FORCED).files_removed == 0


@pytest.mark.parametrize(
    "change",
    [
        {"domainMetadata": [{"domain": "x", "configuration": "{}", "removed": False}]},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": []}},
    ],
)
def test_what_says_nothing_about_files_stops_no_vacuum(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    builder = build(tmp_path, first=4)
    builder.checkpoint(3)
    snapshot = DeltaLog(builder.store, ignore_warning).snapshot(3)
    write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    name = tmp_path / checksum(3)
    name.write_text(json.dumps(json.loads(name.read_text()) | change))
    assert Table(tmp_path, warn=pytest.fail).vacuum(**FORCED).files_removed == 0


@pytest.mark.parametrize("run", [Table.optimize, Table.checkpoint, Table.vacuum])
def test_the_checksum_and_the_commits_contradict(
    tmp_path: Path, run: Callable[[Table], object]
) -> None:
    """A run would write a checkpoint, and a checksum file that agrees with it."""
    builder = build(tmp_path, checksums=(4,))
    repair = describe(builder, "CHECKPOINT_WRONG", STALE)
    assert "--repair" in repair
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SafetyError, match="disagrees with the older log files: 1 files instead"):
        run(Table(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    Table(tmp_path).repair_checkpoints()
    assert sorted(row["id"] for row in rows_with_delta_rs(tmp_path)) == [1, 2, 4]
    assert codes(check(builder.store)) == []


def test_a_wrong_checksum_beside_a_proven_checkpoint(tmp_path: Path) -> None:
    builder = build(tmp_path, checksums=(4,))
    builder.checkpoint(3)
    measure(builder)
    name = tmp_path / checksum(4)
    name.write_text(name.read_text().replace('"numFiles":3', '"numFiles":7'))
    report = check(builder.store)
    assert codes(report) == []
    assert any("numFiles is 7, but the log has 3; readers do not need" in it for it in report.notes)
    said: list[str] = []
    assert Table(tmp_path, warn=said.append).vacuum(**FORCED).files_removed == 0
    assert len(said) == 1
    assert "4.crc of " in said[0]
    assert "disagrees with the commits: numFiles is 7, but the log has 3. If a commit" in said[0]


@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize(
    "metrics", [None, {}, {"executionTimeMs": "1"}, {"numRemovedFiles": "0"}, {"numFiles": "1"}]
)
def test_a_commit_without_metrics_may_have_lost_a_file(
    tmp_path: Path, has_checkpoint: bool, later: int, metrics: dict[str, str] | None
) -> None:
    """Version 3 restored a removed file. If it lost this, only the checksum file has it."""
    builder = build(tmp_path, checksums=(4,))
    measure(builder)
    edit_action(builder, 3, "commitInfo", operationMetrics=metrics)
    builder.store.delete_many([STALE, HINT_NAME])
    if has_checkpoint:
        builder.checkpoint(1)
    commit = builder.store.read(commit_path(3))
    edit_commit(builder, 3, lambda action: None if "add" in action else action)
    for _ in range(later):
        builder.append([{"id": 5}])
    age(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SafetyError, match="with the commits: numFiles is 3, but the log has 2"):
        Table(tmp_path).checkpoint()
    for mode in ("full", "lite"):
        assert_vacuum_is_refused(tmp_path, "commits: numFiles is 3, but the log has 2", mode=mode)
    if later:
        assert Table(tmp_path).fix(kind="checksum").num_left == 1
    notes = check(builder.store).notes
    assert any("vacuum and checkpoint are refused because of" in note for note in notes)
    for options in ({"checkpoints": True}, {"checkpoints": True, "all_versions": True}):
        repair = describe(builder, "CHECKSUM_WRONG", checksum(4), **options)
        assert (
            "has no operationMetrics that show that it is complete. If the commits are complete"
            in repair
        )
    assert sorted(tmp_path.rglob("*")) == before
    builder.store.put(commit_path(3), commit)
    assert Table(tmp_path).vacuum(**FORCED).files_removed == 0
    assert 1 in {row["id"] for row in rows_with_delta_rs(tmp_path)}


@pytest.mark.parametrize("base", ["unproven checkpoint", "checkpoint", "commits"])
def test_all_checksums_that_stop_a_vacuum_are_reported_at_once(tmp_path: Path, base: str) -> None:
    builder = build(tmp_path)
    if base == "commits":
        builder.store.delete_many([STALE, HINT_NAME])
    else:
        builder.checkpoint(3)
    for number in range(5, 9):
        builder.append([{"id": number}])
    for version in range(3, 9):
        snapshot = DeltaLog(builder.store, ignore_warning).snapshot(version)
        write_checksum(builder.store, snapshot, snapshot.num_files + 1, snapshot.size_bytes)
    if base == "unproven checkpoint":
        builder.forget_commits(4)
    age(tmp_path)
    assert_vacuum_is_refused(tmp_path, r"numFiles is \d, but the log has \d")
    report = check(builder.store, checkpoints=base != "unproven checkpoint")
    found = {row["file"] for row in report.findings.to_pylist()}
    first = STALE if base == "unproven checkpoint" else checksum(3)
    assert found == {first, *map(checksum, range(4, 9))}
    for version in range(3, 9):  # the rows are right
        (tmp_path / checksum(version)).unlink()
    assert Table(tmp_path, warn=pytest.fail).vacuum(**FORCED).files_removed == 0


def test_a_checksum_that_a_vacuum_warns_of_is_found_and_repaired(tmp_path: Path) -> None:
    builder = build(tmp_path, checksums=(4,))
    builder.checkpoint(3)
    measure(builder)
    snapshot = DeltaLog(builder.store, ignore_warning).snapshot(3)
    write_checksum(builder.store, snapshot, snapshot.num_files + 1, snapshot.size_bytes)
    said: list[str] = []
    Table(tmp_path, warn=said.append).vacuum(**FORCED)
    assert len(said) == 1
    assert "3.crc of " in said[0]
    assert any("3.crc: numFiles is " in note for note in check(builder.store).notes)
    repair = describe(builder, "CHECKSUM_WRONG", checksum(3), checkpoints=True)
    assert repair.startswith(f"move {checksum(3)} out of the table")
    assert Table(tmp_path).repair_checkpoints().all_repaired
    assert not (tmp_path / checksum(3)).exists()
    assert Table(tmp_path, warn=pytest.fail).vacuum(**FORCED).files_removed == 0


def test_a_later_checkpoint_of_another_writer_hides_nothing_from_a_thorough_check(
    tmp_path: Path,
) -> None:
    builder = build(tmp_path, checksums=(4,))
    builder.store.delete_many([STALE, HINT_NAME])
    edit_commit(builder, 3, lambda action: None if "add" in action else action)
    builder.append([{"id": 5}])
    DeltaTable(tmp_path).create_checkpoint()
    repair = describe(builder, "CHECKSUM_WRONG", checksum(4), checkpoints=True)
    assert "a commit may have lost actions that this file has" in repair


@pytest.mark.parametrize("version", [3, 4])
def test_other_metadata_after_a_checkpoint_that_is_not_proven(tmp_path: Path, version: int) -> None:
    """The repair of checkpoints would refuse."""
    builder = build(tmp_path)
    builder.checkpoint(2)
    builder.store.delete_many([STALE])
    builder.hint(2)
    builder.forget_commits(3)
    name = write_other_metadata(builder, tmp_path / checksum(version))
    repair = describe(builder, "CHECKSUM_WRONG", checksum(version))
    assert repair.startswith("keep this file: it may be right, and ")
    name.unlink()
    assert codes(check(builder.store)) == []


@pytest.mark.parametrize("feature", ["v2Checkpoint", "deletionVectors"])
def test_a_drop_of_a_feature_is_refused_before_its_first_commit(
    tmp_path: Path, feature: str
) -> None:
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")], features=[feature])
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    Table(tmp_path).checkpoint()
    snapshot = DeltaLog(builder.store, ignore_warning).snapshot()
    write_checksum(builder.store, snapshot, snapshot.num_files + 1, snapshot.size_bytes)
    builder.forget_commits(2)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SafetyError, match="numFiles is 3, but the log has 2"):
        Table(tmp_path).alter(drop_feature=feature)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_purge_of_the_quarantine_is_refused(tmp_path: Path) -> None:
    builder = build(tmp_path, first=4)
    assert Table(tmp_path).vacuum(**FORCED, quarantine=True, quarantine_for="0s").files_removed == 1
    snapshot = DeltaLog(builder.store, ignore_warning).snapshot()
    write_checksum(builder.store, snapshot, snapshot.num_files + 1, snapshot.size_bytes)
    with pytest.raises(DeltactlError, match="numFiles is 3, but the log has 2"):
        Table(tmp_path).purge_quarantine(force_retention=True)


def assert_vacuum_is_refused(root: Path, problem: str, **options: Any) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(SafetyError, match=problem) as caught:
        Table(root).vacuum(**FORCED, **options)
    assert "Run `deltactl check" in str(caught.value.hint)
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("member", ["metadata", "numFiles"])
def test_each_checksum_file_may_show_a_loss(tmp_path: Path, member: str) -> None:
    """That of the checkpoint shows none: commits with metrics prove the checkpoint right."""
    builder = build(tmp_path, checksums=(4,))
    measure(builder)
    edit_action(builder, 3, "commitInfo", operationMetrics={})
    builder.store.delete_many([STALE, HINT_NAME])
    builder.checkpoint(1)
    edit_commit(builder, 3, lambda action: None if "add" in action else action)
    name = write_other_metadata(builder, tmp_path / checksum(1))
    if member == "numFiles":
        name.unlink()
        write_checksum(builder.store, DeltaLog(builder.store, ignore_warning).snapshot(1), 9, 9)
    age(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    table = Table(tmp_path, warn=ignore_warning)
    problem = "with the commits: numFiles is 3, but the log has 2"
    with pytest.raises(SafetyError, match=problem):
        table.checkpoint()
    for mode in ("full", "lite"):
        with pytest.raises(SafetyError, match=problem):
            table.vacuum(**FORCED, mode=mode)
    assert sorted(tmp_path.rglob("*")) == before
