"""`check`: each kind of damage is found under its code, and its sound twin is not."""

import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltactl.clock import SystemClock
from deltactl.codes import load_findings
from deltactl.errors import CorruptLogError, LogGapError, UsageError, ignore_warning
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.table import Table
from tests.operations.check.damages import (
    DAMAGES,
    HINT,
    Damage,
    edit_vector,
    flip_a_vector,
    garble_a_name_in_a_checkpoint,
    lengthen_a_file,
    lose_tombstones,
    remove_by_path_alone,
    tear_the_hint,
    write_sum,
)
from tests.support.checkpoints import fail, memory_of, new_table
from tests.support.damage import (
    DEEP,
    check,
    codes,
    edit_action,
    edit_commit,
    edit_parquet,
    edit_stats,
    flip,
    measure,
    only_file,
    table,
    true_stats,
)
from tests.support.stores import MemoryStore
from tests.support.table_builder import (
    LOG,
    START_MS,
    Column,
    TableBuilder,
    commit_path,
    encode_lines,
)
from tests.support.table_samples import FEATURES, LAYOUTS, SHAPES, build_sample


def test_the_table_that_gets_damaged_is_valid() -> None:
    report = check(table().store, **DEEP)
    assert report.findings.to_pylist() == []
    assert report.notes == ()
    counts = report.counts
    assert (counts.num_commits, counts.num_files, counts.num_checked) == (5, 3, 3)
    assert (counts.num_rows, counts.num_vectors) == (24, 1)


@pytest.mark.parametrize(
    ("code", "damage"),
    [pytest.param(code, damage, id=f"{code}-{what}") for code, what, damage in DAMAGES],
)
def test_damage_is_found_under_its_code(code: str, damage: Damage) -> None:
    builder = table()
    damage(builder)
    before = memory_of(builder).contents()
    report = check(builder.store, **DEEP)
    assert codes(report) == [code]
    (row,) = report.findings.to_pylist()[:1]
    assert row["severity"] == load_findings()[code].severity
    assert row["meaning"] == load_findings()[code].effect
    assert "{" not in row["repair"]
    assert row["problem"]
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize("depth", [Depth.SIZES, Depth.DATA])
def test_a_checkpoint_that_breaks_further_in_is_left_aside(depth: Depth) -> None:
    builder = table()
    garble_a_name_in_a_checkpoint(builder)
    report = check(builder.store, depth=depth)
    assert codes(report) == ["CHECKPOINT_UNREADABLE"]
    assert report.counts.num_checked == 3  # by the commits
    before = report.findings
    builder.forget_commits(4)
    report = check(builder.store, depth=depth)
    assert codes(report) == ["CHECKPOINT_UNREADABLE", "LOG_GAP"]
    repairs = [r["repair"].split()[0] for r in (*before.to_pylist(), *report.findings.to_pylist())]
    assert repairs == ["deltactl", "cannot", "cannot"]
    assert report.version is None


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize(
    ("kind", "harmed", "size"),
    [
        ("v2-json", "/_sidecars/", None),
        ("v2-parquet", "/_sidecars/", 3),
        ("v2-json", ".checkpoint.", 3),
        ("multipart", "0002.0000000002.parquet", 3),
    ],
)
def test_the_file_of_a_checkpoint_to_restore_is_named(
    kind: str, harmed: str, size: int | None, checkpoints: bool
) -> None:
    builder = new_table(features=["v2Checkpoint"])
    builder.append(*([{"id": n}] for n in range(4)))
    builder.checkpoint(kind=kind, parts=2)
    builder.forget_commits(1)
    store = memory_of(builder)
    checkpoint_files = [name for name in store.contents() if name.startswith(LOG)]
    *_, name = sorted(name for name in checkpoint_files if harmed in name)
    original = store.read(name)
    if size is None:
        store.delete_many([name])
    else:
        store.put(name, original[:-size])
    rows = check(store, checkpoints=checkpoints).findings.to_pylist()
    (repair,) = (r["repair"] for r in rows if r["code"] == "CHECKPOINT_UNREADABLE")
    start = f"cannot be repaired: restore {name}, or the commits before the checkpoint, from"
    assert repair.startswith(start)
    assert repair.endswith("from a backup")
    store.put(name, original)
    assert codes(check(store, checkpoints=checkpoints)) == []


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize(("later", "lost"), [(1, "version 1"), (3, "versions 1 to 3")])
def test_a_checkpoint_that_no_later_version_needs_may_go(
    later: int, lost: str, checkpoints: bool
) -> None:
    builder = table()
    builder.checkpoint(1)
    builder.checkpoint(later + 1)
    builder.forget_commits(1)
    name = f"{LOG}/{1:020d}.checkpoint.parquet"
    builder.store.put(name, builder.store.read(name)[:-20])
    rows = check(builder.store, checkpoints=checkpoints).findings.to_pylist()
    (repair,) = {row["repair"] for row in rows}
    assert f"If there is none, {lost} cannot be read any longer, but later versions" in repair
    assert repair.endswith(f"move {name} out of the table")
    builder.store.delete_many([name])
    assert codes(check(builder.store, checkpoints=checkpoints)) == []


def identity(mark: int | None, *, step: int = 1, explicit: bool = False) -> TableBuilder:
    metadata: dict[str, Any] = {
        "delta.identity.start": 1,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": explicit,
    }
    if mark is not None:
        metadata["delta.identity.highWaterMark"] = mark
    builder = new_table(Column("id", metadata=metadata), features=["identityColumns"])
    rows = [{"id": 4 * step}, {"id": 5 * step}]
    builder.append(rows, stats=true_stats(rows, ["id"]))
    return builder


@pytest.mark.parametrize(
    ("builder", "found"),
    [
        (identity(5), []),
        (identity(9), []),
        (identity(4), ["IDENTITY_MARK"]),
        (identity(None), ["IDENTITY_MARK"]),
        (identity(-5, step=-1), []),
        (identity(-4, step=-1), ["IDENTITY_MARK"]),
        (identity(4, explicit=True), []),
    ],
)
def test_marks_of_identity_columns_below_their_values_are_found(
    builder: TableBuilder, found: list[str]
) -> None:
    assert codes(check(builder.store)) == found


def timed() -> TableBuilder:
    builder = new_table(Column("id"), features=["inCommitTimestamp"])
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    return builder


@pytest.mark.parametrize("is_noted", [True, False])
def test_commits_that_are_older_than_the_first_one(is_noted: bool) -> None:
    """A table was created again, and copied over a copy that has later commits of the first one."""
    builder = new_table(Column("id"))
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    edit_action(builder, 2, "commitInfo", timestamp=START_MS - (60_001 if is_noted else 60_000))
    edit_action(builder, 0, "commitInfo", timestamp=START_MS)
    report = check(builder.store)
    assert report.is_sound
    notes = [note for note in report.notes if "1 commit is dated before commit 0" in note]
    assert len(notes) == is_noted


@pytest.mark.parametrize("ahead_ms", [3_000_000, 4_000_000])
def test_a_newest_commit_in_the_future(ahead_ms: int) -> None:
    builder = table()
    now_ms = SystemClock().now_ms()
    edit_action(builder, builder.version, "commitInfo", timestamp=now_ms + ahead_ms)
    report = Table("x", store=builder.store).check()
    noted = any("dated more than an hour in the future, such as" in it for it in report.notes)
    assert (report.is_sound, noted) == (True, ahead_ms > 3_600_000)


@pytest.mark.parametrize("late_ms", [3_600_000, 3_600_001])
def test_a_commit_that_is_later_than_the_next_one(late_ms: int) -> None:
    """A tool copied a commit of a copy of the table over commit 1."""
    builder = new_table(Column("id"))
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    edit_action(builder, 1, "commitInfo", timestamp=START_MS + late_ms)
    edit_action(builder, 2, "commitInfo", timestamp=START_MS)
    notes = [note for note in check(builder.store).notes if "such as commit 1" in note]
    assert len(notes) == (late_ms > 3_600_000)


@pytest.mark.parametrize("time", [None, 5])
def test_in_commit_timestamps(time: int | None) -> None:
    assert codes(check(timed().store, **DEEP)) == []
    builder = timed()
    edit_action(builder, 2, "commitInfo", inCommitTimestamp=time)
    assert codes(check(builder.store)) == ["COMMIT_TIME"]


def test_the_newest_commit_lacks_its_timestamp() -> None:
    builder = timed()
    edit_action(builder, 2, "commitInfo", inCommitTimestamp=None)
    (row,) = check(builder.store).findings.to_pylist()
    setting = "--set delta.enableInCommitTimestamps=false"
    assert setting in row["repair"]
    table = Table("x", store=builder.store)
    with pytest.raises(CorruptLogError, match="has no inCommitTimestamp") as caught:
        table.optimize()
    assert setting in str(caught.value.hint)
    for value in ("false", "true"):
        table.alter(properties={"delta.enableInCommitTimestamps": value})
    assert table.optimize().versions
    assert codes(check(builder.store, **DEEP)) == []


def test_a_hint_with_a_wrong_checksum_names_no_checkpoint() -> None:
    """delta-rs and DuckDB do not compare the checksum."""
    builder = table()
    builder.checkpoint(3)
    builder.store.put(HINT, b'{"version": 4, "size": 1, "checksum": "0"}')
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["file"]) == ("HINT_WRONG", HINT)
    assert "does not match its own checksum" in row["problem"]
    assert row["problem"].endswith("delta-rs and DuckDB cannot open the table")
    builder.store.put(HINT, b'{"version": 3, "size": 1, "checksum": "0"}')
    assert codes(check(builder.store)) == []


def test_the_newest_checksum_is_of_an_older_version() -> None:
    builder = table()
    snapshot = DeltaLog(builder.store, ignore_warning).snapshot(3)
    write_checksum(builder.store, snapshot, 7, snapshot.size_bytes)
    assert codes(check(builder.store)) == []
    (row,) = check(builder.store, checkpoints=True).findings.to_pylist()
    assert (row["code"], row["version"]) == ("CHECKSUM_WRONG", 3)
    assert "numFiles is 7, but the log has 3" in row["problem"]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"cardinality": 99}, ["VECTOR_CARDINALITY"]),
        ({"pathOrInlineDv": "no uuid"}, ["VECTOR_UNREADABLE"]),
        ({"sizeInBytes": 4000}, ["VECTOR_UNREADABLE"]),
        ({"storageType": "p", "pathOrInlineDv": "memory://checkpoints/x.bin"}, ["VECTOR_MISSING"]),
        ({"storageType": "p", "pathOrInlineDv": "../x.bin"}, ["PATH_INVALID"]),
    ],
)
def test_vectors_that_need_not_be_decoded(changes: dict[str, Any], found: list[str]) -> None:
    builder = table()
    edit_vector(builder, **changes)
    assert codes(check(builder.store)) == found


def test_an_inline_vector_that_is_no_text_of_bytes() -> None:
    builder = table()
    edit_vector(builder, storageType="i", pathOrInlineDv="$", sizeInBytes=1)
    assert codes(check(builder.store, **DEEP)) == ["VECTOR_UNREADABLE"]


@pytest.mark.parametrize("path", ["", "a/", "a/../../b", "..", "a%00b"])
def test_paths_that_name_no_file(path: str) -> None:
    builder = table()
    edit_action(builder, 3, "add", path=path)
    assert codes(check(builder.store, **DEEP)) == ["PATH_INVALID"]


@pytest.mark.parametrize("size", [None, -1])
def test_sizes_that_are_none(size: int | None) -> None:
    builder = table()
    edit_action(builder, 3, "add", size=size)
    expected = ["COMMIT_UNREADABLE", "FILE_SIZE"] if size is None else ["FILE_SIZE"]
    assert codes(check(builder.store)) == expected


def test_checksums_of_all_versions() -> None:
    builder = table()
    for version, error in ((2, 1), (3, 0)):
        snapshot = DeltaLog(builder.store, fail).snapshot(version)
        write_checksum(builder.store, snapshot, snapshot.num_files + error, snapshot.size_bytes)
    assert check(builder.store, **DEEP).is_sound
    report = check(builder.store, all_versions=True, **DEEP)
    assert report.findings["version"].to_pylist() == [2]
    assert codes(report) == ["CHECKSUM_WRONG"]
    assert report.counts.num_checksums == 2


def test_the_histogram_of_sizes_has_the_bins_of_delta_on_spark() -> None:
    """The bins as Delta on Spark 4.4 wrote them: 95, and some of their first sizes."""
    builder = new_table(Column("id"))
    builder.commit(*(builder.write_file([{"id": 1}], pad=size) for size in (9000, 9001, 40_000)))
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    found = json.loads(builder.store.read(name or ""))["fileSizeHistogram"]
    edges = found["sortedBinBoundaries"]
    assert (len(edges), edges[1], edges[20], edges[75], edges[-1]) == (
        *(95, 8 << 10, 48 << 20, 1408 << 20),
        256 << 30,
    )
    assert found["fileCounts"][:4] == [0, 2, 0, 1]
    small, same, large = sorted(snapshot.files["size_bytes"].to_pylist())
    assert found["totalBytes"][:4] == [0, small + same, 0, large]


@pytest.mark.parametrize(
    "member",
    ["domainMetadata", "setTransactions", "fileSizeHistogram", "numMetadata", "numProtocol"],
)
def test_members_of_a_checksum(member: str) -> None:
    builder = new_table(Column("id"), features=["domainMetadata"], domains={"d": "{}"})
    builder.commit({"txn": {"appId": "a", "version": 3}})
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, 0, 0)
    assert name is not None
    assert codes(check(builder.store, checkpoints=True)) == []
    node = json.loads(builder.store.read(name))
    for left, found in (([], ["CHECKSUM_WRONG"]), (None, [])):
        changed = {**node, member: left}
        builder.store.put(name, json.dumps(changed).encode())
        assert codes(check(builder.store, checkpoints=True)) == found


def test_a_checksum_with_another_timestamp_misleads_readers() -> None:
    """Delta on Spark takes the in-commit timestamp from it, also without the commit."""
    builder = new_table(Column("id"), features=["inCommitTimestamp"])
    builder.append([{"id": 1}])
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    assert name is not None
    node = json.loads(builder.store.read(name))
    right = node["inCommitTimestampOpt"]
    for said, expected in ((right, []), (None, []), (right + 1, ["CHECKSUM_WRONG"])):
        changed = {**node, "inCommitTimestampOpt": said}
        builder.store.put(name, json.dumps(changed).encode())
        assert codes(check(builder.store)) == expected
    Table("x", store=builder.store).fix(kind="checksum")
    assert json.loads(builder.store.read(name)) == node
    builder.checkpoint(builder.version)
    changed = {**node, "inCommitTimestampOpt": right + 1}
    builder.store.put(name, json.dumps(changed).encode())
    builder.store.delete_many([commit_path(builder.version)])
    assert "CHECKSUM_WRONG" not in codes(check(builder.store))


def test_a_checksum_with_another_schema_misleads_readers() -> None:
    builder = new_table(Column("id"))
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, 0, 0)
    builder.change_metadata(columns=[Column("id"), Column("name")])
    builder.store.put(f"{LOG}/{1:020d}.crc", builder.store.read(name or ""))
    assert codes(check(builder.store)) == ["CHECKSUM_WRONG"]


def test_an_older_checksum_with_another_schema_misleads_readers() -> None:
    """delta-rs and DuckDB use its actions, unless a later commit or checkpoint has them."""
    builder = new_table(Column("id"))
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    before = DeltaLog(builder.store, fail).snapshot(1)
    name = write_checksum(builder.store, before, before.num_files, before.size_bytes)
    assert codes(check(builder.store)) == []
    data = builder.store.read(name or "")
    builder.store.put(name or "", data.replace(rb"\"id\"", rb"\"other\""))
    for options in ({}, {"checkpoints": True, "all_versions": True}):
        (row,) = check(builder.store, **options).findings.to_pylist()
        assert (row["code"], row["version"], row["file"]) == ("CHECKSUM_WRONG", 1, name)
        assert "delta-rs and DuckDB use it for later versions" in row["problem"]
        assert row["repair"].endswith("--repair")
    (finding,) = Table("x", store=builder.store).repair_checkpoints(dry_run=True).findings
    assert finding.name == name
    builder.change_metadata(columns=[Column("id"), Column("name")])
    assert codes(check(builder.store)) == [], "a later commit has the metaData"


@pytest.mark.parametrize("is_later", [False, True])
def test_a_checkpoint_hides_an_older_checksum(is_later: bool) -> None:
    builder = new_table(Column("id"))
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, 0, 0)
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    data = builder.store.read(name or "")
    builder.store.put(name or "", data.replace(rb"\"id\"", rb"\"other\""))
    if is_later:
        builder.checkpoint(1)
        builder.hint(1)
    assert codes(check(builder.store)) == ["CHECKSUM_WRONG"] * (not is_later)
    repaired = Table("x", store=builder.store).repair_checkpoints()
    assert len(repaired.findings) == (not is_later)


def test_a_remove_by_path_alone_names_its_writer() -> None:
    builder = table()
    remove_by_path_alone(builder)
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["version"]) == ("REMOVE_MISSED", 5)
    assert row["problem"].startswith("version 5 (by 'Rewriter/1') removed the file, but with")
    assert "`deltactl explain REMOVE_MISSED`" in row["repair"]
    assert codes(check(builder.store, version=4)) == [], "no later commit counts"


def test_a_delete_that_removes_by_path_alone_leaves_the_file_live_twice() -> None:
    """trinodb/trino#31253: rows that were deleted are there, and the others twice."""
    builder = table()
    path = next(path for path, vector in builder.state.files if vector)
    remove, add = builder.delete_actions(path, [0, 1, 2])
    del remove["remove"]["deletionVector"]
    builder.commit(remove, add, engineInfo="Rewriter/1")
    rows = {row["code"]: row for row in check(builder.store).findings.to_pylist()}
    assert rows.keys() == {"FILE_DUPLICATE", "REMOVE_MISSED"}
    assert "version 5 (by 'Rewriter/1') added the newest" in rows["FILE_DUPLICATE"]["problem"]


def test_two_commits_that_only_remove_a_file_leave_no_rows() -> None:
    builder = table()
    action = builder.remove_action("p=1/f00002.parquet")
    builder.commit(action)
    builder.commit(action)
    assert codes(check(builder.store, **DEEP)) == []


def test_a_file_that_was_removed_rightly_and_restored_is_not_missed() -> None:
    builder = table()
    path = next(path for path, vector in builder.state.files if vector)
    before = builder.find(path)
    builder.commit(builder.remove_action(path), {"add": {**before, "deletionVector": None}})
    builder.delete_rows(path, [3])
    builder.commit(builder.remove_action(path), {"add": before})
    assert codes(check(builder.store)) == []


def test_a_checkpoint_by_path_alone_loses_a_file_with_a_vector() -> None:
    """trinodb/trino#31252: found without comparing checkpoints."""
    builder = table()
    path = next(path for path, vector in builder.state.files if vector)
    builder.checkpoint()
    name = only_file(builder, ".checkpoint.parquet")

    def lose(actions: list[Any]) -> list[Any]:
        return [a for a in actions if not a["add"] or a["add"]["path"] != path]

    edit_parquet(builder.store, name, lose)
    for code in ("CHECKPOINT_WRONG", "CHECKPOINT_DOUBTFUL"):
        (row,) = check(builder.store).findings.to_pylist()
        assert (row["code"], row["version"], row["file"]) == (code, 4, name)
        assert "2 files instead of 3" in row["problem"]
        builder.forget_commits(1)  # without commit 0, the checkpoint is not proven wrong


def test_a_checkpoint_with_an_older_vector_of_a_file_is_wrong() -> None:
    builder = table()
    path = next(path for path, vector in builder.state.files if vector)
    older = builder.find(path)["deletionVector"]
    builder.delete_rows(path, [3])
    builder.checkpoint()
    name = only_file(builder, ".checkpoint.parquet")

    def edit(actions: list[Any]) -> list[Any]:
        for action in actions:
            if action["add"] and action["add"]["path"] == path:
                action["add"]["deletionVector"] = older
        return actions

    edit_parquet(builder.store, name, edit)
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["version"], row["file"]) == ("CHECKPOINT_WRONG", 5, name)
    assert "it lacks 1 file with" in row["problem"]
    assert "version 5 (" in row["problem"]


def test_every_code_is_provoked() -> None:
    """The tests above name each code of the registry."""
    elsewhere = {"ROW_IDS_MISSING", "ROW_IDS_OVERLAP", "ROW_IDS_MARK", "IDENTITY_MARK"}
    elsewhere |= {"COMMIT_TIME", "SCHEMA_INVALID", "PATH_ENCODING", "PATH_ENCODING_DOUBTFUL"}
    # test_proofs.py, test_archived.py, test_uncommitted.py
    elsewhere |= {"ROWS_CHANGED", "FILE_ARCHIVED", "FILE_UNCOMMITTED"}
    elsewhere |= {
        f"CATALOG_{what}" for what in ("LOCATION", "ID", "COLUMNS", "MANIFESTS", "NAMES")
    }  # tests/cli
    elsewhere |= {"COMMIT_NOT_RATIFIED", "COMMITS_NOT_PUBLISHED", "STAGED_NOT_RATIFIED"}
    assert {code for code, _, _ in DAMAGES} | elsewhere == load_findings().keys()


# Every shape with few features, and every feature under one shape.
_SAMPLES = [
    *((shape, "deletion-vectors") for shape in SHAPES if not shape.startswith("v2")),
    *((shape, "v2-checkpoint") for shape in SHAPES if shape.startswith("v2")),
    *(("checkpoint-and-compacted", features) for features in FEATURES),
]


@pytest.mark.parametrize(("shape", "features"), _SAMPLES)
def test_valid_tables_give_no_findings(shape: str, features: str) -> None:
    layout = list(LAYOUTS)[len(shape) % len(LAYOUTS)]
    store = MemoryStore(f"memory://check/{shape}-{features}")
    build_sample(store, shape=shape, features=features, layout=layout)
    report = check(store, all_versions=True, **DEEP)
    expected = ["HINT_WRONG"] if shape == "misleading-hint" else []
    assert codes(report) == expected, report.findings.to_pylist()


def test_a_checkpoint_without_any_commit() -> None:
    """A log cleanup keeps the commit of the checkpoint, without which Spark cannot open it."""
    builder = table()
    builder.checkpoint()
    builder.forget_commits(5)
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["version"]) == ("HISTORY_GAP", 4)
    assert "--set deltactl.versionAfter=4" in row["repair"]


@pytest.mark.parametrize("options", [{}, {"checkpoints": True}], ids=["plain", "checkpoints"])
def test_an_empty_checkpoint_is_found(options: dict[str, bool]) -> None:
    builder = table()
    name = f"{LOG}/{3:020d}.checkpoint.parquet"
    builder.store.put(name, b"")
    report = check(builder.store, **options)
    assert codes(report) == ["CHECKPOINT_UNREADABLE"]
    repair = f"deltactl checkpoint {builder.store.uri} --repair"
    assert report.findings["repair"].to_pylist() == [repair]


def test_an_empty_checkpoint_beyond_the_newest_commit_shows_a_loss() -> None:
    builder = table()
    name = f"{LOG}/{5:020d}.checkpoint.parquet"
    builder.store.put(name, b"")
    report = check(builder.store)
    assert codes(report) == ["CHECKPOINT_UNREADABLE", "LOG_GAP"]
    assert all("restore" in text for text in report.findings["repair"].to_pylist())
    with pytest.raises(LogGapError, match=f"{name} names version 5"):
        DeltaLog(builder.store, fail).ensure_newest()
    Table("x", store=builder.store, warn=fail).fix(kind="last-checkpoint")
    assert codes(check(builder.store)) == []


@pytest.mark.parametrize("content", [None, b"", b"no checkpoint"])
def test_no_command_is_a_repair_until_the_log_is_restored(content: bytes | None) -> None:
    """All checkpoints after a log cleanup are lost, empty or damaged."""
    builder = table()
    builder.checkpoint()
    builder.hint(builder.version)
    builder.append([{"id": 9, "name": "z", "p": 1}])
    builder.store.delete_many([commit_path(version) for version in range(3)])
    for info in [*builder.store.list_from(LOG)]:
        if ".checkpoint." in info.name:
            builder.store.delete_many([info.name])
            if content is not None:
                builder.store.put(info.name, content)
    rows = {row["code"]: row for row in check(builder.store).findings.to_pylist()}
    gap = rows["LOG_GAP"]
    assert (gap["version"], gap["file"]) == (0, commit_path(0))
    if content != b"no checkpoint":  # this is a note then
        assert rows["HINT_WRONG"]["repair"].startswith("restore the log from a backup until ")
    early = ("deltactl", "run `deltactl")
    assert not [row for row in rows.values() if row["repair"].startswith(early)]
    with pytest.raises(LogGapError):
        Table("x", store=builder.store, warn=ignore_warning).repair_checkpoints()


def test_an_unreadable_checkpoint_without_any_commit_stops_readers() -> None:
    builder = table()
    builder.checkpoint()
    builder.forget_commits(5)
    (name,) = (it for it in builder.store.list_from(LOG) if ".checkpoint." in it.name)
    builder.store.put(name.name, b"no checkpoint")
    report = check(builder.store)
    assert codes(report) == ["CHECKPOINT_UNREADABLE", "HISTORY_GAP", "LOG_GAP"]
    assert not any("readers work" in note for note in report.notes)
    (repair,) = (it["repair"] for it in report.findings.to_pylist() if it["code"] == "LOG_GAP")
    assert "how to copy an earlier version, if the log can rebuild one" in repair
    warnings: list[str] = []
    with pytest.raises(CorruptLogError):
        DeltaLog(builder.store, warnings.append).snapshot()
    assert not any("rebuilding" in text for text in warnings)


@pytest.mark.parametrize("code", ["FILE_SIZE", "FILE_UNREADABLE"])
def test_a_damaged_file_that_was_moved_can_be_removed(code: str) -> None:
    """As `explain` says of these codes."""
    builder = table()
    (damage,) = (damage for found, _, damage in DAMAGES if found == code)
    damage(builder)
    (name,) = check(builder.store, **DEEP).findings["file"].to_pylist()
    builder.store.delete_many([name])
    Table("x", store=builder.store, warn=fail).fix(kind="missing-files", expect_files=1)
    assert codes(check(builder.store, **DEEP)) == []


def test_what_readers_do_without_is_a_note_unless_asked_for() -> None:
    builder = table()
    measure(builder)
    write_sum(builder)
    tear_the_hint(builder)
    report = check(builder.store)
    assert report.is_sound
    assert [note.split(" ")[0] for note in report.notes] == [HINT, f"{LOG}/{4:020d}.crc:"]
    assert codes(check(builder.store, checkpoints=True)) == ["CHECKSUM_WRONG", "HINT_WRONG"]


def test_a_hint_of_a_broken_checkpoint_is_repaired_with_it() -> None:
    builder = table()
    builder.checkpoint(4)
    builder.hint(4)
    name = f"{LOG}/{4:020d}.checkpoint.parquet"
    builder.store.put(name, builder.store.read(name)[:-20])
    report = check(builder.store, checkpoints=True)
    assert codes(report) == ["CHECKPOINT_UNREADABLE", "HINT_WRONG"]
    repair = f"deltactl checkpoint {builder.store.uri} --repair"
    assert report.findings["repair"].to_pylist() == [repair] * 2


def test_a_depth_finds_what_it_looks_at() -> None:
    builder = table()
    lengthen_a_file(builder)
    edit_stats(builder, 3, minValues={"id": 21})
    flip_a_vector(builder)
    found = {depth: codes(check(builder.store, depth=depth)) for depth in Depth}
    assert found == {
        Depth.EXISTS: [],
        Depth.SIZES: ["FILE_SIZE"],
        Depth.FOOTERS: ["FILE_SIZE", "STATS_BOUNDS"],
        Depth.DATA: ["FILE_SIZE", "STATS_BOUNDS", "VECTOR_UNREADABLE"],
    }
    assert codes(check(builder.store, vectors=True)) == ["FILE_SIZE", "VECTOR_UNREADABLE"]


def test_a_page_that_rotted_is_found_by_its_checksum() -> None:
    builder = new_table(Column("id"))
    (name,) = builder.append([{"id": n} for n in range(1000)])
    rows = pq.read_table(io.BytesIO(builder.store.read(name)))
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="none", use_dictionary=False, write_page_checksum=True)
    builder.store.put(name, sink.getvalue())
    edit_action(builder, 1, "add", size=len(sink.getvalue()))
    assert codes(check(builder.store, **DEEP)) == []
    flip(builder.store, name, 4000)
    assert codes(check(builder.store, depth=Depth.FOOTERS)) == []
    assert codes(check(builder.store, depth=Depth.DATA)) == ["FILE_UNREADABLE"]


def test_files_of_older_versions_that_a_vacuum_removed_are_a_note() -> None:
    builder = table()
    path = "p=1/f00002.parquet"
    builder.remove(path)
    builder.store.delete_many([path])
    assert check(builder.store, **DEEP).notes == ()
    report = check(builder.store, all_versions=True, **DEEP)
    assert report.is_sound
    assert report.counts.num_gone == 1
    assert "1 file of older versions cannot be found any more" in report.notes[0]


def test_files_of_older_versions_are_looked_into() -> None:
    builder = table()
    builder.remove("p=1/f00002.parquet")
    lengthen_a_file(builder)
    assert codes(check(builder.store)) == []
    assert codes(check(builder.store, all_versions=True)) == ["FILE_SIZE"]
    assert codes(check(builder.store, version=3)) == ["FILE_SIZE"]


def test_a_file_that_was_replaced_in_place_is_wrong_in_older_versions() -> None:
    builder = table()
    add = builder.find("p=1/f00002.parquet")
    lengthen_a_file(builder)
    (info,) = builder.store.stat_many([add["path"]])
    assert info is not None
    builder.commit({"add": {**add, "size": info.size_bytes}})
    assert codes(check(builder.store)) == []
    assert codes(check(builder.store, all_versions=True)) == ["FILE_SIZE"]


def test_a_file_is_read_by_the_schema_it_was_written_under() -> None:
    builder = table()
    columns = [Column("id", "string"), Column("p", "integer")]
    for path, _ in list(builder.state.files):
        builder.remove(path)
    builder.change_metadata(columns=columns)
    assert codes(check(builder.store, all_versions=True, **DEEP)) == []


def test_a_sample_is_a_part_and_always_the_same() -> None:
    builder = new_table(Column("id"))
    builder.append(*([{"id": n}] for n in range(200)))
    first, second = (check(builder.store, sample=0.25).counts for _ in range(2))
    assert first == second
    assert 25 < first.num_checked < 75
    assert first.num_files == 200


def test_a_sample_has_at_least_one_file() -> None:
    builder = new_table(Column("id"))
    builder.append(*([{"id": n}] for n in range(5)))
    assert check(builder.store, sample=1e-9).counts.num_checked == 1
    builder.remove(*(path for path, _ in builder.state.files))
    assert check(builder.store, sample=1e-9).counts.num_checked == 0


def test_a_share_above_all_files_is_shown_as_a_percentage() -> None:
    with pytest.raises(UsageError, match="at most 100%, but is 500") as raised:
        CheckOptions(sample=5)
    assert "0.05" in str(raised.value.hint)


def test_a_compacted_file_that_cannot_be_read_is_found() -> None:
    builder = table()
    builder.compact(1, 4)
    name = only_file(builder, ".compacted.json")
    builder.store.put(name, builder.store.read(name)[:-20])
    report = check(builder.store, **DEEP)
    assert codes(report) == ["COMPACTED_WRONG"]
    assert report.counts.num_checked == 3
    edit_commit(builder, 2, lambda action: None)
    assert codes(check(builder.store)) == ["COMMIT_UNREADABLE"]


def test_a_compacted_file_with_two_actions_in_a_line_is_found() -> None:
    builder = table()
    builder.compact(1, 4)
    name = only_file(builder, ".compacted.json")
    shared = {"txn": {"appId": "a", "version": 1}, "remove": {"path": "p=2/f00003.parquet"}}
    builder.store.put(name, builder.store.read(name) + encode_lines([shared]))
    report = check(builder.store, **DEEP)
    assert codes(report) == ["COMPACTED_WRONG"]
    (problem,) = report.findings["problem"].to_pylist()
    assert "has several actions: txn, remove" in problem


def test_a_compacted_file_may_leave_out_what_cancels_nothing() -> None:
    """A file that its own commits add and remove needs no tombstone."""
    builder = table()
    builder.remove("p=2/f00003.parquet")
    builder.compact(3, 5)
    lose_tombstones(builder, "p=2/f00003.parquet")
    assert codes(check(builder.store)) == []
