"""`check`: each kind of damage is found under its code, and its sound twin is not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltactl.codes import load_findings
from deltactl.errors import NotATableError, UsageError
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.options import CheckOptions, Depth
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
    only_file,
    table,
    true_stats,
)
from tests.support.stores import MemoryStore
from tests.support.table_builder import (
    FEATURES,
    LAYOUTS,
    LOG,
    SHAPES,
    Column,
    TableBuilder,
    _pad,
    build_sample,
    commit_path,
    encode_lines,
)

HINT = f"{LOG}/_last_checkpoint"


def forget_commit(builder: TableBuilder, version: int) -> None:
    builder.store.delete_many([commit_path(version)])


def lose_a_commit(builder: TableBuilder) -> None:
    forget_commit(builder, 2)


def lose_an_old_commit(builder: TableBuilder) -> None:
    builder.checkpoint(3)
    forget_commit(builder, 2)


def tear_a_commit(builder: TableBuilder) -> None:
    builder.store.put(commit_path(2), builder.store.read(commit_path(2))[:-9])


def say_it_twice(builder: TableBuilder) -> None:
    name = commit_path(0)
    builder.store.put(name, builder.store.read(name) + builder.store.read(name))


def lose_the_protocol(builder: TableBuilder) -> None:
    edit_commit(builder, 0, lambda action: None if "protocol" in action else action)


def break_the_checkpoints_schema(builder: TableBuilder) -> None:
    builder.checkpoint()
    builder.forget_commits(5)
    name = only_file(builder, ".checkpoint.parquet")
    edit_parquet(builder.store, name, _edit_metadata(schemaString="{"))


def partition_by_no_column(builder: TableBuilder) -> None:
    builder.checkpoint()
    builder.forget_commits(5)
    name = only_file(builder, ".checkpoint.parquet")
    edit_parquet(builder.store, name, _edit_metadata(partitionColumns=["nope"]))


def lose_the_schema(builder: TableBuilder) -> None:
    edit_action(builder, 0, "metaData", schemaString="")


def bring_the_schema_later(builder: TableBuilder) -> None:
    builder.change_metadata()
    edit_action(builder, 0, "metaData", schemaString=None)


def _edit_metadata(**changes: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for row in rows:
            if row["metaData"] is not None:
                row["metaData"] |= changes
        return rows

    return edit


def list_features_too_early(builder: TableBuilder) -> None:
    edit_action(builder, 0, "protocol", minReaderVersion=2)


def unlist_vectors(builder: TableBuilder) -> None:
    edit_action(
        builder,
        0,
        "protocol",
        minReaderVersion=1,
        minWriterVersion=2,
        readerFeatures=None,
        writerFeatures=None,
    )


def tear_a_checkpoint(builder: TableBuilder) -> None:
    builder.checkpoint()
    name = only_file(builder, ".checkpoint.parquet")
    builder.store.put(name, builder.store.read(name)[:-20])


def lose_a_file_in_a_checkpoint(builder: TableBuilder) -> None:
    builder.checkpoint(3)
    edit_parquet(builder.store, only_file(builder, ".checkpoint.parquet"), _lose_an_add)


def _lose_an_add(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first = next(row for row in rows if row["add"] is not None)
    return [row for row in rows if row is not first]


def move_a_file_in_a_checkpoint(builder: TableBuilder) -> None:
    def edit(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        next(row for row in rows if row["add"])["add"]["partitionValues"] = [("p", "77")]
        return rows

    builder.checkpoint(3)
    edit_parquet(builder.store, only_file(builder, ".checkpoint.parquet"), edit)


def let_checkpoints_contradict(builder: TableBuilder) -> None:
    builder.checkpoint(2)
    builder.checkpoint(4)
    builder.forget_commits(3)
    edit_parquet(builder.store, f"{LOG}/{4:020d}.checkpoint.parquet", _lose_an_add)


def tear_the_hint(builder: TableBuilder) -> None:
    builder.checkpoint()
    builder.store.put(HINT, b'{"version":4,"si')


def let_the_hint_dangle(builder: TableBuilder) -> None:
    builder.hint(3)


def lie_in_a_checksum(builder: TableBuilder) -> None:
    snapshot = DeltaLog(builder.store, fail).snapshot()
    write_checksum(builder.store, snapshot, snapshot.num_files + 1, snapshot.size_bytes)


def resurrect_a_file(builder: TableBuilder) -> None:
    """A compacted file without the tombstone of a file that is older than its commits."""
    builder.remove("p=1/f00002.parquet")
    builder.compact(3, 5)
    lose_tombstones(builder, "p=1/f00002.parquet")


def lose_tombstones(builder: TableBuilder, path: str) -> None:
    """Leave the tombstones of a path out of the compacted file."""
    name = only_file(builder, ".compacted.json")
    actions = [json.loads(line) for line in builder.store.read(name).splitlines()]
    kept = [a for a in actions if a.get("remove", {}).get("path") != path]
    builder.store.put(name, encode_lines(kept))


def leave_the_folder(builder: TableBuilder) -> None:
    edit_action(builder, 3, "add", path="../elsewhere.parquet")


def add_it_again(builder: TableBuilder) -> None:
    """A row delete that forgets to remove the file as it was."""
    path = next(path for path, _ in list(builder.state.files)[:1])
    _, add = builder.delete_actions(path, [0])
    builder.commit(add)


def remove_by_path_alone(builder: TableBuilder) -> None:
    """A writer that does not know deletion vectors: the file stays live."""
    path = next(path for path, vector in builder.state.files if vector)
    action = builder.remove_action(path)
    del action["remove"]["deletionVector"]
    builder.commit(action, engineInfo="Rewriter/1")


def lose_a_file(builder: TableBuilder) -> None:
    builder.store.delete_many(["p=1/f00002.parquet"])


def lengthen_a_file(builder: TableBuilder) -> None:
    """By bytes between rows and footer: it can be read as before."""
    name = "p=1/f00002.parquet"
    builder.store.put(name, _pad(builder.store.read(name), 10))


def tear_a_file(builder: TableBuilder) -> None:
    name = "p=1/f00002.parquet"
    data = builder.store.read(name)
    builder.store.put(name, data[:-4] + b"oops")


def lie(**changes: Any) -> Callable[[TableBuilder], None]:
    """Change the statistics of the second file."""
    return lambda builder: edit_stats(builder, 2, **changes)


def write_no_json(builder: TableBuilder) -> None:
    edit_action(builder, 2, "add", stats="numRecords: 8")


def move_it_nowhere(builder: TableBuilder) -> None:
    edit_action(builder, 2, "add", partitionValues={"p": "one"})


def lose_a_vector(builder: TableBuilder) -> None:
    builder.store.delete_many([only_file(builder, ".bin")])


def flip_a_vector(builder: TableBuilder) -> None:
    flip(builder.store, only_file(builder, ".bin"), -6)


def miscount_a_vector(builder: TableBuilder) -> None:
    add = next(a["add"] for a in builder.commits[4] if "add" in a)
    edit_action(builder, 4, "add", deletionVector={**add["deletionVector"], "cardinality": 3})


def delete_beyond_the_end(builder: TableBuilder) -> None:
    builder.delete_rows("p=1/f00002.parquet", [8])


def lose_the_newest_commit(builder: TableBuilder) -> None:
    snapshot = DeltaLog(builder.store, fail).snapshot()
    write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    forget_commit(builder, 4)


def garble_a_name(builder: TableBuilder) -> None:
    name = commit_path(2)
    data = builder.store.read(name)
    builder.store.put(name, data.replace(b"f00002", b"f0000\xff"))


def garble_a_name_in_a_checkpoint(builder: TableBuilder) -> None:
    builder.checkpoint()
    name = only_file(builder, ".checkpoint.parquet")
    found = pq.read_table(io.BytesIO(builder.store.read(name)))
    sink = io.BytesIO()
    pq.write_table(found, sink, compression="none", use_dictionary=False)
    builder.store.put(name, sink.getvalue().replace(b"f00002", b"f0000\xff"))


DAMAGES: list[tuple[str, Callable[[TableBuilder], None]]] = [
    ("LOG_GAP", lose_a_commit),
    ("LOG_GAP", lose_the_newest_commit),
    ("HISTORY_GAP", lose_an_old_commit),
    ("COMMIT_UNREADABLE", tear_a_commit),
    ("COMMIT_UNREADABLE", garble_a_name),
    ("COMMIT_AMBIGUOUS", say_it_twice),
    ("LOG_ACTION_MISSING", lose_the_protocol),
    ("LOG_UNREADABLE", break_the_checkpoints_schema),
    ("SCHEMA_INVALID", partition_by_no_column),
    ("SCHEMA_EMPTY", lose_the_schema),
    ("SCHEMA_MISSING", bring_the_schema_later),
    ("PROTOCOL_INVALID", list_features_too_early),
    ("FEATURE_MISSING", unlist_vectors),
    ("CHECKPOINT_UNREADABLE", tear_a_checkpoint),
    ("CHECKPOINT_WRONG", lose_a_file_in_a_checkpoint),
    ("CHECKPOINT_WRONG", move_a_file_in_a_checkpoint),
    ("CHECKPOINT_DOUBTFUL", let_checkpoints_contradict),
    ("HINT_WRONG", tear_the_hint),
    ("HINT_WRONG", let_the_hint_dangle),
    ("CHECKSUM_WRONG", lie_in_a_checksum),
    ("COMPACTED_WRONG", resurrect_a_file),
    ("PATH_INVALID", leave_the_folder),
    ("FILE_DUPLICATE", add_it_again),
    ("REMOVE_MISSED", remove_by_path_alone),
    ("FILE_MISSING", lose_a_file),
    ("FILE_SIZE", lengthen_a_file),
    ("FILE_UNREADABLE", tear_a_file),
    ("STATS_ROWS", lie(numRecords=9)),
    ("STATS_NULLS", lie(nullCount={"name": 0})),
    ("STATS_BOUNDS", lie(minValues={"id": 11})),
    ("STATS_BOUNDS", lie(maxValues={"name": "n6"})),
    ("STATS_LOOSE", lie(tightBounds=True, maxValues={"id": 18})),
    ("STATS_UNREADABLE", write_no_json),
    ("PARTITION_VALUE", move_it_nowhere),
    ("VECTOR_MISSING", lose_a_vector),
    ("VECTOR_UNREADABLE", flip_a_vector),
    ("VECTOR_CARDINALITY", miscount_a_vector),
    ("VECTOR_ROWS", delete_beyond_the_end),
]


def test_the_table_that_gets_damaged_is_valid() -> None:
    report = check(table().store, **DEEP)
    assert report.findings.to_pylist() == []
    assert report.notes == ()
    counts = report.counts
    assert (counts.num_commits, counts.num_files, counts.num_checked) == (5, 3, 3)
    assert (counts.num_rows, counts.num_vectors) == (24, 1)


@pytest.mark.parametrize(("code", "damage"), DAMAGES)
def test_damage_is_found_under_its_code(code: str, damage: Callable[[TableBuilder], None]) -> None:
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
    builder.forget_commits(5)
    report = check(builder.store, depth=depth)
    assert codes(report) == ["CHECKPOINT_UNREADABLE", "LOG_GAP"]
    assert report.version is None


def tracked() -> TableBuilder:
    builder = new_table(Column("id"), features=["rowTracking"])
    builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    builder.append([{"id": 4}])
    return builder


def without_ids(builder: TableBuilder) -> None:
    edit_action(builder, 2, "add", baseRowId=None)


def taken_ids(builder: TableBuilder) -> None:
    edit_action(builder, 2, "add", baseRowId=1)


def low_mark(builder: TableBuilder) -> None:
    edit_action(builder, 2, "domainMetadata", configuration='{"rowIdHighWaterMark":2}')


def no_mark(builder: TableBuilder) -> None:
    edit_action(builder, 2, "domainMetadata", configuration="{}")


@pytest.mark.parametrize(
    ("code", "damage"),
    [
        ("ROW_IDS_MISSING", without_ids),
        ("ROW_IDS_OVERLAP", taken_ids),
        ("ROW_IDS_MARK", low_mark),
        ("ROW_IDS_MARK", no_mark),
    ],
)
def test_damaged_row_ids_are_found(code: str, damage: Callable[[TableBuilder], None]) -> None:
    assert codes(check(tracked().store, **DEEP)) == []
    builder = tracked()
    damage(builder)
    assert codes(check(builder.store)) == [code]


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


@pytest.mark.parametrize("time", [None, 5])
def test_in_commit_timestamps(time: int | None) -> None:
    assert codes(check(timed().store, **DEEP)) == []
    builder = timed()
    edit_action(builder, 2, "commitInfo", inCommitTimestamp=time)
    assert codes(check(builder.store)) == ["COMMIT_TIME"]


def mapped(edit: Callable[[list[dict[str, Any]]], Any]) -> TableBuilder:
    builder = new_table(Column("a"), Column("b"), mapping="name")
    builder.append([{"a": 1, "b": 2}])
    schema = json.loads(builder.state.metadata["schemaString"])  # type: ignore[index]
    edit(schema["fields"])
    edit_action(builder, 0, "metaData", schemaString=json.dumps(schema))
    return builder


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda fields: fields[0]["metadata"].pop("delta.columnMapping.id"), "no id"),
        (lambda fields: fields[0]["metadata"].pop("delta.columnMapping.physicalName"), "physical"),
        (lambda fields: fields[0]["metadata"].update(fields[1]["metadata"]), "used 2 times"),
        (lambda fields: fields[0]["metadata"].update({"delta.columnMapping.id": 9}), "maxColumnId"),
        (lambda fields: fields[0].update(name="b"), "not a Delta schema"),
    ],
)
def test_invalid_schemas_are_found(
    edit: Callable[[list[dict[str, Any]]], Any], problem: str
) -> None:
    assert codes(check(mapped(lambda fields: None).store, **DEEP)) == []
    report = check(mapped(edit).store, **DEEP)
    assert codes(report) == ["SCHEMA_INVALID"]
    assert any(problem in text for text in report.findings["problem"].to_pylist())


def _protocol(reader: int, writer: int, **lists: Any) -> dict[str, Any]:
    return {
        "minReaderVersion": reader, "minWriterVersion": writer,
        "readerFeatures": None, "writerFeatures": None, **lists,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        (_protocol(0, 2), "reader version is 0"),
        (_protocol(3, 7, writerFeatures=[]), "no list of reader features"),
        (_protocol(1, 7), "no list of writer features"),
        (_protocol(1, 2, writerFeatures=["appendOnly"]), "require writer version 7"),
        (_protocol(3, 2, readerFeatures=[]), "without writer features"),
        (
            _protocol(3, 7, readerFeatures=["typeWidening"], writerFeatures=[]),
            "not listed as writer features",
        ),
        (
            _protocol(3, 7, readerFeatures=[], writerFeatures=["typeWidening"]),
            "as writer features only",
        ),
    ],
)
def test_invalid_protocols_are_found(protocol: dict[str, Any], problem: str) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, "protocol", **protocol)
    report = check(builder.store)
    assert set(codes(report)) == {"PROTOCOL_INVALID"}
    assert any(problem in text for text in report.findings["problem"].to_pylist())


@pytest.mark.parametrize(
    ("action", "member"), [("metaData", "createdTime"), ("protocol", "minReaderVersion")]
)
def test_a_number_without_end_is_a_finding(action: str, member: str) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, action, **{member: float("inf")})
    assert set(codes(check(builder.store))) == {"COMMIT_UNREADABLE"}


@pytest.mark.parametrize(
    "protocol",
    [
        _protocol(1, 2),
        _protocol(2, 5),
        _protocol(1, 7, writerFeatures=[]),
        _protocol(2, 7, writerFeatures=["columnMapping"]),
        _protocol(3, 7, readerFeatures=[], writerFeatures=[]),
        _protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=["v2Checkpoint", "x"]),
    ],
)
def test_protocols_that_are_in_order(protocol: dict[str, Any]) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, "protocol", **protocol)
    assert codes(check(builder.store)) == []


@pytest.mark.parametrize(
    ("kind", "properties", "features"),
    [
        ("timestamp_ntz", {}, []),
        ("long", {"delta.enableInCommitTimestamps": "true"}, []),
        ("long", {"delta.enableRowTracking": "true"}, []),
        ("long", {"delta.checkpointPolicy": "v2"}, ["appendOnly"]),
        ("long", {"delta.columnMapping.mode": "name"}, []),
        ("long", {}, ["clustering"]),
    ],
)
def test_features_that_are_used_and_not_listed(
    kind: str, properties: dict[str, str], features: list[str]
) -> None:
    builder = new_table(Column("id", kind), properties=properties, features=features)
    if features:
        edit_action(builder, 0, "protocol", writerFeatures=features)
    assert "FEATURE_MISSING" in codes(check(builder.store))


def test_a_property_that_does_nothing_is_no_finding() -> None:
    """As delta-rs makes tables; Spark reads them, and the feature comes with the next metadata."""
    builder = new_table(Column("id"), properties={"delta.checkpointPolicy": "v2"})
    edit_action(builder, 0, "protocol", minReaderVersion=1, minWriterVersion=2)
    assert codes(check(builder.store)) == []


def edit_vector(builder: TableBuilder, **changes: Any) -> None:
    add = next(a["add"] for a in builder.commits[4] if "add" in a)
    edit_action(builder, 4, "add", deletionVector={**add["deletionVector"], **changes})


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


def test_a_kind_of_vector_that_is_unknown() -> None:
    builder = table()
    edit_vector(builder, storageType="i", pathOrInlineDv="$", sizeInBytes=1)
    assert codes(check(builder.store, **DEEP)) == ["VECTOR_UNREADABLE"]
    edit_action(builder, 2, "add", deletionVector={
        "storageType": "q", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1,
    })  # fmt: skip
    report = check(builder.store, **DEEP)
    assert report.count_codes() == {"VECTOR_UNREADABLE": 2}
    assert any("storage type 'q'" in text for text in report.findings["problem"].to_pylist())


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


@pytest.mark.parametrize("member", ["domainMetadata", "setTransactions"])
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


def test_a_remove_by_path_alone_names_its_writer() -> None:
    builder = table()
    remove_by_path_alone(builder)
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["version"]) == ("REMOVE_MISSED", 5)
    assert row["problem"].startswith("version 5 (by 'Rewriter/1') removed the file, but with")
    assert "restore" in row["repair"]


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


def test_an_older_version_is_not_judged_by_later_commits() -> None:
    builder = table()
    remove_by_path_alone(builder)
    assert codes(check(builder.store, version=4)) == []


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
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["version"], row["file"]) == ("CHECKPOINT_WRONG", 4, name)
    assert "it lacks 1 file with" in row["problem"]
    assert "version 4 (" in row["problem"]


def test_every_code_is_provoked() -> None:
    """The tests above name each code of the registry."""
    elsewhere = {"ROW_IDS_MISSING", "ROW_IDS_OVERLAP", "ROW_IDS_MARK", "IDENTITY_MARK"}
    elsewhere |= {"COMMIT_TIME", "SCHEMA_INVALID", "PATH_ENCODING", "PATH_ENCODING_DOUBTFUL"}
    elsewhere |= {"ROWS_CHANGED"}  # test_proofs.py
    elsewhere |= {f"CATALOG_{what}" for what in ("LOCATION", "ID", "COLUMNS", "NAMES")}  # tests/cli
    assert {code for code, _ in DAMAGES} | elsewhere == load_findings().keys()


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


def test_what_readers_do_without_is_a_note_unless_asked_for() -> None:
    builder = table()
    lie_in_a_checksum(builder)
    tear_the_hint(builder)
    report = check(builder.store)
    assert report.is_sound
    assert [note.split(" ")[0] for note in report.notes] == [HINT, f"{LOG}/{4:020d}.crc:"]
    assert codes(check(builder.store, checkpoints=True)) == ["CHECKSUM_WRONG", "HINT_WRONG"]


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


def test_an_unknown_reader_feature_is_reported() -> None:
    builder = new_table(Column("id"), features=["notYetInvented"])
    builder.append([{"id": 1}])
    report = check(builder.store, **DEEP)
    assert report.is_sound
    assert report.unsupported is not None
    assert "notYetInvented" in report.unsupported
    assert any("notYetInvented" in note for note in report.notes)


def test_files_of_older_versions_that_a_vacuum_removed_are_a_note() -> None:
    builder = table()
    path = "p=1/f00002.parquet"
    builder.remove(path)
    builder.store.delete_many([path])
    assert check(builder.store, **DEEP).notes == ()
    report = check(builder.store, all_versions=True, **DEEP)
    assert report.is_sound
    assert report.counts.num_gone == 1
    assert "1 files of older versions do not exist any more" in report.notes[0]


def test_files_of_older_versions_are_looked_into() -> None:
    builder = table()
    builder.remove("p=1/f00002.parquet")
    lengthen_a_file(builder)
    assert codes(check(builder.store)) == []
    assert codes(check(builder.store, all_versions=True)) == ["FILE_SIZE"]
    assert codes(check(builder.store, version=3)) == ["FILE_SIZE"]


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


def test_bad_options_are_refused() -> None:
    for options in ({"sample": 0.0}, {"sample": 1.1}, {"version": 1, "all_versions": True}):
        with pytest.raises(UsageError):
            CheckOptions(**options)


def test_no_table_is_an_error() -> None:
    with pytest.raises(NotATableError):
        check(MemoryStore("memory://check/nothing"))


def test_a_compacted_file_that_cannot_be_read_is_not_used() -> None:
    builder = table()
    builder.compact(1, 4)
    name = only_file(builder, ".compacted.json")
    builder.store.put(name, builder.store.read(name)[:-20])
    report = check(builder.store, **DEEP)
    assert codes(report) == ["COMPACTED_WRONG"]
    assert report.counts.num_checked == 3
    edit_commit(builder, 2, lambda action: None)
    assert codes(check(builder.store)) == ["COMMIT_UNREADABLE"]


def test_a_compacted_file_with_two_actions_in_a_line_is_not_used() -> None:
    builder = table()
    builder.compact(1, 4)
    name = only_file(builder, ".compacted.json")
    shared = {"txn": {"appId": "a", "version": 1}, "remove": {"path": "p=2/f00003.parquet"}}
    builder.store.put(name, builder.store.read(name) + encode_lines([shared]))
    report = check(builder.store, **DEEP)
    assert codes(report) == ["COMPACTED_WRONG"]
    (problem,) = report.findings["problem"].to_pylist()
    assert "has several actions: txn, remove" in problem
    warnings: list[str] = []
    assert DeltaLog(builder.store, warnings.append).snapshot().num_files == 3
    assert "has several actions: txn, remove" in warnings[0]


def test_a_compacted_file_may_leave_out_what_cancels_nothing() -> None:
    """A file that its own commits add and remove needs no tombstone."""
    builder = table()
    builder.remove("p=2/f00003.parquet")
    builder.compact(3, 5)
    lose_tombstones(builder, "p=2/f00003.parquet")
    assert codes(check(builder.store)) == []
