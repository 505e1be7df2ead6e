"""``alter --drop-feature``: what is left of a feature, and who could still use it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import ConflictError, SafetyError, UnsupportedFeatureError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.report import AlterReport
from deltactl.operations.alter.run import alter_table
from deltactl.operations.optimize import purged_files
from deltactl.protocol.features import list_features
from deltactl.storage.store import Store
from deltactl.table import Table
from deltactl.units import HOUR_MS
from tests.interop.judges import rows_with_delta_rs
from tests.operations.alter.test_properties import actions, alter
from tests.support.checkpoints import memory_of
from tests.support.clock import FixedClock
from tests.support.damage import edit_parquet
from tests.support.restores import commit_lines, ids, latest, restore
from tests.support.run import run_on
from tests.support.stores import fresh_store
from tests.support.table_builder import (
    START_MS,
    Column,
    TableBuilder,
    array_of,
    struct_of,
)

PHYSICAL = "delta.columnMapping.physicalName"
TYPE_CHANGES = "delta.typeChanges"
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


def new_table(*features: str, **options: Any) -> TableBuilder:
    builder = TableBuilder(fresh_store(), [Column("id")], features=features, **options)
    builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    return builder


def drop(builder: TableBuilder, name: str, **options: Any) -> list[str]:
    """Drop a feature; return the operations of the commits."""
    first = latest(builder.store) + 1
    after = alter(builder.store, drop_feature=name, **options).version_after
    assert after is not None
    return [
        actions(builder.store, version)["commitInfo"]["operation"]
        for version in range(first, after + 1)
    ]


def features(store: Store) -> set[str]:
    return set(list_features(Table("x", store=store).snapshot().protocol))


def checkpoints(store: Store) -> list[int]:
    return sorted(it.version for it in DeltaLog(store, pytest.fail).checkpoints)


BARRIERS = ["Empty Commit"] * 3


@pytest.mark.parametrize(
    ("name", "properties", "operations"),
    [
        ("vacuumProtocolCheck", {}, [*BARRIERS, "DROP FEATURE"]),
        ("columnMapping", {}, [*BARRIERS, "DROP FEATURE"]),
        ("materializePartitionColumns", {}, ["DROP FEATURE"]),
        ("checkConstraints", {}, ["DROP FEATURE"]),
        ("domainMetadata", {}, ["DROP FEATURE"]),
        ("inCommitTimestamp", {}, ["UNSET TBLPROPERTIES", "DROP FEATURE"]),
        (
            "v2Checkpoint",
            {"delta.CheckpointPolicy": "v2"},
            ["UNSET TBLPROPERTIES", *BARRIERS, "DROP FEATURE"],
        ),
        (
            "typeWidening",
            {"delta.enableTypeWidening": "true"},
            ["UNSET TBLPROPERTIES", *BARRIERS, "DROP FEATURE"],
        ),
        ("rowTracking", {}, ["SET TBLPROPERTIES", "ROW TRACKING UNBACKFILL", "DROP FEATURE"]),
    ],
)
def test_the_commits_are_those_of_spark(
    name: str, properties: dict[str, str], operations: list[str]
) -> None:
    builder = new_table("appendOnly", name, properties=properties)
    assert drop(builder, name) == operations
    version = len(operations) + 1
    snapshot = Table("x", store=builder.store).snapshot()
    left = {"appendOnly", *({"domainMetadata"} if name == "rowTracking" else ())}
    if len(operations) > 3:
        assert features(builder.store) == {*left, "checkpointProtection"}
        assert snapshot.metadata.configuration == {PROTECTED: str(version)}
        assert checkpoints(builder.store) == list(range(version - 3, version + 1))
    else:
        assert features(builder.store) == left
        assert (snapshot.metadata.configuration, checkpoints(builder.store)) == ({}, [])
    assert (dict(snapshot.domains), snapshot.files["base_row_id"].null_count) == ({}, 2)
    assert snapshot.version == version
    assert ids(builder.store) == [1, 2, 3]
    assert Table("x", store=builder.store).check().is_sound
    assert alter(builder.store, drop_feature=name).plan.is_empty


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_restore_brings_dropped_row_ids_back(rewrites: bool) -> None:
    """Files that are live in both versions need them too, and later writes use other ids."""
    builder = new_table("rowTracking")
    table = Table("x", store=builder.store)
    given = table.snapshot().files.select(["path", "base_row_id"]).sort_by("path")
    if rewrites:
        table.optimize()
    drop(builder, "rowTracking")
    restore(builder.store, 1)
    assert table.snapshot().files.select(["path", "base_row_id"]).sort_by("path") == given
    assert table.check().findings.num_rows == 0
    table.optimize()
    assert min(table.snapshot().files["base_row_id"].to_pylist()) > 2


def test_vectors_are_purged_and_their_files_get_tombstones() -> None:
    builder = new_table("deletionVectors", properties={"delta.enableDeletionVectors": "true"})
    builder.delete_rows(next(iter(builder.data)), [0])
    operations = ["UNSET TBLPROPERTIES", "REORG", "Deletion Vector Tombstones", *BARRIERS]
    assert drop(builder, "deletionVectors") == [*operations, "DROP FEATURE"]
    assert ids(builder.store) == [2, 3]
    removed = actions(builder.store, 5)["remove"]
    assert removed["path"].startswith("deletion_vector_")
    assert removed.keys() == {"path", "deletionTimestamp", "dataChange"}
    assert features(builder.store) == {"checkpointProtection"}
    assert Table("x", store=builder.store).check().is_sound


@pytest.mark.parametrize(
    ("features", "properties", "name", "said"),
    [
        (("clustering",), {}, "clustering", "does not drop"),
        (("allowColumnDefaults",), {}, "allowColumnDefaults", "does not drop"),
        (("icebergCompatV1",), {}, "icebergCompatV1", "does not drop"),
        (("rowTracking",), {}, "domainMetadata", "has rowTracking"),
        (("columnMapping", "icebergCompatV2"), {}, "columnMapping", "has icebergCompatV2"),
        (("icebergCompatV3", "rowTracking"), {}, "rowTracking", "has icebergCompatV3"),
        (
            ("checkConstraints",),
            {"delta.constraints.c": "id > 0"},
            "checkConstraints",
            r"delta\.constraints\.c",
        ),
        (("checkpointProtection",), {PROTECTED: "2"}, "checkpointProtection", "has version 0"),
        (
            ("deletionVectors",),
            {"delta.logRetentionDuration": "interval 1 month"},
            "deletionVectors",
            r"delta\.logRetentionDuration is invalid",
        ),
    ],
)
def test_what_is_still_needed_is_refused(
    features: tuple[str, ...], properties: dict[str, str], name: str, said: str
) -> None:
    builder = new_table(*features, properties=properties)
    with pytest.raises((UnsupportedFeatureError, SafetyError), match=said):
        alter(builder.store, drop_feature=name)
    assert latest(builder.store) == 1


@pytest.mark.parametrize("mapping", ["name", "id"])
@pytest.mark.parametrize("features", [(), ("deletionVectors", "rowTracking")])
def test_column_mapping_ends_in_one_commit(mapping: str, features: tuple[str, ...]) -> None:
    """With nested columns, partitions and deleted rows, all under other names in files."""
    nested = struct_of(Column("x"), Column("in", array_of(struct_of(Column("q", "string")))))
    columns = [Column("id"), Column("s", nested), Column("p", "string")]
    builder = TableBuilder(
        fresh_store(), columns, partition_by=["p"], mapping=mapping, features=features
    )
    rows = [{"id": n, "s": {"x": -n, "in": [{"q": "v"}, None]}, "p": "a/b"} for n in range(3)]
    path, _ = builder.append(rows, [{"id": 3, "s": None, "p": None}])
    if "deletionVectors" in features:
        builder.delete_rows(path, [1])
    table = Table("x", store=builder.store)
    before = table.scan().read_all().sort_by("id").to_pylist()
    first = builder.version + 1
    planned = table.alter(drop_feature="columnMapping", dry_run=True).plan.steps[0]
    assert (planned.operation, planned.num_files) == ("REMOVE COLUMN MAPPING", 2)
    assert drop(builder, "columnMapping") == ["REMOVE COLUMN MAPPING", *BARRIERS, "DROP FEATURE"]
    metadata = table.snapshot(first).metadata
    assert "columnMapping" not in f"{metadata.schema_string}{metadata.configuration}"
    for version in (first - 1, first, None):
        found = table.scan(version=version).read_all()
        assert found.sort_by("id").to_pylist() == before
    commit = commit_lines(builder.store, first)
    adds = [line["add"] for line in commit if "add" in line]
    assert {add["partitionValues"]["p"] for add in adds} == {"a/b", None}
    assert all(json.loads(add["stats"])["minValues"].keys() >= {"id"} for add in adds)
    assert not any(it["dataChange"] for line in commit for it in line.values() if "path" in it)
    assert table.check(depth="data").is_sound
    if features:
        stored = pa.concat_tables(
            pq.read_table(pa.py_buffer(builder.store.read(path)), columns=["id", "_row-id-col-1"])
            for path in table.snapshot().files["path"].to_pylist()
        )
        assert {tuple(row.values()) for row in stored.to_pylist()} == {(0, 0), (2, 2), (3, 3)}


@pytest.mark.parametrize("has_dropped", [False, True])
def test_files_with_exactly_the_names_of_the_schema_stay(has_dropped: bool) -> None:
    builder = TableBuilder(fresh_store(), [Column("id"), Column("b")])
    builder.append([{"id": 1, "b": 5}, {"id": 2, "b": 5}], [{"id": 3, "b": 5}])
    alter(builder.store, properties={"delta.columnMapping.mode": "name"})
    table = Table("x", store=builder.store)
    files = table.snapshot().files["path"].to_pylist()
    if has_dropped:
        metadata = actions(builder.store, 2)["metaData"]
        schema = json.loads(metadata["schemaString"])
        metadata["schemaString"] = json.dumps({**schema, "fields": schema["fields"][:1]})
        builder.commits.append([])
        builder.commit({"metaData": metadata})
    planned = table.alter(drop_feature="columnMapping", dry_run=True).plan.steps[0]
    assert planned.num_files == (2 if has_dropped else 0)
    assert drop(builder, "columnMapping")[0] == "REMOVE COLUMN MAPPING"
    stay = set(files) & {*table.snapshot().files["path"].to_pylist()}
    assert (len(stay), ids(builder.store)) == (0 if has_dropped else 2, [1, 2, 3])


def test_columns_that_changed_names_are_rewritten() -> None:
    """Each name of the schema is in the files, but of the other column."""
    columns = [
        Column(name, metadata={PHYSICAL: other, "delta.columnMapping.id": number})
        for number, (name, other) in enumerate([("id", "b"), ("b", "id")], start=1)
    ]
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    builder = TableBuilder(
        fresh_store(), columns, features=["columnMapping"], properties=properties
    )
    builder.append([{"id": 1, "b": 2}])
    drop(builder, "columnMapping")
    assert Table("x", store=builder.store).scan().read_all().to_pylist() == [{"id": 1, "b": 2}]


@pytest.mark.parametrize(
    ("column", "options", "said"),
    [
        (Column("a b"), {}, "'a b' would be invalid"),
        (Column("s", struct_of(Column("x=y"))), {}, "'x=y' would be invalid"),
        (Column("g", "geometry(4326)"), {"features": ["geospatial"]}, "types of g"),
        (
            Column("c"),
            {"domains": {"delta.clustering": '{"clusteringColumns":[["col-0001"]]}'}},
            "clustering columns",
        ),
    ],
)
def test_names_that_files_cannot_have_are_refused(
    column: Column, options: dict[str, Any], said: str
) -> None:
    builder = TableBuilder(fresh_store(), [column], mapping="name", **options)
    with pytest.raises((SafetyError, UnsupportedFeatureError), match=said):
        alter(builder.store, drop_feature="columnMapping")
    assert latest(builder.store) == 0


def widened_table(store: Store, name: str = "typeWidening", **options: Any) -> TableBuilder:
    """A table of four files: one without the columns, two with old types, one with new ones."""
    features = [name, *options.pop("features", ())]
    properties = {"delta.enableTypeWidening": "true"}
    builder = TableBuilder(
        store, [Column("k")], features=features, properties=properties, **options
    )
    builder.append([{"k": 0}])
    columns = [Column("n", "short"), Column("a", array_of("float"))]
    builder.change_metadata(columns=[*builder.columns, *columns])
    builder.append([{"k": 1, "n": 1, "a": [1.5]}, {"k": 2, "n": None, "a": None}])
    builder.append([{"k": 3, "n": -7, "a": [None, 2.5]}])
    k, n, a = builder.columns
    change = {"fromType": "short", "toType": "long"}
    n = replace(n, type="long", metadata={**n.metadata, TYPE_CHANGES: [change]})
    change = {"fromType": "float", "toType": "double", "fieldPath": "element"}
    a = replace(a, type=array_of("double"), metadata={**a.metadata, TYPE_CHANGES: [change]})
    builder.change_metadata(columns=[k, n, a])
    builder.append([{"k": 4, "n": 1 << 40, "a": [1e300]}])
    return builder


@pytest.mark.parametrize(
    ("mapping", "name"),
    [("none", "typeWidening-preview"), ("name", "typeWidening"), ("id", "typeWidening")],
)
def test_files_with_earlier_types_are_rewritten(
    mapping: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = widened_table(fresh_store(), name, mapping=mapping)
    table = Table("x", store=builder.store)
    before = table.scan().read_all().sort_by("k").to_pylist()
    files = table.snapshot().files["path"].to_pylist()
    planned = table.alter(drop_feature=name, dry_run=True).plan.steps[1]
    expected = 3 if mapping == "id" else 2  # by id, a column may have any name
    assert (planned.operation, planned.num_files) == ("REORG", expected)
    assert planned.num_bytes > 0
    operations = ["UNSET TBLPROPERTIES", "REORG", "DROP FEATURE", *BARRIERS, "DROP FEATURE"]
    footers = Mock(wraps=purged_files._leaves)
    monkeypatch.setattr(purged_files, "_leaves", footers)
    assert drop(builder, name) == operations
    assert footers.call_count == 8  # all four for the plan, and all four for the rewrite
    snapshot = table.snapshot()
    assert len({*files} & {*snapshot.files["path"].to_pylist()}) == 4 - expected
    assert TYPE_CHANGES not in (snapshot.metadata.schema_string or "")
    reorg = actions(builder.store, builder.version + 2)
    assert reorg["add"]["dataChange"] is reorg["remove"]["dataChange"] is False
    assert table.scan().read_all().sort_by("k").to_pylist() == before
    assert table.check(depth="data").is_sound
    assert name not in features(builder.store)


def test_partition_values_with_the_earlier_type_are_rewritten(tmp_path: Path) -> None:
    """delta-rs cannot read a date as a value of a timestamp column, and DuckDB cannot."""
    columns = [Column("k"), Column("d", "date")]
    builder = TableBuilder(
        tmp_path, columns, partition_by=["d"], features=["typeWidening", "timestampNtz"]
    )
    for number in range(2):
        builder.append([{"k": number, "d": f"2024-01-0{number + 1}"}])
    k, d = builder.columns
    change = {"fromType": "date", "toType": "timestamp_ntz"}
    builder.change_metadata(
        columns=[k, replace(d, type="timestamp_ntz", metadata={TYPE_CHANGES: [change]})]
    )
    before = Table(tmp_path).scan().read_all().sort_by("k")
    drop(builder, "typeWidening")
    table = Table(tmp_path)
    assert table.check(depth="data").is_sound
    assert table.scan().read_all().sort_by("k") == before
    assert sorted(row["k"] for row in rows_with_delta_rs(tmp_path)) == [0, 1]


def test_a_file_that_optimize_leaves_is_refused() -> None:
    builder = widened_table(fresh_store())
    default = Column("d", metadata={"CURRENT_DEFAULT": "1", "EXISTS_DEFAULT": "1"})
    builder.change_metadata(columns=[*builder.columns, default])
    with pytest.raises(SafetyError, match="2 lacks a column with EXISTS_DEFAULT"):
        alter(builder.store, drop_feature="typeWidening")
    with pytest.raises(UsageError, match="Did you mean 'typeWidening'"):
        alter(builder.store, drop_feature="typeWidenin")


def test_a_file_with_vectors_that_optimize_leaves_is_refused_before_a_commit() -> None:
    builder = new_table("deletionVectors", properties={"delta.enableDeletionVectors": "true"})
    path = next(iter(builder.data))
    default = Column("d", metadata={"EXISTS_DEFAULT": "1"})
    builder.change_metadata(columns=[*builder.columns, default])
    builder.delete_rows(path, [0])
    with pytest.raises(SafetyError, match="1 lacks a column with EXISTS_DEFAULT"):
        alter(builder.store, drop_feature="deletionVectors")
    assert latest(builder.store) == builder.version


def test_a_vector_without_rows_is_purged() -> None:
    builder = new_table("deletionVectors")
    builder.delete_rows(next(iter(builder.data)), [])
    drop(builder, "deletionVectors")
    snapshot = Table("x", store=builder.store).snapshot()
    assert snapshot.files["deletion_vector"].null_count == 2
    assert ids(builder.store) == [1, 2, 3]


def test_protection_is_dropped_when_the_log_was_truncated() -> None:
    builder = new_table("vacuumProtocolCheck")
    drop(builder, "vacuumProtocolCheck")
    with pytest.raises(SafetyError, match="before 5") as refused:
        alter(builder.store, drop_feature="checkpointProtection")
    assert "Wait until" in (refused.value.hint or "")
    builder.forget_commits(5)
    for version in range(2, 5):
        builder.store.delete_many([f"_delta_log/{version:020}.checkpoint.parquet"])
    assert drop(builder, "checkpointProtection") == ["DROP FEATURE"]
    snapshot = Table("x", store=builder.store).snapshot()
    assert (features(builder.store), snapshot.metadata.configuration) == (set(), {})


def drop_protection(builder: TableBuilder, hours: float, **options: Any) -> AlterReport:
    chosen = AlterOptions(drop_feature="checkpointProtection", truncate_history=True)
    clock = FixedClock(START_MS + int(hours * HOUR_MS))
    return run_on(builder.store, alter_table, chosen, clock=clock, **options)


def test_protection_is_dropped_with_its_history() -> None:
    builder = new_table("vacuumProtocolCheck")
    drop(builder, "vacuumProtocolCheck")
    with pytest.raises(SafetyError, match="before 5, and the log has version 0") as refused:
        drop_protection(builder, 1)
    assert "2023-11-15T22:1" in (refused.value.hint or "")
    with pytest.raises(SafetyError, match="before 5"):  # the store's clock is not that late
        drop_protection(builder, 49)
    memory_of(builder).advance(25 * HOUR_MS)
    alter(builder.store, properties={"a": "1"})
    plan = drop_protection(builder, 26, dry_run=True).plan
    assert (plan.steps[0].operation, plan.steps[0].num_files) == ("TRUNCATE HISTORY", 8)
    assert plan.risks and min(DeltaLog(builder.store, pytest.fail).commit_files) == 0
    base = "_delta_log/00000000000000000005.checkpoint.parquet"
    sound = builder.store.read(base)
    edit_parquet(builder.store, base, lambda rows: rows[:-1])
    with pytest.raises(SafetyError, match="disagrees with the older log files"):
        drop_protection(builder, 26)
    builder.store.put(base, sound)
    memory_of(builder).set_modified(base, START_MS)
    drop_protection(builder, 26)
    log = DeltaLog(builder.store, pytest.fail)
    assert (min(log.commit_files), checkpoints(builder.store)) == (5, [5])
    assert (features(builder.store), ids(builder.store)) == (set(), [1, 2, 3])
    described = actions(builder.store, 7)["commitInfo"]
    assert described["operationParameters"]["truncateHistory"] is True
    with pytest.raises(UsageError, match="only for the feature checkpointProtection"):
        AlterOptions(drop_feature="deletionVectors", truncate_history=True)


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("deletionVectors", lambda it: it.delete_rows(next(iter(it.data)), [0])),
        ("rowTracking", lambda it: it.change_metadata(name="x")),
    ],
)
def test_a_writer_that_uses_the_feature_meanwhile_is_a_conflict(
    name: str, act: Callable[[TableBuilder], object]
) -> None:
    builder = new_table(name)

    def confirm(_: object) -> bool:
        act(builder)
        return True

    with pytest.raises(ConflictError, match="another writer"):
        alter(builder.store, drop_feature=name, confirm=confirm)
    assert name in features(builder.store)
    drop(builder, name)
    assert name not in features(builder.store)
