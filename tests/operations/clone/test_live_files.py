"""Syncs and replacements: files that the clone has, with another ``add`` in the source."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from deltactl.operations.clone.report import CloneReport
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.clone.test_run import clone
from tests.support.restores import bodies, memory_table
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path, encode_lines

KINDS = pytest.mark.parametrize("deep", [True, False], ids=["sync", "replace"])
ROW_IDS = {"delta.enableRowTracking": "true"}


def update(source: Store, target: Store, deep: bool, **options: Any) -> CloneReport:
    how: dict[str, Any] = {"sync": True} if deep else {"replace": True}
    return clone(source, target, deep=deep, **how, **options)


def add_again(builder: TableBuilder, path: str, **members: Any) -> None:
    builder.commit({"add": {**builder.find(path), "dataChange": False, **members}})


def stats(maximum: int, rows: int = 2) -> str:
    bounds = {"minValues": {"id": 1}, "maxValues": {"id": maximum}, "nullCount": {"id": 0}}
    return json.dumps({"numRecords": rows, **bounds})


def found_ids(path: Path) -> list[int]:
    query = QueryBuilder().register("t", DeltaTable(str(path)))
    rows = pa.table(query.execute("SELECT id FROM t WHERE id >= 40").read_all())
    return list(rows["id"].to_pylist())


def problems(store: Store) -> list[str]:
    return list(Table("x", store=store).check().findings["code"].to_pylist())


@pytest.mark.parametrize(("deep", "options"), [(True, {}), (True, {"full": True}), (False, {})])
def test_corrected_statistics_are_those_of_the_clone(
    tmp_path: Path, deep: bool, options: dict[str, Any]
) -> None:
    builder = TableBuilder(tmp_path / "source", [Column("id")])
    (path,) = builder.append([{"id": 1}, {"id": 50}], stats=stats(5))
    target = LocalStore(str(tmp_path / "clone"))
    update(builder.store, target, deep)
    assert found_ids(tmp_path / "clone") == []
    add_again(builder, path, stats=stats(50))
    planned = update(builder.store, target, deep, dry_run=True, **options)
    assert (planned.is_done, planned.files_added) == (False, 1)
    report = update(builder.store, target, deep, **options)
    assert (report.files_added, report.files_copied, report.files_removed) == (1, 0, 0)
    assert found_ids(tmp_path / "clone") == found_ids(tmp_path / "source") == [50]
    (add,) = bodies(target, 1, "add")
    assert not add["dataChange"]
    assert update(builder.store, target, deep).is_done


def test_statistics_that_are_removed() -> None:
    builder, target = memory_table(), fresh_store()
    (path,) = builder.append([{"id": 1}, {"id": 5}], stats=stats(5))
    update(builder.store, target, deep=True)
    add_again(builder, path, stats="{}")
    assert update(builder.store, target, deep=True).files_added == 1
    assert [add["stats"] for add in bodies(target, 1, "add")] == ["{}"]


def test_statistics_that_a_checkpoint_has_only_as_a_struct(tmp_path: Path) -> None:
    """Their text is another one then, without bounds of booleans."""
    source, target = str(tmp_path / "source"), str(tmp_path / "clone")
    columns = {"id": [1], "good": [True], "at": [datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)]}
    only_struct = {
        "delta.checkpoint.writeStatsAsJson": "false",
        "delta.checkpoint.writeStatsAsStruct": "true",
    }
    write_deltalake(source, pa.table(columns), configuration=only_struct)
    for root in (source, target, source):
        update(LocalStore(source), LocalStore(target), deep=True)
        Table(root).checkpoint()
        write_deltalake(source, pa.table(columns), mode="append")
        assert update(LocalStore(source), LocalStore(target), deep=True).files_added == 1


@pytest.mark.parametrize(
    "members",
    [
        {"partitionValues": {"p": "b"}},
        {"tags": {"ZCUBE_ID": "1"}},
        {"clusteringProvider": "liquid"},
        {"modificationTime": 1},
    ],
    ids=lambda members: next(iter(members)),
)
@KINDS
def test_other_members_of_an_add(members: dict[str, Any], deep: bool) -> None:
    builder = memory_table(Column("p", "string"), Column("id"), partition_by=["p"])
    target = fresh_store()
    path, _ = builder.append([{"p": "a", "id": 1}], [{"p": None, "id": 2}])
    update(builder.store, target, deep)
    add_again(builder, path, **members)
    expected = 0 if "modificationTime" in members else 1
    assert update(builder.store, target, deep).files_added == expected
    for add in bodies(target, 1, "add"):
        assert members.items() <= add.items()
    assert update(builder.store, target, deep).is_done


@KINDS
def test_row_ids_that_old_files_get_are_those_of_the_clone(deep: bool) -> None:
    builder, target = memory_table(), fresh_store()
    builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    update(builder.store, target, deep)
    Table("x", store=builder.store).alter(properties=ROW_IDS)
    report = update(builder.store, target, deep)
    assert (report.files_added, report.files_copied) == (2, 0)
    assert {add["defaultRowCommitVersion"] for add in bodies(target, 1, "add")} == {1}
    assert problems(target) == []
    assert update(builder.store, target, deep).is_done
    assert Table("x", store=target).optimize().versions
    assert problems(target) == []


@KINDS
def test_row_tracking_that_is_dropped_and_enabled_again(deep: bool) -> None:
    """A sync of each version, also those between the commits of a drop."""
    builder, target = memory_table(), fresh_store()
    builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    source = Table("x", store=builder.store)
    source.alter(properties=ROW_IDS)
    source.alter(drop_feature="rowTracking")
    source.alter(properties=ROW_IDS)
    source.optimize()
    for version in range(source.snapshot().version + 1):
        update(builder.store, target, deep, version=version)
        assert problems(target) == [], version
        assert update(builder.store, target, deep, version=version).is_done


def write_commit(store: Store, *actions: dict[str, Any]) -> None:
    """The commit of another writer."""
    version = Table("x", store=store).snapshot().version + 1
    store.put_if_absent(commit_path(version), encode_lines([{"commitInfo": {}}, *actions]))


def test_row_ids_that_the_clone_gave_are_not_given_twice() -> None:
    """The source gives them to another file, while a second file still has none there."""
    builder, target = memory_table(), fresh_store()
    builder.append([{"id": 1}])
    source = Table("x", store=builder.store)
    source.alter(properties=ROW_IDS)
    update(builder.store, target, deep=True)
    source.alter(drop_feature="rowTracking")
    files = [builder.write_file([{"id": n}, {"id": n + 1}]) for n in (2, 4)]
    write_commit(builder.store, *files)
    update(builder.store, target, deep=True)
    assert [add["baseRowId"] for add in bodies(target, 1, "add")] == [1, 3]
    assert problems(target) == []
    source.alter(add_feature=("rowTracking",))
    add = {**files[0]["add"], "baseRowId": 4, "defaultRowCommitVersion": 0}
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":5}'}
    write_commit(builder.store, {"add": add}, {"domainMetadata": {**mark, "removed": False}})
    update(builder.store, target, deep=True)
    (mark,) = bodies(target, 2, "domainMetadata")
    assert mark["configuration"] == '{"rowIdHighWaterMark":8}'
    assert {add["baseRowId"] for add in bodies(target, 2, "add")} == {4, 6, 7}
    assert problems(target) == []
    assert update(builder.store, target, deep=True).is_done
