"""Protocol, metadata and domains after a restore: what comes back, and what never goes back."""

import json
from typing import Any

import pytest

from deltactl.clock import SystemClock
from deltactl.errors import SafetyError
from deltactl.table import Table
from tests.support.restores import bodies, commit_lines, ids, latest, memory_table, restore
from tests.support.stores import MemoryStore
from tests.support.table_builder import Column, TableBuilder, commit_path


def test_the_protocol_keeps_the_features_of_both() -> None:
    builder = memory_table(features=["domainMetadata"])
    builder.append([{"id": 1}])
    builder.commit(builder.protocol_action(["deletionVectors"]))
    restore(builder.store, 1)
    (protocol,) = bodies(builder.store, 3, "protocol")
    assert protocol == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "domainMetadata"],
    }


def test_column_ids_and_protected_history_stay() -> None:
    builder = memory_table(mapping="name")
    builder.append([{"id": 1}])
    protected = {"delta.requireCheckpointProtectionBeforeVersion": "7"}
    builder.change_metadata(columns=[*builder.columns, Column("b")], properties=protected)
    restore(builder.store, 1)
    (metadata,) = bodies(builder.store, 3, "metaData")
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "2"
    assert metadata["configuration"] | protected == metadata["configuration"]
    assert [f["name"] for f in json.loads(metadata["schemaString"])["fields"]] == ["id"]


def test_row_ids_stay_and_are_assigned_where_there_were_none() -> None:
    builder = memory_table()
    (old,) = builder.append([{"id": 1}, {"id": 2}])
    builder.features = frozenset(["rowTracking"])
    names = {
        "delta.rowTracking.materializedRowIdColumnName": "_a",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_b",
        "delta.enableRowTracking": "true",
    }
    builder.remove(old)
    builder.change_metadata(protocol=builder.protocol_action(["rowTracking"]), properties=names)
    (new,) = builder.append([{"id": 3}, {"id": 4}, {"id": 5}])
    restore(builder.store, 1)
    (added,) = bodies(builder.store, 5, "add")
    assert (added["baseRowId"], added["defaultRowCommitVersion"]) == (3, 5)
    (mark,) = bodies(builder.store, 5, "domainMetadata")
    assert json.loads(mark["configuration"])["rowIdHighWaterMark"] == 4
    restore(builder.store, 4)
    (added,) = bodies(builder.store, 6, "add")
    assert (added["path"], added["baseRowId"]) == (new, 0)
    assert bodies(builder.store, 6, "domainMetadata") == []


def test_a_file_without_a_count_of_rows_gets_no_row_ids() -> None:
    builder = memory_table()
    builder.commit(builder.write_file([{"id": 1}], stats=None))
    (path,) = {key[0] for key in builder.state.files}
    builder.remove(path)
    builder.change_metadata(protocol=builder.protocol_action(["rowTracking"]))
    with pytest.raises(SafetyError, match="row ids cannot be assigned"):
        restore(builder.store, 1)


CLUSTERED = '{{"clusteringColumns":[["{}"]],"domainName":"delta.clustering"}}'


def test_clustering_comes_back_and_other_domains_go() -> None:
    domains = {"delta.clustering": CLUSTERED.format("id"), "mine": "1"}
    builder = memory_table(Column("id"), Column("b"), features=["clustering"], domains=domains)
    builder.append([{"id": 1, "b": 1}])
    builder.commit(
        {
            "domainMetadata": {
                "domain": "delta.clustering",
                "configuration": CLUSTERED.format("b"),
                "removed": False,
            }
        }
    )
    restore(builder.store, 1)
    found = {it["domain"]: it for it in bodies(builder.store, 3, "domainMetadata")}
    assert found["delta.clustering"]["configuration"] == CLUSTERED.format("id")
    assert found["mine"]["removed"] is True
    assert set(Table("x", store=builder.store).snapshot().domains) == {"delta.clustering"}


ICT = {"delta.enableInCommitTimestamps": "true"}
ENABLED = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")


def test_in_commit_timestamps_stay_on_with_the_properties_of_the_log() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    builder.features = frozenset(["inCommitTimestamp"])
    protocol = builder.protocol_action(["inCommitTimestamp"])
    at = dict(zip(ENABLED, ("2", "1700000005000"), strict=True))
    builder.change_metadata(protocol=protocol, properties={**ICT, **at})
    builder.append([{"id": 2}])
    builder.append([{"id": 3}])
    restore(builder.store, 3)
    info, metadata = (next(iter(it.values())) for it in commit_lines(builder.store, 5)[:2])
    previous = builder.commits[4][0]["commitInfo"]["inCommitTimestamp"]
    assert info["inCommitTimestamp"] > previous
    assert next(iter(info)) == "inCommitTimestamp"
    assert metadata["configuration"] == {**ICT, **at}


def test_in_commit_timestamps_end_with_a_version_without_them_and_begin_again() -> None:
    builder = memory_table(features=["inCommitTimestamp"])
    builder.append([{"id": 1}])
    off = {"delta.enableInCommitTimestamps": "false"}
    builder.change_metadata(properties=off)
    builder.features = frozenset()
    builder.append([{"id": 2}])
    store = builder.store
    assert isinstance(store, MemoryStore)
    far = SystemClock().now_ms() + 3_600_000
    store.set_modified(commit_path(3), far)
    restore(store, 1)  # on again, from version 4 on
    info, metadata = (next(iter(it.values())) for it in commit_lines(store, 4)[:2])
    assert info["inCommitTimestamp"] > far
    wanted = dict(zip(ENABLED, ("4", str(info["inCommitTimestamp"])), strict=True))
    assert metadata["configuration"] == {**ICT, **wanted}
    restore(store, 3)
    info, metadata = (next(iter(it.values())) for it in commit_lines(store, 5)[:2])
    assert "inCommitTimestamp" not in info
    assert metadata["configuration"]["delta.enableInCommitTimestamps"] == "false"


# -- an older protocol ------------------------------------------------------------------------


def test_a_downgrade_waits_until_older_readers_read_right() -> None:
    builder = memory_table()
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    builder.commit(builder.protocol_action(["deletionVectors"]))
    builder.delete_rows(path, [0])
    store = builder.store
    with pytest.raises(SafetyError, match="would still read the commits") as caught:
        restore(store, 1, allow_protocol_downgrade=True)
    assert "deltactl checkpoint" in (caught.value.hint or "")
    Table("x", store=store).checkpoint()
    with pytest.raises(SafetyError, match="the restore would remove files with deletion vectors"):
        restore(store, 1, allow_protocol_downgrade=True)
    restore(store, 1, now=True)
    Table("x", store=store).checkpoint()
    with pytest.raises(SafetyError, match="tombstones in the log have deletion vectors") as caught:
        restore(store, 1, allow_protocol_downgrade=True)
    assert "Wait until " in (caught.value.hint or "")
    assert latest(store) == 4


def test_a_downgrade_restores_the_older_protocol() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    builder.commit(builder.protocol_action(["deletionVectors"]))
    builder.append([{"id": 2}])
    Table("x", store=builder.store).checkpoint()
    restore(builder.store, 1, allow_protocol_downgrade=True)
    protocol = Table("x", store=builder.store).snapshot().protocol
    assert (protocol.min_reader_version, protocol.writer_features) == (1, None)
    assert ids(builder.store) == [1]


def test_a_downgrade_keeps_what_protects_row_ids() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    builder.features = frozenset(["rowTracking"])
    builder.change_metadata(protocol=builder.protocol_action(["rowTracking"]))
    builder.append([{"id": 2}])
    restore(builder.store, 1, allow_protocol_downgrade=True)
    features = Table("x", store=builder.store).snapshot().protocol.writer_features
    assert features is not None
    assert {"rowTracking", "domainMetadata"} <= features


def test_a_downgrade_keeps_the_feature_of_the_domains_that_it_removes() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    features = ["clustering", "domainMetadata"]
    domains = {"delta.clustering": CLUSTERED.format("id"), "mine": "1"}
    builder.commit(
        builder.protocol_action(features),
        *(
            {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}
            for name, text in domains.items()
        ),
    )
    builder.append([{"id": 2}])
    restore(builder.store, 1, allow_protocol_downgrade=True)
    assert len(bodies(builder.store, 4, "domainMetadata")) == 2
    protocol = Table("x", store=builder.store).snapshot().protocol
    assert protocol.writer_features is not None
    assert "domainMetadata" in protocol.writer_features
    assert "clustering" not in protocol.writer_features


MARK = "delta.identity.highWaterMark"


def identity(mark: int | None, step: int = 1) -> Column:
    facts: dict[str, Any] = {"delta.identity.start": 1, "delta.identity.step": step}
    if mark is not None:
        facts[MARK] = mark
    return Column("id", metadata=facts)


def mark_after(builder: TableBuilder) -> int:
    """The mark of the first column in the commit of a restore."""
    (metadata,) = bodies(builder.store, builder.version + 1, "metaData")
    mark: int = json.loads(metadata["schemaString"])["fields"][0]["metadata"][MARK]
    return mark


@pytest.mark.parametrize(
    ("old", "now", "step", "kept"),
    [(5, 9, 1, 9), (None, 9, 1, 9), (9, 5, 1, 9), (-5, -9, -1, -9), (5, None, 1, 5)],
)
def test_marks_of_identity_columns(old: int | None, now: int | None, step: int, kept: int) -> None:
    builder = memory_table(identity(old, step))
    builder.append([{"id": 1}])
    builder.change_metadata(columns=[identity(now, step), Column("b")])
    restore(builder.store, 1)
    assert mark_after(builder) == kept


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_last_mark_of_a_dropped_identity_column_comes_back(is_lost: bool) -> None:
    """Files of version 2 can be restored later, and no new value may be one of theirs."""
    builder = memory_table(identity(1), Column("b"))
    builder.append([{"id": 1}])
    builder.change_metadata(columns=[identity(2), Column("b")])
    builder.append([{"id": 2}])
    builder.change_metadata(columns=[Column("b")])
    builder.checkpoint()
    if is_lost:
        builder.store.delete_many([commit_path(2)])
    said: list[str] = []
    restore(builder.store, 1, said)
    assert mark_after(builder) == (1 if is_lost else 2)
    assert any("identity columns or row ids may get" in text for text in said) == is_lost


@pytest.mark.parametrize(("mark", "table_id"), [(None, "other"), (2, "other"), (1, None)])
def test_the_last_mark_from_before_a_table_was_replaced_comes_back(
    mark: int | None, table_id: str | None
) -> None:
    """Also if Spark restored an earlier version, with its mark."""
    builder = memory_table(identity(2), Column("b"))
    builder.append([{"id": 1}])
    builder.change_metadata(columns=[identity(5), Column("b")])
    builder.append([{"id": 5}])
    changed = memory_table(identity(mark), Column("b")).metadata_action()
    table_id = table_id or bodies(builder.store, 0, "metaData")[0]["id"]
    builder.commit({"metaData": {**changed["metaData"], "id": table_id}})
    restore(builder.store, 1)
    assert mark_after(builder) == 5


@pytest.mark.parametrize("has_rows", [False, True])
def test_the_last_row_id_from_before_row_tracking_was_dropped_is_not_assigned_again(
    has_rows: bool,
) -> None:
    """Files of version 2 can be restored later with their row ids."""
    properties = {"delta.enableRowTracking": "true"}
    builder = memory_table(features=["rowTracking"], properties=properties)
    if has_rows:
        builder.append([{"id": 1}])
    builder.append([{"id": 2}, {"id": 3}])
    (mark,) = bodies(builder.store, builder.version, "domainMetadata")
    builder.features = frozenset()
    builder.commit(builder.protocol_action([]), {"domainMetadata": {**mark, "removed": True}})
    target = int(has_rows)
    restore(builder.store, target)
    (after,) = bodies(builder.store, builder.version + 1, "domainMetadata")
    last = 2 if has_rows else 1
    assert json.loads(mark["configuration"])["rowIdHighWaterMark"] == last
    assert json.loads(after["configuration"])["rowIdHighWaterMark"] == last
