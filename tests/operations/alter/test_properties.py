"""``alter``: properties, and the features that they need."""

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import pytest

from deltactl.errors import ConflictError, SafetyError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.alter import run
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.report import AlterReport
from deltactl.operations.alter.run import Confirm, alter_table
from deltactl.operations.run_context import RunContext
from deltactl.protocol.features import list_features
from deltactl.protocol.property_rules import parse_properties
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.support.clock import FixedClock
from tests.support.restores import commit_lines, latest
from tests.support.run import raise_error
from tests.support.stores import fresh_store
from tests.support.table_builder import (
    START_MS,
    Column,
    TableBuilder,
    array_of,
    map_of,
    struct_of,
)

NESTED = struct_of(Column("x"), Column("a", array_of(struct_of(Column("q")))))


def new_table(**options: Any) -> TableBuilder:
    columns = [Column("id"), Column("s", NESTED), Column("p", "string")]
    builder = TableBuilder(fresh_store(), columns, partition_by=["p"], **options)
    builder.append([{"id": 1, "s": None, "p": "a"}], [{"id": 2, "s": None, "p": "b"}])
    return builder


def alter(store: Store, *, confirm: Confirm | None = None, **options: Any) -> AlterReport:
    context = RunContext(
        warn=pytest.fail, sleep=lambda _: None, clock=FixedClock(START_MS + 3_600_000)
    )
    log = DeltaLog(store, pytest.fail)
    return raise_error(alter_table(log, AlterOptions(**options), context, confirm=confirm))


def set_property(builder: TableBuilder, key: str, value: str) -> AlterReport:
    return alter(builder.store, properties={key: value})


def properties(store: Store) -> Mapping[str, str]:
    return Table("x", store=store).snapshot().metadata.configuration


def actions(store: Store, version: int) -> dict[str, Any]:
    return {key: body for line in commit_lines(store, version) for key, body in line.items()}


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("delta.logRetentionDuration", "30d", "interval 30 days"),
        ("DELTA.LOGRETENTIONDURATION", "interval 2 weeks", "interval 14 days"),
        ("delta.deletedFileRetentionDuration", "36h", "interval 36 hours"),
        ("delta.setTransactionRetentionDuration", "1500ms", "interval 1500 milliseconds"),
        ("delta.appendOnly", "TRUE", "true"),
        ("delta.checkpointInterval", " 5", "5"),
        ("delta.targetFileSize", "128MiB", str(128 << 20)),
        ("delta.targetFileSize", "1000", "1000"),
        ("delta.targetFileSize", "100mb", str(100 << 20)),
        ("delta.isolationLevel", "serializable", "Serializable"),
        ("team", "30d ", "30d "),
    ],
)
def test_a_value_is_stored_as_spark_reads_it(key: str, value: str, stored: str) -> None:
    assert list(parse_properties({key: value}).values()) == [stored]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("delta.logRetentionDuration", "30", '"30d" (days)'),
        ("delta.logRetentionDuration", "1 month", 'such as "30d"'),
        ("delta.targetFileSize", "12 parsecs", "such as"),
        ("delta.appendOnly", "yes", "true, false"),
        ("delta.checkpointInterval", "0", "from 1 on"),
        ("delta.checkpointInterval", "x", "from 1 on"),
        ("delta.checkpointInterval", "2147483648", "from 1 on"),
        ("delta.checkpointInterval", "9" * 5000, "from 1 on"),
        ("delta.logRetentionDuration", "100000001d", "at most"),
        ("delta.targetFileSize", "9" * 20, "too large"),
        ("delta.targetFileSize", "0", "at least 1B"),
        ("delta.dataSkippingNumIndexedCols", "-2", "from -1 on"),
        ("delta.checkpointPolicy", "multi-part", "classic, v2"),
        ("delta.isolationLevel", "WriteSerializable", "Serializable"),
        ("delta.logRetention", "30d", "delta.logRetentionDuration"),
        ("delta.columnMapping.maxColumnId", "3", "writers keep"),
        ("delta.inCommitTimestampEnablementVersion", "3", "writers keep"),
        ("delta.constraints.c", "id > 0", "ADD CONSTRAINT"),
        ("delta.enableIcebergCompatV2", "true", "REORG"),
        ("delta.universalFormat.enabledFormats", "iceberg", "REORG"),
        ("delta.feature.domainMetadata", "supported", "--add-feature"),
        ("deltactl.converted", "true", "Omit"),
        ("checkpointInterval", "5", "delta.checkpointInterval"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_type(key: str, value: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        AlterOptions(properties={key: value})
    assert said in f"{refused.value.message} {refused.value.hint}"
    assert key in refused.value.message


def test_only_a_change_makes_a_commit() -> None:
    builder = new_table(properties={"delta.logRetentionDuration": "interval 1 weeks", "a": "1"})
    same = {"delta.logRetentionDuration": "7d", "delta.LogRetentionDuration": "7d", "a": "1"}
    report = alter(builder.store, properties=same, unset=("b", "delta.appendOnly"))
    assert report.plan.is_empty and report.version_after is None
    report = alter(builder.store, properties={"delta.logretentiondurATION": "8d"}, unset=("a",))
    assert report.version_after == 2
    assert properties(builder.store) == {"delta.logRetentionDuration": "interval 8 days"}
    info = actions(builder.store, 2)["commitInfo"]
    assert info["operation"] == "SET TBLPROPERTIES"
    assert info["operationParameters"] == {
        "properties": '{"delta.logRetentionDuration":"interval 8 days"}',
        "unset": '["a"]',
    }
    alter(builder.store, unset=("delta.LOGretentionDuration",))
    info = actions(builder.store, 3)["commitInfo"]
    assert info["operation"] == "UNSET TBLPROPERTIES"
    assert info["operationParameters"]["properties"] == '["delta.logRetentionDuration"]'
    assert not properties(builder.store)


def test_a_constraint_and_a_misspelled_property_can_be_removed() -> None:
    stored = {"delta.constraints.c": "id > 0", "delta.apendOnly": "true"}
    builder = new_table(properties=stored)
    alter(builder.store, unset=("delta.constraints.c", "delta.constraints.d", "delta.apendOnly"))
    assert not properties(builder.store)
    with pytest.raises(UsageError, match=r"delta\.appendOnly"):
        alter(builder.store, unset=("delta.apendOnly",))


def test_two_spellings_of_a_property_are_refused() -> None:
    with pytest.raises(UsageError, match="given twice"):
        AlterOptions(properties={"delta.appendOnly": "true", "DELTA.appendonly": "false"})


@pytest.mark.parametrize(
    ("before", "changes", "versions", "readers", "writers"),
    [
        ((1, 2), ["delta.appendOnly=true"], (1, 2), None, None),
        ((1, 2), ["delta.enableChangeDataFeed=true"], (1, 7), None, {"changeDataFeed"}),
        ((1, 2), ["delta.enableChangeDataFeed=false"], (1, 2), None, None),
        ((1, 4), ["delta.enableChangeDataFeed=true"], (1, 4), None, None),
        ((1, 2), ["delta.columnMapping.mode=name"], (2, 7), None, {"columnMapping"}),
        (
            (1, 3),
            ["delta.enableDeletionVectors=true", "delta.columnMapping.mode=name"],
            (3, 7),
            {"columnMapping", "deletionVectors"},
            {"checkConstraints", "columnMapping", "deletionVectors"},
        ),
        ((1, 2), ["delta.checkpointPolicy=v2"], (3, 7), {"v2Checkpoint"}, {"v2Checkpoint"}),
    ],
)
def test_a_property_adds_its_feature_as_spark_does(
    before: tuple[int, int],
    changes: list[str],
    versions: tuple[int, int],
    readers: set[str] | None,
    writers: set[str] | None,
) -> None:
    builder = new_table()
    names = ("minReaderVersion", "minWriterVersion")
    builder.change_metadata(protocol={"protocol": dict(zip(names, before, strict=True))})
    report = alter(builder.store, properties=dict(text.split("=") for text in changes))
    found = Table("x", store=builder.store).snapshot().protocol
    assert (found.min_reader_version, found.min_writer_version) == versions
    assert found.reader_features == readers
    assert found.writer_features == (writers and writers | {"appendOnly", "invariants"})
    assert ("protocol" in actions(builder.store, 3)) == bool(report.plan.added)


def test_column_mapping_gives_ids_as_spark_does() -> None:
    builder = new_table()
    rows = builder.rows()
    set_property(builder, "delta.columnMapping.mode", "name")
    snapshot = Table("x", store=builder.store).snapshot()
    fields = json.loads(snapshot.metadata.schema_string or "")["fields"]
    ids = [field["metadata"]["delta.columnMapping.id"] for field in fields]
    members = fields[1]["type"]["fields"]
    ids += [field["metadata"]["delta.columnMapping.id"] for field in members]
    element = members[1]["type"]["elementType"]["fields"][0]["metadata"]
    assert (ids, element["delta.columnMapping.id"]) == ([1, 2, 6, 3, 4], 5)
    assert element["delta.columnMapping.physicalName"] == "q"
    assert snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == "6"
    assert Table("x", store=builder.store).scan().read_all().num_rows == len(rows)
    for mode in ("none", "id"):
        with pytest.raises(SafetyError, match=f"from name to {mode}"):
            set_property(builder, "delta.columnMapping.mode", mode)


def test_row_tracking_gives_ids_to_all_files_first() -> None:
    builder = new_table()
    report = set_property(builder, "delta.enableRowTracking", "true")
    assert [step.operation for step in report.plan.steps] == [
        "UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES",
    ]  # fmt: skip
    assert report.version_after == 4
    files = Table("x", store=builder.store).snapshot().files
    assert sorted(files["base_row_id"].to_pylist()) == [0, 1]
    assert set(files["default_row_commit_version"].to_pylist()) == {3}
    assert actions(builder.store, 3)["add"]["dataChange"] is False
    assert actions(builder.store, 4)["commitInfo"]["tags"]["rowTrackingEnablementOnly"] == "true"
    named = properties(builder.store)
    assert named["delta.rowTracking.materializedRowIdColumnName"].startswith("_row-id-col-")
    set_property(builder, "delta.enableRowTracking", "false")
    report = set_property(builder, "delta.enableRowTracking", "true")
    assert (len(report.plan.steps), properties(builder.store)) == (1, named)


def test_row_ids_are_given_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_FILES_PER_COMMIT", 1)
    builder = new_table()
    assert set_property(builder, "delta.enableRowTracking", "true").version_after == 5
    infos = [actions(builder.store, version)["commitInfo"] for version in (3, 4)]
    assert [info["operationParameters"]["batchId"] for info in infos] == ["0", "1"]
    files = Table("x", store=builder.store).snapshot().files
    assert sorted(files["base_row_id"].to_pylist()) == [0, 1]


def test_row_tracking_needs_the_number_of_rows_of_each_file() -> None:
    builder = new_table()
    builder.append([{"id": 3, "s": None, "p": "a"}], stats=None)
    with pytest.raises(SafetyError, match="how many rows"):
        set_property(builder, "delta.enableRowTracking", "true")


def test_in_commit_timestamps_say_since_when() -> None:
    builder = new_table()
    set_property(builder, "delta.enableInCommitTimestamps", "true")
    found = actions(builder.store, 2)
    stamp = found["commitInfo"]["inCommitTimestamp"]
    expected = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": str(stamp),
    }
    assert found["metaData"]["configuration"] == expected
    set_property(builder, "delta.enableInCommitTimestamps", "false")
    assert "inCommitTimestamp" not in actions(builder.store, 3)["commitInfo"]


@pytest.mark.parametrize(
    ("stored", "changes", "said"),
    [
        (
            {"delta.enableIcebergCompatV1": "true"},
            {"delta.enableDeletionVectors": "true"},
            "readers",
        ),
        (
            {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
            {"delta.enableDeletionVectors": "true"},
            "manifests",
        ),
        (
            {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
            {"delta.columnMapping.mode": "name"},
            "manifests",
        ),
        (
            {},
            {
                "delta.columnMapping.mode": "name",
                "delta.compatibility.symlinkFormatManifest.enabled": "true",
            },
            "column mapping",
        ),
        ({"delta.rowTrackingSuspended": "true"}, {"delta.enableRowTracking": "true"}, "Suspended"),
        ({}, {"delta.dataSkippingStatsColumns": "id,s.y"}, r"s\.y"),
        ({}, {"delta.dataSkippingStatsColumns": "p"}, "'p'"),
        ({}, {"delta.dataSkippingStatsColumns": "id, `id`"}, "id is given twice"),
    ],
)
def test_properties_that_do_not_fit_are_refused(
    stored: dict[str, str], changes: dict[str, str], said: str
) -> None:
    builder = new_table(properties=stored)
    with pytest.raises((SafetyError, UsageError), match=said):
        alter(builder.store, properties=changes)
    assert latest(builder.store) == 1


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("id,flag", "'flag'"),
        ("bytes", "'bytes'"),
        ("list", "'list'"),
        ("map", "'map'"),
        ("s,s.x", r"s\.x is given twice"),
        ("s", None),
        ("s.a,id", None),
    ],
)
def test_statistics_of_columns_that_spark_refuses(names: str, said: str | None) -> None:
    """As Delta on Spark 4.4: only at the top level does the type matter."""
    columns = [
        Column("id"), Column("flag", "boolean"), Column("bytes", "binary"), Column("s", NESTED),
        Column("list", array_of("string")), Column("map", map_of("string", "string")),
    ]  # fmt: skip
    builder = TableBuilder(fresh_store(), columns)
    with nullcontext() if said is None else pytest.raises(UsageError, match=said):
        set_property(builder, "delta.dataSkippingStatsColumns", names)


@pytest.mark.parametrize("name", ["order date", "a.b", "a,b"])
def test_a_name_that_needs_backticks_is_refused_without_them(name: str) -> None:
    """All statistics of the column would end: readers of the property drop the space."""
    builder = TableBuilder(fresh_store(), [Column("id"), Column(name)])
    for number in (1, 3):
        builder.append([{"id": number, name: number + 1}], stats=None)
    key = "delta.dataSkippingStatsColumns"
    with pytest.raises(UsageError, match="no data column") as caught:
        set_property(builder, key, name)
    if "," not in name:
        assert caught.value.hint == f"Write `{name}`, with the backticks."
    set_property(builder, key, f"id,`{name}`")
    table = Table("x", store=builder.store)
    table.optimize()
    (stats,) = table.snapshot().files["stats"].to_pylist()
    assert json.loads(stats)["maxValues"] == {"id": 3, name: 4}


def test_a_property_that_another_one_replaces_gives_a_warning() -> None:
    builder = new_table()
    said: list[str] = []
    table = Table("x", store=builder.store, warn=said.append)
    table.alter(properties={"delta.dataSkippingNumIndexedCols": "3"})
    table.alter(properties={"delta.dataSkippingStatsColumns": "id"})
    assert said == []
    table.alter(properties={"delta.dataSkippingNumIndexedCols": "-1"})
    assert said == [
        "delta.dataSkippingNumIndexedCols has no effect: delta.dataSkippingStatsColumns is set, "
        "and replaces it"
    ]
    table.alter(unset=["delta.dataSkippingNumIndexedCols"])
    assert len(said) == 1


def test_other_writers_may_name_columns_that_do_not_exist() -> None:
    said: list[str] = []
    builder = new_table(properties={"delta.dataSkippingStatsColumns": "id,order date"})
    table = Table("x", store=builder.store, warn=said.append)
    known = "has 'order date', which is no data column"
    assert [known in note for note in table.check().notes] == [True]
    builder.append([{"id": 3, "s": None, "p": "a"}])
    table.optimize()
    assert [known in text for text in dict.fromkeys(said)] == [True]


def test_features_are_added_or_refused_by_name() -> None:
    builder = new_table()
    alter(builder.store, add_feature=("vacuumProtocolCheck", "rowTracking"))
    features = list_features(Table("x", store=builder.store).snapshot().protocol)
    assert features >= {"vacuumProtocolCheck", "rowTracking", "domainMetadata"}
    assert "metaData" not in actions(builder.store, 2)
    parameters = actions(builder.store, 2)["commitInfo"]["operationParameters"]
    assert '"delta.feature.vacuumProtocolCheck":"supported"' in parameters["properties"]
    for name, said in (("clustering", "CLUSTER BY"), ("catalogManaged", "new"), ("vacum", "known")):
        with pytest.raises(UsageError, match=said):
            alter(builder.store, add_feature=(name,))


@pytest.mark.parametrize(
    ("feature", "act", "is_conflict"),
    [
        ("deletionVectors", lambda it: it.append([{"id": 3, "s": None, "p": "a"}]), False),
        ("deletionVectors", lambda it: it.remove(next(iter(it.data))), False),
        ("deletionVectors", lambda it: it.change_metadata(name="x"), True),
        ("deletionVectors", lambda it: it.commit(it.protocol_action(["domainMetadata"])), True),
    ],
    ids=["append", "remove", "metadata", "protocol"],
)
def test_another_writer_may_change_files_only(
    feature: str, act: Callable[[TableBuilder], object], is_conflict: bool
) -> None:
    builder = new_table()

    def confirm(_: object) -> bool:
        act(builder)
        return True

    if is_conflict:
        with pytest.raises(ConflictError, match="another writer"):
            alter(builder.store, add_feature=(feature,), confirm=confirm)
        return
    assert alter(builder.store, add_feature=(feature,), confirm=confirm).version_after == 3


def test_files_that_others_add_meanwhile_get_row_ids_too() -> None:
    builder = new_table()

    def confirm(_: object) -> bool:
        builder.append([{"id": 3, "s": None, "p": "a"}])
        return True

    alter(builder.store, properties={"delta.enableRowTracking": "true"}, confirm=confirm)
    files = Table("x", store=builder.store).snapshot().files
    assert sorted(files["base_row_id"].to_pylist()) == [0, 1, 2]
    with pytest.raises(SafetyError, match="not confirmed"):
        alter(builder.store, add_feature=("deletionVectors",), confirm=lambda _: False)
