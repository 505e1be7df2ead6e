"""``clone --shallow --replace``: over an existing shallow clone of the same source."""

from pathlib import Path

import pytest

from deltactl.errors import DataFileError, SafetyError, UsageError
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.vacuum.run import VacuumOptions
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.operations.clone.test_run import clone, contents, ids, with_vectors
from tests.support.restores import bodies
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder


def scene(tmp_path: Path) -> tuple[TableBuilder, LocalStore]:
    """A source with the rows 1 to 3 and a shallow clone of it, which another writer changed."""
    columns = [Column("p", "string"), Column("id")]
    source = TableBuilder(
        tmp_path / "source", columns, partition_by=["p"], features=["deletionVectors"]
    )
    source.append([{"p": "a", "id": 1}, {"p": "a", "id": 2}], [{"p": "b", "id": 3}])
    target = LocalStore(str(tmp_path / "clone"))
    clone(source.store, target, deep=False)
    return source, target


def test_the_new_version_is_that_of_the_source_and_the_old_one_stays(tmp_path: Path) -> None:
    source, target = scene(tmp_path)
    (path,) = [
        it
        for it in Table("x", store=source.store).snapshot().files["path"].to_pylist()
        if "p=b" in it
    ]
    source.remove(path)
    source.append([{"p": "c", "id": 4}])
    report = clone(source.store, target, deep=False, replace=True)
    assert (report.version_before, report.version_after) == (0, 1)
    assert (report.files_added, report.files_removed, len(report.notes)) == (1, 1, 1)
    assert (ids(target), ids(source.store)) == ([1, 2, 4], [1, 2, 4])
    (info,) = bodies(target, 1, "commitInfo")
    assert (info["operation"], info["operationParameters"]["sourceVersion"]) == ("CLONE", 3)
    before = Table("x", store=target).scan(version=0).read_all()
    assert sorted(before["id"].to_pylist()) == [1, 2, 3]
    (note,) = read_notes(source.store)
    assert note.source_version == 3
    # The source keeps what any version of the clone needs.
    table = Table("x", store=source.store)
    removed = table.vacuum(VacuumOptions(retain_ms=0, force_retention=True, mode="full"))
    assert removed.files_removed == 0
    again = clone(source.store, target, deep=False, replace=True)
    assert (again.is_done, again.version_after) == (True, 1)


def test_what_others_wrote_to_the_clone_is_replaced(tmp_path: Path) -> None:
    source, target = scene(tmp_path)
    Table("x", store=target).optimize(purge=True)
    clone(source.store, target, deep=False, replace=True, where="p = 'a'")
    assert ids(target) == [1, 2]


def test_a_failure_leaves_clone_and_note(tmp_path: Path) -> None:
    source, target = scene(tmp_path)
    (path,) = source.append([{"p": "c", "id": 4}])
    source.store.delete_many([path])
    notes, files = read_notes(source.store), contents(target)
    with pytest.raises(DataFileError):
        clone(source.store, target, deep=False, replace=True)
    assert contents(target) == files
    assert [it.name for it in read_notes(source.store)] == [it.name for it in notes]


@pytest.mark.parametrize("kind", ["another source", "deep", "no clone"])
def test_other_tables_are_not_replaced(kind: str) -> None:
    source, target = with_vectors(), fresh_store()
    other = with_vectors()
    other.change_metadata(id="another")
    if kind == "no clone":
        TableBuilder(target, [Column("id")])
    else:
        cloned = other if kind == "another source" else source
        clone(cloned.store, target, deep=kind == "deep")
    files = contents(target)
    told = "Use deep=True sync=True" if kind == "deep" else "Choose an empty directory"
    with pytest.raises(SafetyError, match="does not say that it is a shallow clone of") as caught:
        clone(source.store, target, deep=False, replace=True)
    assert told in str(caught.value.hint)
    assert contents(target) == files


def test_replace_is_for_shallow_clones() -> None:
    with pytest.raises(UsageError) as caught:
        CloneOptions(True, replace=True)
    assert caught.value.hint == "To replace a deep clone, use sync=True full=True."
