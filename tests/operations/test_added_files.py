"""Others change files of a run before its commit: a vacuum deletes new ones, a producer writes old
ones again.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from deltactl.errors import CommitDamagedError, FilesGoneError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.report import CloneReport
from deltactl.operations.clone.run import clone_table
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.forwarding import ForwardingStore
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path


class _Vacuumed(ForwardingStore):
    """delta-rs vacuums the table when its new files are complete, before they are committed."""

    def __init__(self, table: Path) -> None:
        super().__init__(LocalStore(str(table)))
        self._table = table

    def sync_directories(self, names: Iterable[str]) -> None:
        super().sync_directories(names)
        DeltaTable(str(self._table)).vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
        )


class _Rewritten(ForwardingStore):
    """A producer writes a live file again when the new files are complete."""

    def __init__(self, store: Store, name: str, data: bytes) -> None:
        super().__init__(store)
        self._name, self._data = name, data

    def sync_directories(self, names: Iterable[str]) -> None:
        super().sync_directories(names)
        self.put(self._name, self._data)


class _Late(ForwardingStore):
    """A vacuum that began during the run deletes the new files after the commit."""

    def __init__(self, builder: TableBuilder) -> None:
        super().__init__(builder.store)
        self._builder, self._is_first = builder, True

    def put_if_absent(self, name: str, data: bytes) -> None:
        if self._is_first:
            self._builder.commit(operation="VACUUM START")
            self._is_first = False
        super().put_if_absent(name, data)
        found = [it.name for it in self.list_from("") if it.name not in self._builder.data]
        self.delete_many(found)


def build(table: Path, rows: int = 3) -> TableBuilder:
    properties = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    builder = TableBuilder(table, [Column("id")], properties=properties)
    builder.append(*([{"id": n}] for n in range(rows)))
    return builder


def context() -> RunContext:
    return RunContext(warn=lambda text: None, sleep=lambda seconds: None)


def optimize(store: Store) -> OptimizeReport:
    return optimize_table(DeltaLog(store, ignore_warning), OptimizeOptions(), context())


def clone(source: TableBuilder, target: Store, **options: Any) -> CloneReport:
    return clone_table(
        DeltaLog(source.store, ignore_warning),
        DeltaLog(target, ignore_warning),
        CloneOptions(deep=True, **options),
        context(),
    )


def ids(table: Path) -> list[int]:
    by_rust, by_duckdb = rows_with_delta_rs(table), rows_with_duckdb(table)
    assert sorted(map(str, by_rust)) == sorted(map(str, by_duckdb))
    return sorted(row["id"] for row in by_rust)


def test_an_optimize_that_takes_longer_than_the_retention_commits_nothing(tmp_path: Path) -> None:
    build(tmp_path)
    with pytest.raises(FilesGoneError, match="1 file does not exist"):
        optimize(_Vacuumed(tmp_path))
    operations = [entry["operation"] for entry in DeltaTable(str(tmp_path)).history()]
    assert "OPTIMIZE" not in operations
    assert ids(tmp_path) == [0, 1, 2]


def test_outputs_that_are_deleted_after_the_commit_are_named(tmp_path: Path) -> None:
    builder = build(tmp_path)
    with pytest.raises(CommitDamagedError, match=r"version 3 .*1 file does not exist") as caught:
        optimize(_Late(builder))
    assert f"deltactl restore {builder.store.uri} --to-version 2`" in str(caught.value.hint)
    DeltaTable(str(tmp_path)).restore(2)
    assert ids(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("where", ["disk", "objects"])
def test_a_bin_whose_input_is_written_again_is_not_committed(tmp_path: Path, where: str) -> None:
    store: Store = LocalStore(str(tmp_path)) if where == "disk" else fresh_store()
    builder = TableBuilder(store, [Column("id"), Column("p", "string")], partition_by=["p"])
    builder.append(*([{"id": n, "p": "ab"[n % 2]}] for n in range(6)))
    [name, *_] = sorted(name for name in builder.data if name.startswith("p=a/"))
    report = optimize(_Rewritten(store, name, store.read(max(builder.data))))
    [failure] = report.failures
    assert (report.files_removed, failure.files, failure.partition) == (3, 3, "p=a")
    assert name in failure.reason
    assert failure.error is not None
    assert failure.error.exit_code == 4
    assert name in DeltaLog(store, ignore_warning).snapshot().files["path"].to_pylist()
    assert [it.name for it in store.list_from("p=a") if it.name not in builder.data] == []


def test_new_names_of_columns_are_committed_with_all_files_or_none(tmp_path: Path) -> None:
    builder = TableBuilder(
        tmp_path, [Column("id"), Column("p", "string")], partition_by=["p"], mapping="name"
    )
    builder.append([{"id": 0, "p": "a"}], [{"id": 1, "p": "b"}])
    name = min(builder.data)
    rewritten = _Rewritten(builder.store, name, builder.store.read(name))
    with pytest.raises(FilesGoneError, match=name):
        Table(str(tmp_path), store=rewritten).alter(drop_feature="columnMapping")
    assert DeltaLog(builder.store, ignore_warning).latest_version == builder.version
    assert {path.name for path in tmp_path.rglob("*.parquet")} == {*builder.data}


def test_a_sync_does_not_commit_files_that_a_vacuum_of_the_clone_took(tmp_path: Path) -> None:
    source = build(tmp_path / "source")
    target = LocalStore(str(tmp_path / "clone"))
    clone(source, target, sync=True)
    source.append([{"id": 3}])
    with pytest.raises(FilesGoneError, match="1 file does not exist") as caught:
        clone(source, _Vacuumed(tmp_path / "clone"), sync=True)
    assert caught.value.exit_code == 4
    assert ids(tmp_path / "clone") == [0, 1, 2]
    clone(source, target, sync=True)
    assert ids(tmp_path / "clone") == [0, 1, 2, 3]


def test_a_sync_names_old_copies_that_a_vacuum_without_a_commit_took(tmp_path: Path) -> None:
    """An optimize moved their rows, so a vacuum may delete the copies that the sync adds again."""
    source = TableBuilder(tmp_path / "source", [Column("id")])
    source.append([{"id": 0}], [{"id": 1}])
    copies = sorted(source.data)

    class Taken(ForwardingStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            super().put_if_absent(name, data)
            self.delete_many(copies)

    target = LocalStore(str(tmp_path / "clone"))
    clone(source, target, sync=True)
    optimize(target)
    source.append([{"id": 2}])
    with pytest.raises(CommitDamagedError, match=r"version 2 .*2 files do not exist") as caught:
        clone(source, Taken(target), sync=True)
    assert copies[0] in str(caught.value)
    assert clone(source, target, sync=True).files_copied == 2
    assert ids(tmp_path / "clone") == [0, 1, 2]


def test_a_first_clone_does_not_commit_files_that_are_gone(tmp_path: Path) -> None:
    source = build(tmp_path / "source")

    class Emptied(ForwardingStore):
        def sync_directories(self, names: Iterable[str]) -> None:
            self.delete_many([*names][:1])

    target = LocalStore(str(tmp_path / "clone"))
    with pytest.raises(FilesGoneError):
        clone(source, Emptied(target))
    assert not (tmp_path / "clone" / commit_path(0)).exists()
    report = clone(source, target)
    assert (report.files_copied, report.files_kept) == (1, 2)
