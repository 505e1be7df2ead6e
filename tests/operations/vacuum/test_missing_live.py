"""A live file is lost, and files that a commit removed still have its rows.

A restore of an earlier version brings them back, until a vacuum deletes those files.
"""

import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import Table, TableWarning, maintain
from deltactl.errors import SafetyError, ignore_warning
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.vacuum.options import Mode, VacuumOptions
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.report import VacuumReport
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.local.store import LocalStore
from tests.operations.vacuum.test_local import age, write_inventory
from tests.support.run import run_on
from tests.support.stores import CountingStore
from tests.support.table_builder import Column, TableBuilder
from tests.support.vacuum_scenes import Scene

pytestmark = pytest.mark.usefixtures("trusted_clock")

LOSS = "1 live file does not exist, such as"
RESIZED = "1 live file has another size than in the log, such as"
COLUMNS = [Column("id")]
MODES: tuple[Mode, ...] = ("full", "lite")
modes = pytest.mark.parametrize("mode", MODES)


def append(root: Path, *days: str, number: int = 1) -> None:
    for day in days:
        rows = pa.table({"id": [number], "day": [day]})
        write_deltalake(root, rows, mode="append", partition_by=["day"])


def files_of(root: Path) -> set[Path]:
    return {*root.rglob("*.parquet")} - {*root.glob("_delta_log/*")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Version 3 rewrote two of three files. Its output is lost."""
    root = tmp_path / "t"
    append(root, "a", "b", "b")
    before = files_of(root)
    Table(root).optimize()
    (output,) = files_of(root) - before
    output.unlink()
    age(root)
    return root


def vacuum(root: Path, asked: list[VacuumPlan] | None = None, **options: Any) -> VacuumReport:
    def confirm(plan: VacuumPlan) -> bool:
        assert asked is not None
        asked.append(plan)
        return True

    run = partial(vacuum_table, confirm=None if asked is None else confirm)
    chosen = VacuumOptions(retain_ms=0, force_retention=True, **options)
    return run_on(LocalStore(str(root)), run, chosen, warn=lambda _: None)


def assert_refused(root: Path, loss: str = LOSS, **options: Any) -> str:
    """Return the hint."""
    before = sorted(root.rglob("*"))
    with pytest.raises(SafetyError, match=loss) as caught:
        vacuum(root, **options)
    assert "--restorable" in str(caught.value.hint)
    assert sorted(root.rglob("*")) == before
    return str(caught.value.hint)


@modes
def test_nobody_is_asked(root: Path, mode: Mode) -> None:
    assert_refused(root, mode=mode)
    Table(root).restore(version=2)
    age(root)
    assert vacuum(root, mode=mode).plan.is_empty
    assert Table(root).scan().read_all().num_rows == 3


@modes
def test_a_truncated_file_counts_as_lost(tmp_path: Path, mode: Mode) -> None:
    builder = TableBuilder(tmp_path, COLUMNS)
    (old,) = builder.append([{"id": 1}])
    builder.remove(old)
    (new,) = builder.append([{"id": 1}])
    path = tmp_path / new
    path.write_bytes(path.read_bytes()[:-9])
    age(tmp_path)
    assert_refused(tmp_path, RESIZED, mode=mode)
    asked: list[VacuumPlan] = []
    report = vacuum(tmp_path, asked, mode=mode)
    assert (report.files_removed, report.to_dict()["resized"]) == (1, [new])
    assert f"{RESIZED} {new!r}" in str(asked[0].loss)
    assert asked[0].horizon is not None
    assert asked[0].horizon.readable == ((0, 2),)


@modes
@pytest.mark.parametrize("size", [0, None])
def test_an_unknown_size_is_not_compared(tmp_path: Path, mode: Mode, size: int | None) -> None:
    builder = TableBuilder(tmp_path, COLUMNS)
    (old,) = builder.append([{"id": 1}])
    add = builder.write_file([{"id": 1}])
    add["add"]["size"] = size
    builder.commit(builder.remove_action(old), add, operation="WRITE")
    age(tmp_path)
    assert vacuum(tmp_path, mode=mode).files_removed == 1


def test_object_stores_list_sizes() -> None:
    """Only a file whose size differs in the listing is looked up."""
    scene = Scene()
    (old,) = scene.append(40)
    scene.remove(30, old)
    lost, *others = scene.append(30, *"a" * 9)
    scene.store.put(lost, scene.store.read(lost)[:-9])
    counting = CountingStore(scene.dated())
    with pytest.raises(SafetyError, match=RESIZED):
        scene.vacuum(counting, orphans="keep")
    assert "stat_many" in counting.touched(lost)
    assert not any("stat_many" in counting.touched(other) for other in others)


@modes
def test_without_the_rows_it_goes_on(root: Path, mode: Mode) -> None:
    with pytest.warns(TableWarning, match=r"to lost ones still exist: .* --to-version \d"):
        Table(root).fix(kind="missing-files", expect_files=1)
    age(root)
    assert vacuum(root, mode=mode).files_removed == 2


def test_an_inventory_may_be_older_than_the_loss(root: Path, tmp_path: Path) -> None:
    names = (f"file://{path}" for path in files_of(root))
    assert_refused(root, inventory=write_inventory(tmp_path / "listing.csv", *names))


@modes
def test_a_person_is_asked(root: Path, mode: Mode) -> None:
    asked: list[VacuumPlan] = []
    assert vacuum(root, asked, mode=mode).files_removed == 2
    assert LOSS in str(asked[0].loss)
    assert asked[0].horizon is not None
    assert (asked[0].horizon.readable, asked[0].horizon.ends) == (((0, 2),), ((1, 2),))


@modes
def test_a_second_commit_added_the_rows(tmp_path: Path, mode: Mode) -> None:
    builder = TableBuilder(tmp_path, COLUMNS)
    (old,) = builder.append([{"id": 1}])
    builder.remove(old)
    (new,) = builder.append([{"id": 1}])
    age(tmp_path)
    (tmp_path / new).unlink()
    assert_refused(tmp_path, mode=mode)


@modes
def test_a_lost_deletion_vector(tmp_path: Path, mode: Mode) -> None:
    """With the one before it, the earlier version can be read."""
    builder = TableBuilder(tmp_path, COLUMNS, features={"deletionVectors"})
    (path,) = builder.append([{"id": 1}, {"id": 2}, {"id": 3}])
    builder.delete_rows(path, [0])
    before = {*tmp_path.glob("*.bin")}
    builder.delete_rows(path, [1])
    (lost,) = {*tmp_path.glob("*.bin")} - before
    lost.unlink()
    age(tmp_path)
    hint = assert_refused(tmp_path, mode=mode)
    assert "missing-files" not in hint
    assert "run `deltactl check TABLE --fix missing-vectors`. Then rerun" in hint
    Table(tmp_path).fix(kind="missing-vectors", keep_deleted_rows=True, expect_files=1)
    vacuum(tmp_path, mode=mode)


def test_a_lost_deletion_vector_and_a_lost_file(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, COLUMNS, features={"deletionVectors"})
    path, lost, old = builder.append([{"id": 1}, {"id": 2}], [{"id": 3}], [{"id": 4}])
    builder.delete_rows(path, [0])
    builder.remove(old)
    for name in (*tmp_path.glob("*.bin"), tmp_path / lost):
        name.unlink()
    age(tmp_path)
    loss = "2 live files do not exist"
    hint = assert_refused(tmp_path, loss, mode="full")
    fixes = "`deltactl check TABLE --fix missing-files` and `deltactl check TABLE --fix missing-"
    assert f"{fixes}vectors`. Then rerun" in hint


@modes
def test_the_lost_file_is_elsewhere(tmp_path: Path, mode: Mode) -> None:
    """A shallow clone rewrote files of its source, and was restored to the version before."""
    source, root = tmp_path / "source", tmp_path / "clone"
    append(source, "a", "a")
    Table(source, warn=ignore_warning).clone(root, deep=False)
    Table(root).optimize()
    Table(root).restore(version=0)
    age(root)
    next(source.rglob("*.parquet")).unlink()
    assert_refused(root, mode=mode)


@modes
def test_files_elsewhere_that_cannot_be_looked_up(tmp_path: Path, mode: Mode) -> None:
    """Perhaps this user may not, as in another account. Then they do not count as lost."""
    builder, said = TableBuilder(tmp_path / "t", COLUMNS), list[str]()
    (old,) = builder.append([{"id": 1}])
    add = builder.write_file([{"id": 1}])
    (tmp_path / "loop").symlink_to("loop")
    add["add"]["path"] = f"file://{tmp_path}/loop/a.parquet"
    builder.commit(builder.remove_action(old), add, operation="CLONE")
    age(tmp_path / "t")
    options = VacuumOptions(mode=mode, retain_ms=0, force_retention=True)
    report = run_on(LocalStore(str(tmp_path / "t")), vacuum_table, options, warn=said.append)
    assert report.files_removed == 1
    assert any("1 live file outside the table directory could not be" in text for text in said)


@modes
def test_the_lost_file_is_behind_a_link(tmp_path: Path, mode: Mode) -> None:
    """An UPDATE moved a row to a partition whose directory is a link."""
    root = tmp_path / "t"
    builder = TableBuilder(root, [*COLUMNS, Column("p", "string")], partition_by=["p"])
    old, _ = builder.append([{"id": 1, "p": "a"}], [{"id": 2, "p": "b"}])
    add = builder.write_file([{"id": 1, "p": "b"}])
    builder.commit(builder.remove_action(old), add, operation="UPDATE")
    age(root)
    shutil.move(root / "p=b", tmp_path / "b")
    (root / "p=b").symlink_to(tmp_path / "b")
    (root / add["add"]["path"]).unlink()
    assert_refused(root, mode=mode)


def test_versions_with_files_behind_a_link_can_be_read(tmp_path: Path) -> None:
    root = tmp_path / "t"
    append(root, "a", "a", "b", "b")
    shutil.move(root / "day=b", tmp_path / "b")
    (root / "day=b").symlink_to(tmp_path / "b")
    old = files_of(tmp_path / "b")
    DeltaTable(root).optimize.compact()
    age(root)
    age(tmp_path / "b")
    assert {it.state for it in Table(root).restorable().values()} == {"readable"}
    planned = Table(root).vacuum(mode="full", retain="0s", force_retention=True, dry_run=True)
    assert planned.horizon is not None
    assert (planned.horizon.readable, planned.horizon.ends) == (((0, 4),), ((0, 3),))
    for path in old:
        path.unlink()
    states = [it.state for _, it in sorted(Table(root).restorable().items())]
    assert states == ["readable"] * 2 + ["partly gone"] * 2 + ["readable"]
    planned = Table(root).vacuum(mode="full", retain="0s", force_retention=True, dry_run=True)
    assert planned.horizon is not None
    assert (planned.horizon.readable, planned.horizon.ends) == (((0, 1), (4, 4)), ((0, 1),))


def test_an_older_commit_than_those_of_the_log_added_the_file(tmp_path: Path) -> None:
    """No version can be read."""
    builder = TableBuilder(tmp_path, COLUMNS)
    lost, old = builder.append([{"id": 1}], [{"id": 2}])
    builder.checkpoint(builder.version)
    builder.forget_commits(builder.version)
    builder.remove(old)
    age(tmp_path)
    (tmp_path / lost).unlink()
    assert_refused(tmp_path, mode="full")
    horizon = vacuum(tmp_path, [], mode="full").plan.horizon
    assert horizon is not None
    assert (horizon.readable, horizon.ends) == ((), ())


def test_a_quarantine_is_kept(root: Path) -> None:
    Table(root).alter(properties=["delta.deletedFileRetentionDuration=interval 0 seconds"])
    vacuum(root, [], quarantine=True, quarantine_for_ms=0)
    before = sorted(root.rglob("*"))
    with pytest.raises(SafetyError, match=LOSS):
        Table(root).purge_quarantine(force_retention=True)
    assert sorted(root.rglob("*")) == before
    with pytest.warns(TableWarning, match=f"a real run would be refused: {LOSS}"):
        Table(root).purge_quarantine(force_retention=True, dry_run=True)
    Table(root).fix(kind="missing-files", expect_files=1)
    assert Table(root).purge_quarantine(force_retention=True).files == 2


def test_with_nothing_to_remove_it_warns(tmp_path: Path) -> None:
    append(tmp_path, "a", "b")
    next(tmp_path.rglob("*.parquet")).unlink()
    with pytest.warns(TableWarning, match=LOSS):
        Table(tmp_path).vacuum(mode="full")


def test_maintain_does_not_vacuum(root: Path) -> None:
    before = files_of(root)
    policy = MaintainPolicy(actions=["vacuum"], list_files="always", skip_hot=timedelta())
    Table(root).alter(properties=["delta.deletedFileRetentionDuration=interval 0 seconds"])
    age(root)
    [table] = maintain([str(root)], policy).tables
    assert LOSS in table.facts.problems["vacuum"].message
    assert files_of(root) == before
