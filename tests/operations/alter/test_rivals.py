"""Another writer commits between two commits of an alter."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from deltactl.errors import ConflictError, DeltactlError, SafetyError
from deltactl.log.committers.committer import Permission
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.report import AlterReport
from deltactl.operations.alter.run import alter_table
from deltactl.protocol.features import list_features
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.alter.test_drop import new_table, widened_table
from tests.support.forwarding import ForwardingStore
from tests.support.restores import commit_lines, ids, latest
from tests.support.run import run_on
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder


class BeforeCommit(ForwardingStore):
    """Acts once, right before the commit of an operation is written."""

    def __init__(self, inner: Store, operation: str, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self._operation, self._act, self.has_acted = operation, act, False

    def put_if_absent(self, name: str, data: bytes) -> None:
        if not self.has_acted and f'"operation":"{self._operation}"'.encode() in data:
            self.has_acted = True
            self._act()
        super().put_if_absent(name, data)


def catch_up(builder: TableBuilder) -> TableBuilder:
    """Let the builder go on from what deltactl committed."""
    for version in range(builder.version + 1, latest(builder.store) + 1):
        builder.note(commit_lines(builder.store, version))
    return builder


def meet(builder: TableBuilder, operation: str, act: Any, **options: Any) -> None:
    store = BeforeCommit(builder.store, operation, lambda: act(catch_up(builder)))
    try:
        run_on(store, alter_table, AlterOptions(**options))
    finally:
        assert store.has_acted


def append(builder: TableBuilder) -> None:
    builder.append([{"id": 4}])


def delete_row(builder: TableBuilder) -> None:
    builder.delete_rows(next(iter(builder.data)), [0])


def rename(builder: TableBuilder) -> None:
    builder.change_metadata(name="x")


ROW_IDS = {"properties": {"delta.enableRowTracking": "true"}}


@pytest.mark.parametrize(
    ("features", "options", "operation", "act", "said"),
    [
        ((), ROW_IDS, "SET TBLPROPERTIES", append, "without row ids"),
        ((), ROW_IDS, "ROW TRACKING BACKFILL", rename, "properties"),
        (("deletionVectors",), {}, "DROP FEATURE", delete_row, "use the feature"),
        (("deletionVectors",), {}, "Empty Commit", delete_row, "used deletionVectors"),
        (("rowTracking",), {}, "DROP FEATURE", append, "use the feature"),
        (("vacuumProtocolCheck",), {}, "Empty Commit", rename, "properties"),
        (("vacuumProtocolCheck",), {}, "DROP FEATURE", append, None),
    ],
)
def test_what_uses_the_feature_is_a_conflict_and_the_next_run_goes_on(
    features: tuple[str, ...], options: dict[str, Any], operation: str, act: Any, said: str | None
) -> None:
    builder = new_table(*features)
    options = options or {"drop_feature": features[0]}
    if said is None:
        meet(builder, operation, act, **options)
    else:
        with pytest.raises(ConflictError, match=said):
            meet(builder, operation, act, **options)
        run_on(builder.store, alter_table, AlterOptions(**options))
    snapshot = Table("x", store=builder.store).snapshot()
    assert not list_features(snapshot.protocol) & set(features)
    if not features:
        assert snapshot.files["base_row_id"].null_count == 0
    expected = {append: [1, 2, 3, 4], delete_row: [2, 3], rename: [1, 2, 3]}
    assert ids(builder.store) == expected[act]


def test_the_error_of_the_library_has_the_report() -> None:
    builder = new_table("deletionVectors")
    store = BeforeCommit(builder.store, "Empty Commit", lambda: delete_row(catch_up(builder)))
    with pytest.raises(ConflictError, match="used deletionVectors") as caught:
        Table("x", store=store).alter(drop_feature="deletionVectors")
    report = caught.value.report
    assert isinstance(report, AlterReport)
    assert report.versions


@pytest.mark.parametrize(
    ("operation", "said"),
    [("REORG", "added files with old types"), ("DROP FEATURE", "restored an earlier version")],
)
def test_files_with_old_types_that_come_back_are_a_conflict(operation: str, said: str) -> None:
    builder = widened_table(fresh_store())
    old = list(builder.data)[1]

    def bring_back(builder: TableBuilder) -> None:
        builder.store.put("back.parquet", builder.store.read(old))
        add = builder.adopt("back.parquet", stats=json.dumps({"numRecords": 2}))
        builder.commit(add, operation="RESTORE")

    with pytest.raises(ConflictError, match=said):
        meet(builder, operation, bring_back, drop_feature="typeWidening")
    run_on(builder.store, alter_table, AlterOptions(drop_feature="typeWidening"))
    table = Table("x", store=builder.store)
    assert "typeWidening" not in list_features(table.snapshot().protocol)
    assert sorted(table.scan().read_all()["k"].to_pylist()) == [0, 1, 1, 2, 2, 3, 4]
    files = table.snapshot().files["path"].to_pylist()
    assert not {old, "back.parquet"} & {*files}


@pytest.mark.parametrize("act", ["append", "rename", "remove"])
@pytest.mark.parametrize("fits", [False, True], ids=["rewrites files", "only metadata"])
def test_nobody_may_write_while_column_mapping_ends(fits: bool, act: str) -> None:
    builder = TableBuilder(fresh_store(), [Column("id")], mapping="none" if fits else "name")
    builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    if fits:
        mapped = AlterOptions(properties={"delta.columnMapping.mode": "name"})
        run_on(builder.store, alter_table, mapped)
        catch_up(builder)
    first = next(iter(builder.data))
    acts: dict[str, Callable[[TableBuilder], object]] = {
        "append": append,
        "rename": rename,
        "remove": lambda it: it.remove(first),
    }
    with pytest.raises(ConflictError, match="another writer changed"):
        meet(builder, "REMOVE COLUMN MAPPING", acts[act], drop_feature="columnMapping")
    table = Table("x", store=builder.store)
    expected = {"append": [1, 2, 3, 4], "rename": [1, 2, 3], "remove": [3]}[act]
    assert table.snapshot().metadata.column_mapping_mode == "name"
    assert ids(builder.store) == expected
    left = {name for batch in builder.store.walk() for name in batch if name.endswith(".parquet")}
    assert left == set(builder.data)
    run_on(builder.store, alter_table, AlterOptions(drop_feature="columnMapping"))
    assert table.snapshot().metadata.column_mapping_mode == "none"
    assert ids(builder.store) == expected


def test_a_file_that_cannot_be_read_keeps_column_mapping() -> None:
    builder = TableBuilder(
        fresh_store(), [Column("id"), Column("p")], partition_by=["p"], mapping="name"
    )
    first, second = builder.append([{"id": 1, "p": 1}], [{"id": 3, "p": 2}])
    data = builder.store.read(second)
    builder.store.put(second, bytes(20) + data[20:])
    with pytest.raises(DeltactlError, match=second):
        run_on(builder.store, alter_table, AlterOptions(drop_feature="columnMapping"))
    assert latest(builder.store) == 1
    left = {name for batch in builder.store.walk() for name in batch if name.endswith(".parquet")}
    assert left == {first, second}


def test_what_optimize_leaves_keeps_column_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer adds a column whose default the files lack, after the plan."""
    builder = TableBuilder(fresh_store(), [Column("id")], mapping="name")
    builder.append([{"id": 1}], [{"id": 3}])
    default = Column("d", metadata={"EXISTS_DEFAULT": "1"})
    original = DeltaLog.ensure_can_commit

    def change_first(log: DeltaLog, *permission: Permission) -> None:
        if builder.version == 1:
            builder.change_metadata(columns=[*builder.columns, default])
        original(log, *permission)

    monkeypatch.setattr(DeltaLog, "ensure_can_commit", change_first)
    with pytest.raises(SafetyError, match="2 lacks a column with EXISTS_DEFAULT"):
        run_on(builder.store, alter_table, AlterOptions(drop_feature="columnMapping"))
    assert latest(builder.store) == 2
