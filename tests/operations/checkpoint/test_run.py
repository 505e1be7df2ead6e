"""What a checkpoint holds, which kind is written, and what makes it be refused."""

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import (
    CorruptLogError,
    MissingLogFileError,
    SafetyError,
    UnsupportedFeatureError,
    UsageError,
    VersionNotFoundError,
    ignore_warning,
)
from deltactl.log.checkpoint.schema import spark_schema
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.plan import is_due
from deltactl.operations.checkpoint.run import CheckpointOptions, check_due, checkpoint_table
from tests.interop.judges import READERS, try_count
from tests.support.checkpoints import (
    DAY_MS,
    NOW_MS,
    checkpoint,
    fail,
    hint_of,
    log_names,
    memory_of,
    new_table,
    read_rows,
)
from tests.support.clock import FixedClock
from tests.support.damage import measure
from tests.support.run import run_on
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path, struct_of

CLASSIC = f"{LOG}/{2:020d}.checkpoint.parquet"
# What Delta on Spark 4.4.0 writes, but for `deletionVector.maxRowIndex`, which is always null.
SPARK_ADD = [
    *("path", "partitionValues", "size", "modificationTime", "dataChange", "tags"),
    *("deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
    *("stats", "partitionValues_parsed", "stats_parsed"),
]


def table(**options: Any) -> TableBuilder:
    """Version 2: three files in two partitions live, one removed."""
    builder = new_table(partition_by=["p"], **options)
    paths = builder.append([{"id": 1, "p": "x"}], [{"id": 2, "p": None}])
    adds = [builder.write_file([{"id": n, "p": "x y"}]) for n in (3, 4)]
    builder.commit(*adds, builder.remove_action(paths[0]))
    return builder


def add_members(builder: TableBuilder, **options: Any) -> list[str]:
    checkpoint(builder.store, **options)
    schema = pq.read_schema(io.BytesIO(builder.store.read(CLASSIC)))
    return [field.name for field in schema.field("add").type]


def test_columns_and_their_order_are_those_of_spark() -> None:
    builder = table()
    assert add_members(builder, compat="spark") == SPARK_ADD
    parquet = pq.ParquetFile(io.BytesIO(builder.store.read(CLASSIC)))
    names = parquet.schema_arrow.names
    assert names == ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    text = str(parquet.schema)
    assert "required group" not in text.replace("required group field_id=-1 schema", "")
    assert "repeated group field_id=-1 key_value" in text
    assert "repeated group field_id=-1 list" in text


@pytest.mark.parametrize(
    ("options", "compression", "encodings"),
    [
        ({}, "SNAPPY", {"PLAIN", "RLE", "PLAIN_DICTIONARY"}),
        ({"compat": "plain"}, "UNCOMPRESSED", {"PLAIN", "RLE"}),
    ],
)
def test_pages_and_encodings_are_old_and_plain(
    options: dict[str, Any], compression: str, encodings: set[str]
) -> None:
    builder = table()
    checkpoint(builder.store, **options)
    metadata = pq.read_metadata(io.BytesIO(builder.store.read(CLASSIC)))
    chunks = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    assert metadata.format_version == "1.0"
    assert {c.compression for c in chunks} == {compression}
    assert {e for c in chunks for e in c.encodings} <= encodings
    assert metadata.metadata is None or b"ARROW:schema" not in metadata.metadata


@pytest.mark.parametrize(
    ("as_json", "as_struct", "expected"),
    [
        (None, None, ["stats"]),
        ("true", "false", ["stats"]),
        ("true", "true", ["stats", "partitionValues_parsed", "stats_parsed"]),
        ("false", "true", ["partitionValues_parsed", "stats_parsed"]),
        ("false", None, []),
        ("false", "false", []),
    ],
)
def test_statistics_follow_the_properties(
    as_json: str | None, as_struct: str | None, expected: list[str]
) -> None:
    given = {"Json": as_json, "Struct": as_struct}
    properties = {f"delta.checkpoint.writeStatsAs{k}": v for k, v in given.items() if v}
    members = add_members(table(properties=properties))
    assert members[10:] == expected


def test_statistics_and_partitions_as_structs() -> None:
    columns = [
        *(Column("id"), Column("s", "string"), Column("ts", "timestamp")),
        *(Column("st", struct_of(Column("x", "integer"))), Column("d", "date")),
    ]
    builder = new_table(*columns, partition_by=["d"], features=["deletionVectors"])
    stats = {
        "numRecords": 2,
        "minValues": {"id": 1, "s": "a", "ts": "2024-01-01T00:00:00.123Z", "st": {"x": 5}},
        "nullCount": {"id": 0, "st": {"x": 1}},
        "tightBounds": True,
    }
    row = {"id": 1, "d": dt.date(2024, 1, 2)}
    builder.commit(builder.write_file([row], stats=json.dumps(stats)))
    builder.commit(builder.write_file([{"id": 1, "d": None}], stats=None))
    checkpoint(builder.store, compat="spark")
    first, second = read_rows(builder.store, CLASSIC, "add")
    parsed = first["stats_parsed"]
    assert (parsed["numRecords"], parsed["tightBounds"]) == (2, True)
    assert parsed["minValues"]["st"] == {"x": 5}
    assert parsed["minValues"]["ts"].isoformat()[:23] == "2024-01-01T00:00:00.123"
    assert parsed["nullCount"]["id"] == 0
    assert first["partitionValues_parsed"] == {"d": dt.date(2024, 1, 2)}
    assert second["partitionValues_parsed"] == {"d": None}
    assert second["stats_parsed"] is None


def test_a_partition_value_of_another_type_is_null_when_parsed() -> None:
    builder = new_table(Column("id"), Column("n", "integer"), partition_by=["n"])
    add = builder.write_file([{"id": 1, "n": 7}])
    odd = builder.write_file([{"id": 2, "n": 8}])
    odd["add"]["partitionValues"]["n"] = "eight"
    builder.commit(add, odd)
    builder.commit()
    checkpoint(builder.store, compat="spark")
    rows = read_rows(builder.store, CLASSIC, "add")
    assert [row["partitionValues_parsed"]["n"] for row in rows] == [7, None]
    assert [dict(row["partitionValues"])["n"] for row in rows] == ["7", "eight"]


def test_json_statistics_come_back_from_structs_alone() -> None:
    properties = {
        "delta.checkpoint.writeStatsAsJson": "false",
        "delta.checkpoint.writeStatsAsStruct": "true",
    }
    builder = table(properties=properties)
    before = DeltaLog(builder.store, fail).snapshot().files["stats"].to_pylist()
    checkpoint(builder.store)
    builder.forget_commits(2)
    after = DeltaLog(builder.store, fail).snapshot().files["stats"].to_pylist()
    assert sorted(map(json.loads, after), key=str) == sorted(map(json.loads, before), key=str)


def test_every_member_of_an_add_survives() -> None:
    builder = new_table(features=["deletionVectors", "rowTracking"])
    tags = {"ZCUBE_ID": "1", "a.b": "é"}
    add = builder.write_file([{"id": 1, "p": None}], tags=tags, clusteringProvider="liquid")
    builder.commit(add)
    builder.delete_rows(add["add"]["path"], [0])
    checkpoint(builder.store)
    (found,) = read_rows(builder.store, CLASSIC, "add")
    expected = {**builder.find(add["add"]["path"]), "dataChange": False}
    found = {**found, "tags": dict(found["tags"]), "partitionValues": {}}
    found = {name: value for name, value in found.items() if value is not None}
    assert found == expected


def test_an_invalid_retention_of_tombstones_is_refused() -> None:
    builder = new_table(properties={"delta.deletedFileRetentionDuration": "interval 1 month"})
    with pytest.raises(SafetyError, match=r"delta\.deletedFileRetentionDuration is invalid"):
        checkpoint(builder.store)


def test_tombstones_stay_for_as_long_as_the_table_says_and_no_longer() -> None:
    builder = new_table(properties={"delta.deletedFileRetentionDuration": "interval 2 days"})
    old = NOW_MS - 2 * DAY_MS
    removes: list[dict[str, Any]] = [
        {"path": "expired", "deletionTimestamp": old, "dataChange": True},
        {"path": "kept", "deletionTimestamp": old + 1, "dataChange": True, "size": 3},
        {"path": "no%20time", "dataChange": True},
    ]
    add = {"partitionValues": {}, "size": 3, "modificationTime": 1, "dataChange": True}
    builder.commit(*({"add": {**add, "path": remove["path"]}} for remove in removes))
    builder.commit(*({"remove": remove} for remove in removes))
    report = checkpoint(builder.store)
    (kept,) = read_rows(builder.store, CLASSIC, "remove")
    assert (kept["path"], kept["dataChange"], kept["size"]) == ("kept", False, 3)
    assert "tags" not in kept
    assert "stats" not in kept
    assert report.written is not None
    assert report.written.num_removes == 1


def test_transactions_expire_where_the_table_says_so() -> None:
    key = "delta.setTransactionRetentionDuration"
    txns = [
        {"appId": "old", "version": 1, "lastUpdated": NOW_MS - DAY_MS},
        {"appId": "new", "version": 2, "lastUpdated": NOW_MS - DAY_MS + 1},
        {"appId": "timeless", "version": 3},
    ]
    for properties, expected in (({}, ["new", "old", "timeless"]), ({key: "1 day"}, ["new"])):
        builder = new_table(properties=properties)
        builder.commit(*({"txn": txn} for txn in txns))
        builder.commit()
        checkpoint(builder.store)
        found = read_rows(builder.store, CLASSIC, "txn")
        assert sorted(txn["appId"] for txn in found) == expected


def test_live_domains_are_kept_and_removed_ones_are_not() -> None:
    builder = new_table(features=["domainMetadata"], domains={"a": "{}", "b": '{"x":1}'})
    builder.commit(
        {"domainMetadata": {"domain": "a", "configuration": "{}", "removed": True}},
        {"domainMetadata": {"domain": "unheard.of", "configuration": "raw", "removed": False}},
    )
    builder.commit()
    checkpoint(builder.store)
    found = read_rows(builder.store, CLASSIC, "domainMetadata")
    assert {d["domain"]: (d["configuration"], d["removed"]) for d in found} == {
        "b": ('{"x":1}', False),
        "unheard.of": ("raw", False),
    }


def test_metadata_and_protocol_are_whole() -> None:
    builder = new_table(features=["deletionVectors"], properties={"k": "v"})
    builder.change_metadata(name="n", description="d")
    body = builder.state.metadata
    assert body is not None
    body["format"] = {"provider": "parquet", "options": {"o": "1"}}
    builder.commit({"metaData": body})
    checkpoint(builder.store)
    (metadata,) = read_rows(builder.store, CLASSIC, "metaData")
    maps = {"configuration": dict(metadata["configuration"])}
    form = {"provider": "parquet", "options": dict(metadata["format"]["options"])}
    assert {**metadata, **maps, "format": form} == body
    (protocol,) = read_rows(builder.store, CLASSIC, "protocol")
    assert protocol == builder.state.protocol


def test_partition_columns_of_the_past_leave_no_nulls() -> None:
    """The log is read by columns, where a key that any row has is a null in every other."""
    builder = new_table(Column("id"), Column("a", "string"), partition_by=["a"])
    (path,) = builder.append([{"id": 1, "a": "x"}])
    metadata = builder.metadata_action(columns=[Column("id"), Column("b", "string")])
    metadata["metaData"]["partitionColumns"] = ["b"]
    builder.partition_by = ("b",)
    remove = builder.remove_action(path)
    remove["remove"]["deletionTimestamp"] = NOW_MS
    builder.commit(metadata, remove)
    builder.commit(
        builder.write_file([{"id": 2, "b": "y"}]), builder.write_file([{"id": 3, "b": None}])
    )
    checkpoint(builder.store, version=3)
    name = f"{LOG}/{3:020d}.checkpoint.parquet"
    adds = read_rows(builder.store, name, "add")
    assert [row["partitionValues"] for row in adds] == [[("b", "y")], [("b", None)]]
    removes = read_rows(builder.store, name, "remove")
    assert [row["partitionValues"] for row in removes] == [[("a", "x"), ("b", None)]]


def test_two_thousand_columns_void_and_empty_structs() -> None:
    columns = [Column(f"c{n}") for n in range(2000)]
    columns += [
        Column("v", "void"),
        Column("e", struct_of()),
        Column("w", struct_of(Column("x", "void"))),
    ]
    builder = new_table(
        *columns,
        properties={
            "delta.dataSkippingNumIndexedCols": "-1",
            "delta.checkpoint.writeStatsAsStruct": "true",
        },
    )
    bounds = {f"c{n}": n for n in range(2000)}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": bounds}
    add = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    builder.commit({"add": {**add, "stats": json.dumps(stats)}}, {"add": {**add, "path": "b"}})
    builder.commit()
    checkpoint(builder.store)
    first, second = read_rows(builder.store, CLASSIC, "add")
    assert first["stats_parsed"]["minValues"] == bounds
    assert second["stats_parsed"] is None
    assert "checkpointSchema" not in hint_of(builder.store)
    assert DeltaLog(builder.store, fail).snapshot().num_files == 2


def test_a_checkpoint_of_an_empty_table_has_no_files() -> None:
    for features in ([], ["v2Checkpoint"]):
        kinds = ("auto", "v2") if features else ("auto", "classic")
        for kind in kinds:
            builder = new_table(features=features)
            report = checkpoint(builder.store, kind=kind)
            assert report.written is not None
            assert (report.written.num_adds, report.written.sidecars) == (0, ())
            assert DeltaLog(builder.store, fail).snapshot().num_files == 0


# -- kinds -------------------------------------------------------------------------------------


def test_auto_follows_policy_and_protocol() -> None:
    policy = {"delta.checkpointPolicy": "v2"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "classic"),
        ({"features": ["v2Checkpoint"]}, "classic"),
        ({"features": ["v2Checkpoint"], "properties": policy}, "v2"),
    ]
    for options, kind in cases:
        report = checkpoint(table(**options).store)
        assert report.written is not None
        assert report.written.kind == kind
    said: list[str] = []
    store = table(properties=policy).store
    report = run_on(store, checkpoint_table, CheckpointOptions(), warn=said.append)
    assert report.plan.kind == "classic"
    assert "v2Checkpoint" in said[0]


@pytest.mark.parametrize("feature", ["catalogManaged", "notYetInvented"])
def test_unknown_and_foreign_tables_are_refused(feature: str) -> None:
    builder = table(features=[feature])
    for options in ({}, {"cleanup_only": True}):
        with pytest.raises(UnsupportedFeatureError, match=feature):
            checkpoint(builder.store, **options)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_sidecars_and_what_names_them(form: str) -> None:
    builder = table(features=["v2Checkpoint"], domains={"a": "{}"})
    report = checkpoint(builder.store, kind="v2", sidecar_rows=2, top_format=form)
    written = report.written
    assert written is not None
    assert len(written.sidecars) == 2
    (top,) = written.names
    rows = (
        [json.loads(line) for line in builder.store.read(top).decode().splitlines()]
        if form == "json"
        else read_rows(builder.store, top)
    )
    kinds = [next(iter(row)) for row in rows]
    assert kinds == [
        *("checkpointMetadata", "sidecar", "sidecar", "protocol", "metaData", "domainMetadata")
    ]
    tags = dict(rows[0]["checkpointMetadata"]["tags"])
    assert rows[0]["checkpointMetadata"]["version"] == 2
    assert (tags["sidecarNumActions"], tags["numOfAddFiles"]) == ("3", "3")
    for row, name in zip(rows[1:3], written.sidecars, strict=True):
        (info,) = builder.store.stat_many([name])
        assert info is not None
        assert row["sidecar"]["path"] == name.rpartition("/")[2]
        assert row["sidecar"]["sizeInBytes"] == info.size_bytes
        assert row["sidecar"]["modificationTime"] == info.modified_ms
        schema = pq.read_schema(io.BytesIO(builder.store.read(name)))
        assert schema.names == ["add", "remove"]
        assert json.loads(tags["sidecarFileSchema"]) == spark_schema(schema)
        assert len(read_rows(builder.store, name)) <= 2
    hint = hint_of(builder.store)
    assert hint["size"] == 3 + len(rows)
    assert hint["v2Checkpoint"]["path"] == top.rpartition("/")[2]
    assert len(hint["v2Checkpoint"]["sidecarFiles"]) == 2
    assert [next(iter(a)) for a in hint["v2Checkpoint"]["nonFileActions"]] == kinds[3:]
    assert "checkpointSchema" not in hint


def test_long_lists_are_left_out_of_the_hint() -> None:
    builder = new_table(features=["v2Checkpoint", "domainMetadata"])
    builder.commit(*({"txn": {"appId": f"a{n}", "version": n}} for n in range(31)))
    builder.append(*([{"id": n, "p": None}] for n in range(31)))
    checkpoint(builder.store, kind="v2", sidecar_rows=1)
    assert set(hint_of(builder.store)["v2Checkpoint"]) == {
        "path",
        "sizeInBytes",
        "modificationTime",
    }


@pytest.mark.parametrize("kind", ["classic", "v2"])
def test_a_sidecar_that_is_listed_twice_counts_once(kind: str) -> None:
    builder = table(features=["v2Checkpoint"])
    builder.checkpoint(kind="v2-json")
    (top,) = (name for name in log_names(builder.store) if ".checkpoint." in name)
    lines = builder.store.read(f"{LOG}/{top}").splitlines(keepends=True)
    twice = [*lines, *(line for line in lines if b'"sidecar"' in line)]
    builder.store.put(f"{LOG}/{top}", b"".join(twice))
    builder.append([{"id": 9, "p": "x"}])
    written = checkpoint(builder.store, kind=kind).written
    assert written is not None
    assert written.num_adds == 4


@pytest.mark.parametrize("kind", ["classic", "v2"])
def test_a_damaged_sidecar_is_named(kind: str) -> None:
    builder = table(features=["v2Checkpoint"])
    builder.checkpoint(kind="v2-json")
    store = memory_of(builder)
    name = next(info.name for info in store.list_from(f"{LOG}/_sidecars"))
    store.put(name, bytes(len(store.read(name))))
    builder.append([{"id": 9, "p": "x"}])
    with pytest.raises(CorruptLogError, match=name):
        checkpoint(store, kind=kind)


@pytest.mark.parametrize("is_truncated", [False, True])
@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("is_newest", [True, False])
def test_a_checkpoint_with_a_lost_sidecar_is_written_again(
    is_truncated: bool, form: str, is_newest: bool
) -> None:
    builder = table(features=["v2Checkpoint"], properties={"delta.checkpointPolicy": "v2"})
    store = memory_of(builder)
    old = checkpoint(store, top_format=form).written
    assert old is not None
    (lost,) = old.sidecars
    if not is_newest:
        builder.append([{"id": 9, "p": "x"}])
    before = DeltaLog(store, fail).snapshot().files["path"].to_pylist()
    if is_truncated:
        store.put(lost, store.read(lost)[:-9])
    else:
        store.delete_many([lost])
    due = check_due(DeltaLog(store, ignore_warning), None)
    assert (due.due, due.last) == (True, -1)
    warnings = list[str]()
    new = run_on(store, checkpoint_table, CheckpointOptions(), warn=warnings.append).written
    assert new is not None
    assert lost in warnings[0]
    assert (new.names == old.names) == is_newest
    assert sorted(DeltaLog(store, fail).snapshot().files["path"].to_pylist()) == sorted(before)
    assert [c.names for c in DeltaLog(store, fail).checkpoints][-1] == new.names
    (listed,) = hint_of(store)["v2Checkpoint"]["sidecarFiles"]
    assert f"{LOG}/_sidecars/{listed['path']}" == new.sidecars[0]
    assert checkpoint(store).plan.is_empty


def test_a_lost_sidecar_without_older_commits_is_named() -> None:
    builder = table(features=["v2Checkpoint"])
    store = memory_of(builder)
    written = checkpoint(store, kind="v2").written
    assert written is not None
    builder.forget_commits(1)
    store.delete_many(written.sidecars)
    before = store.contents()
    with pytest.raises(MissingLogFileError, match=written.sidecars[0]) as caught:
        run_on(store, checkpoint_table, CheckpointOptions(), warn=ignore_warning)
    assert "Restore this file, or the commits" in str(caught.value.hint)
    assert store.contents() == before


# -- the hint, and doing nothing ----------------------------------------------------------------


def test_the_hint_says_what_is_there() -> None:
    builder = table()
    report = checkpoint(builder.store)
    hint = hint_of(builder.store)
    schema = pq.read_schema(io.BytesIO(builder.store.read(CLASSIC)))
    assert hint["checkpointSchema"] == spark_schema(schema)
    assert (hint["version"], hint["size"], hint["numOfAddFiles"]) == (2, 5, 3)
    assert hint["sizeInBytes"] == len(builder.store.read(CLASSIC))
    assert list(hint) == [
        *("version", "size", "sizeInBytes", "numOfAddFiles", "checkpointSchema", "checksum")
    ]
    assert report.hint_moved


def test_a_hint_never_goes_back() -> None:
    builder = table()
    checkpoint(builder.store)
    before = builder.store.read(f"{LOG}/_last_checkpoint")
    report = checkpoint(builder.store, version=1)
    assert report.written is not None
    assert not report.hint_moved
    assert builder.store.read(f"{LOG}/_last_checkpoint") == before
    assert DeltaLog(builder.store, fail).snapshot(1).num_files == 2


@pytest.mark.parametrize("truncated", [b"", b'{"version":', b'{"version":1,"size":1}', None])
def test_a_hint_that_is_invalid_is_replaced(truncated: bytes | None) -> None:
    builder = table()
    if truncated is not None:
        builder.store.put(f"{LOG}/_last_checkpoint", truncated)
    run_on(builder.store, checkpoint_table, CheckpointOptions(), clock=FixedClock(NOW_MS))
    assert hint_of(builder.store)["version"] == 2


@pytest.mark.parametrize(
    "old", [b'{"version":1,"size":1}', b'{"version":2,"size":5,"parts":3}', None]
)
@pytest.mark.parametrize("kind", ["classic", "multipart"])
def test_a_hint_that_an_earlier_run_could_not_replace_is_replaced(
    old: bytes | None, kind: str
) -> None:
    builder = table()
    builder.checkpoint(kind=kind)
    name = f"{LOG}/_last_checkpoint"
    builder.store.delete_many([name])
    if old is not None:
        builder.store.put(name, old)
    before = memory_of(builder).contents()
    planned = run_on(
        builder.store, checkpoint_table, CheckpointOptions(), clock=FixedClock(NOW_MS), dry_run=True
    )
    assert not planned.is_empty
    assert memory_of(builder).contents() == before
    report = checkpoint(builder.store)
    assert (report.written, report.hint_moved, report.is_empty) == (None, True, False)
    assert memory_of(builder).contents() == before | {name: builder.store.read(name)}
    assert hint_of(builder.store)["version"] == 2
    assert checkpoint(builder.store).is_empty


def test_a_checkpoint_is_not_announced_before_a_newer_one() -> None:
    builder = table()
    builder.checkpoint(version=1)
    builder.checkpoint(version=2)
    builder.store.delete_many([f"{LOG}/_last_checkpoint"])
    options = CheckpointOptions(version=1)
    planned = run_on(builder.store, checkpoint_table, options, dry_run=True)
    assert planned.is_empty
    assert checkpoint(builder.store, version=1).is_empty


@pytest.mark.parametrize("kept", [0, 2])
def test_a_checkpoint_that_lacks_a_file_is_not_announced(kept: int) -> None:
    """Without the older commits, nothing shows that it does."""
    builder = table()
    builder.checkpoint()
    name, rows = CLASSIC, read_rows(builder.store, CLASSIC)
    lacking = next(row for row in rows if "add" in row)
    buffer = io.BytesIO()
    schema = pq.read_schema(io.BytesIO(builder.store.read(name)))
    pq.write_table(pa.Table.from_pylist([r for r in rows if r != lacking], schema), buffer)
    builder.store.put(name, buffer.getvalue())
    builder.store.delete_many([f"{LOG}/_last_checkpoint"])
    builder.forget_commits(kept)
    if kept:
        assert checkpoint(builder.store).hint_moved
        return
    for dry_run in (True, False):
        with pytest.raises(SafetyError, match="checkpoint of version 2 .* disagrees") as caught:
            run_on(builder.store, checkpoint_table, CheckpointOptions(), dry_run=dry_run)
        assert "--repair" in (caught.value.hint or "")
    assert f"{LOG}/_last_checkpoint" not in memory_of(builder).contents()


def test_a_second_run_does_nothing() -> None:
    builder = table()
    checkpoint(builder.store)
    before = memory_of(builder).contents()
    report = checkpoint(builder.store)
    assert report.is_empty
    assert report.plan.reason is not None
    assert "2.checkpoint.parquet" in report.plan.reason
    assert memory_of(builder).contents() == before
    again = checkpoint(builder.store, kind="classic")
    assert again.is_empty
    assert memory_of(builder).contents() == before


def test_no_version_gets_one_file_beside_parts(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    builder.append([{"id": 1}], [{"id": 2}])
    builder.checkpoint(kind="multipart")
    assert checkpoint(builder.store, kind="classic").written is None
    assert {reader: try_count(reader, tmp_path) for reader in READERS} == dict.fromkeys(
        READERS, (2, "")
    )


def test_a_version_without_its_commit_is_not_checkpointed() -> None:
    builder = table(features=["v2Checkpoint"])
    checkpoint(builder.store)
    builder.forget_commits(3)
    assert checkpoint(builder.store).is_empty
    with pytest.raises(SafetyError, match="its commit file was deleted"):
        checkpoint(builder.store, kind="v2")


@pytest.mark.parametrize("wrong", [{"sidecar_rows": 0}, {"cleanup_only": True, "kind": "v2"}])
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CheckpointOptions(**wrong)


@pytest.mark.parametrize(
    ("last", "version", "expected"),
    [(-1, 9, False), (-1, 10, True), (-1, 0, False), (10, 19, False), (10, 20, True)]
    + [(12, 19, False), (12, 20, True), (12, 31, True), (20, 20, False)],
)
def test_when_a_checkpoint_is_due(last: int, version: int, expected: bool) -> None:
    assert is_due(last, version, 10) is expected


# -- checksum files ----------------------------------------------------------------------------


def crc_of(builder: TableBuilder, version: int) -> dict[str, Any]:
    state = builder.state_at(version)
    return {
        "tableSizeBytes": sum(add["size"] for add in state.files.values()),
        "numFiles": len(state.files),
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": state.metadata,
        "protocol": state.protocol,
    }


def crc_name(version: int) -> str:
    return f"{LOG}/{version:020d}.crc"


def test_a_checksum_file_is_written_where_the_table_has_them() -> None:
    builder = table(features=["inCommitTimestamp", "domainMetadata"], domains={"a": "{}"})
    builder.commit({"txn": {"appId": "x", "version": 1}}, txnId="id of the commit")
    assert checkpoint(builder.store, version=1).checksum is None, "no file, none written"
    builder.store.put(crc_name(4), json.dumps(crc_of(builder, 3)).encode())
    builder.commit()
    builder.commit(txnId="the last")
    report = checkpoint(builder.store)
    assert report.checksum == crc_name(5)
    found = json.loads(builder.store.read(crc_name(5)))
    expected = crc_of(builder, 5)
    assert {name: found[name] for name in expected} == expected
    assert found["setTransactions"] == [{"appId": "x", "version": 1}]
    assert found["domainMetadata"] == [{"domain": "a", "configuration": "{}", "removed": False}]
    assert found["txnId"] == "the last"
    commit = json.loads(builder.store.read(commit_path(5)).splitlines()[0])
    assert found["inCommitTimestampOpt"] == commit["commitInfo"]["inCommitTimestamp"]


@pytest.mark.parametrize("change", [{"numFiles": 9}, {"tableSizeBytes": 1}, {"protocol": None}])
def test_a_checksum_file_that_disagrees_is_reported_and_left(change: dict[str, Any]) -> None:
    builder = table()
    measure(builder)
    wrong = json.dumps(crc_of(builder, 2) | change).encode()
    builder.store.put(crc_name(2), wrong)
    said: list[str] = []
    run_on(builder.store, checkpoint_table, CheckpointOptions(), warn=said.append)
    assert len(said) == 1
    assert crc_name(2) in said[0]
    assert builder.store.read(crc_name(2)) == wrong


def test_a_checksum_file_that_agrees_is_not_mentioned() -> None:
    builder = table()
    builder.store.put(crc_name(2), json.dumps(crc_of(builder, 2)).encode())
    checkpoint(builder.store)


# -- log compaction ----------------------------------------------------------------------------


def test_commits_are_compacted_on_request_and_say_the_same() -> None:
    builder = table(features=["domainMetadata"], domains={"a": "{}"})
    checkpoint(builder.store, version=0)
    gone = {"domain": "a", "configuration": "{}", "removed": True}
    builder.commit({"domainMetadata": gone}, {"txn": {"appId": "x", "version": 7}})
    report = checkpoint(builder.store, kind="auto", compact_log=True)
    name = f"{LOG}/{1:020d}.{3:020d}.compacted.json"
    assert report.compaction is not None
    assert report.compaction.name == name
    lines = [json.loads(line) for line in builder.store.read(name).decode().splitlines()]
    assert {"domainMetadata": gone} in lines
    assert sum("remove" in line for line in lines) == 1
    assert not any("commitInfo" in line for line in lines)
    state = builder.state_at(0)
    state.apply(lines)
    assert state.files.keys() == builder.state.files.keys()
    assert (state.domains, state.txns["x"]["version"]) == ({}, 7)


def test_commits_that_change_nothing_are_not_compacted() -> None:
    """Of those of a vacuum nothing would be left but an empty file, which nobody can read."""
    builder = table()
    checkpoint(builder.store)
    builder.commit(operation="VACUUM START")
    builder.commit(operation="VACUUM END")
    report = checkpoint(builder.store, compact_log=True)
    assert (report.compaction_range, report.compaction) == (None, None)
    assert not [info for info in builder.store.list_from(LOG) if "compacted" in info.name]
    assert DeltaLog(builder.store, print).snapshot().version == builder.version


def test_a_chosen_range_is_compacted() -> None:
    builder = table()
    for number in range(10, 14):
        builder.append([{"p": "a", "id": number}])
    last = builder.version
    report = checkpoint(builder.store, compact_log=(2, last - 1))
    assert report.compaction is not None
    assert report.compaction.name == f"{LOG}/{2:020d}.{last - 1:020d}.compacted.json"
    assert checkpoint(builder.store, compact_log=(2, last - 1)).is_empty
    state = builder.state_at(1)
    state.apply(map(json.loads, builder.store.read(report.compaction.name).splitlines()))
    assert state.files.keys() == builder.state_at(last - 1).files.keys()
    with pytest.raises(VersionNotFoundError):
        checkpoint(builder.store, compact_log=(2, last + 1))
    with pytest.raises(UsageError, match=f"the checkpoint is of version {last - 1}"):
        checkpoint(builder.store, version=last - 1, compact_log=(2, last))


def test_nothing_is_compacted_twice() -> None:
    builder = table()
    assert checkpoint(builder.store, compact_log=True).compaction is not None
    names = log_names(builder.store)
    again = checkpoint(builder.store, compact_log=True)
    assert again.is_empty
    assert log_names(builder.store) == names


@pytest.mark.parametrize("options", [{}, {"cleanup_only": True}])
def test_the_protocol_of_today_decides_about_an_old_version(options: dict[str, Any]) -> None:
    builder = table()
    builder.commit(builder.protocol_action(["catalogManaged", "inCommitTimestamp"]))
    before = log_names(builder.store)
    with pytest.raises(UnsupportedFeatureError, match="without its catalog"):
        checkpoint(builder.store, version=1, **options)
    assert log_names(builder.store) == before
