"""``clone --shallow --replace``: over an existing shallow clone of the same source."""

import re
from functools import partial
from pathlib import Path

import pytest

from deltactl.errors import ConflictError, DataFileError, SafetyError, UsageError
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone_notes import drop_note, read_notes
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.vacuum.run import VacuumOptions
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.operations.clone.test_run import clone, contents, ids, with_vectors
from tests.operations.vacuum.test_races import Meanwhile
from tests.support.restores import bodies
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path, encode_lines


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
    after = read_notes(source.store)
    assert [it.name for it in after] == [it.name for it in notes]
    assert [it.clone_version for it in after] == [0]  # a vacuum need not wait for a version


def test_a_vacuum_between_note_and_commit_waits_for_the_new_version(tmp_path: Path) -> None:
    """It would go by the note and by the files of the earlier version."""
    source, target = scene(tmp_path)
    (path,) = source.append([{"p": "c", "id": 4}])
    source.remove(path)
    table = Table("x", store=source.store)
    options = VacuumOptions(retain_ms=0, force_retention=True, mode="full")

    def vacuum() -> None:
        with pytest.raises(ConflictError, match=r"has not committed version 1 of the clone"):
            table.vacuum(options)

    beside = Meanwhile(target, "put_if_absent", vacuum)
    clone(source.store, beside, deep=False, replace=True, version=2)
    assert ids(target) == [1, 2, 3, 4]
    assert table.vacuum(options).files_removed == 0


def test_a_commit_of_another_writer_to_the_clone_stops_the_replacement(tmp_path: Path) -> None:
    """Else a vacuum could take its version for that of the replacement."""
    source, target = scene(tmp_path)
    source.append([{"p": "c", "id": 4}])
    info = encode_lines([{"commitInfo": {"operation": "VACUUM END"}}])
    other = partial(target.put_if_absent, commit_path(1), info)
    beside = Meanwhile(target, "put_if_absent", other)
    with pytest.raises(ConflictError, match="another writer committed to the clone"):
        clone(source.store, beside, deep=False, replace=True)
    assert ids(target) == [1, 2, 3]
    assert [note.clone_version for note in read_notes(source.store)] == [0]


def test_a_run_that_fails_leaves_the_note_of_another_run(tmp_path: Path) -> None:
    source, target = scene(tmp_path)
    for number in (4, 5):
        source.append([{"p": "c", "id": number}])
    other = partial(clone, source.store, target, deep=False, replace=True, version=2)
    beside = Meanwhile(target, "put_if_absent", other)
    with pytest.raises(ConflictError, match="nothing was replaced"):
        clone(source.store, beside, deep=False, replace=True)
    assert ids(target) == [1, 2, 3, 4]
    (note,) = read_notes(source.store)
    assert (note.source_version, note.clone_version, note.begun_ms) == (2, 1, None)


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


@pytest.mark.parametrize("replaces", [True, False])
def test_a_clone_without_a_record_is_recorded_though_nothing_changed(
    tmp_path: Path, replaces: bool
) -> None:
    """It was moved, or made without a record, or somebody deleted the record."""
    source, target = scene(tmp_path)
    (note,) = read_notes(source.store)
    drop_note(source.store, note)
    report = clone(source.store, target, deep=False, replace=replaces)
    assert (report.is_done, report.notes) == (True, (source.store.uri,))
    (again,) = read_notes(source.store)
    assert (again.name, again.begun_ms) == (note.name, None)
    assert clone(source.store, target, deep=False, replace=replaces).notes == ()
    drop_note(source.store, note)
    source.store.delete_many([next(iter(source.data))])
    with pytest.raises(DataFileError):
        clone(source.store, target, deep=False, replace=replaces)


def delete_file(target: LocalStore) -> None:
    """Remove the rows 1 and 2 in a commit of another writer to the clone."""
    add, *_ = bodies(target, 0, "add")
    remove = {key: add[key] for key in ("path", "partitionValues", "size")}
    removed = {"remove": {**remove, "deletionTimestamp": 1, "dataChange": True}}
    target.put_if_absent(commit_path(1), encode_lines([removed]))
    assert ids(target) == [3]


def test_the_run_says_that_it_replaces_changes_of_others(tmp_path: Path) -> None:
    source, target = scene(tmp_path)
    replace = partial(clone, source.store, target, deep=False, replace=True)
    Table("x", store=source.store).alter(properties={"a": "b"})
    warnings: list[str] = []
    replace(warnings=warnings, dry_run=True)
    assert "was changed after its last clone run" not in "".join(warnings)
    delete_file(target)
    for dry_run in (True, False):
        warnings.clear()
        replace(warnings=warnings, dry_run=dry_run)
        told = "was changed after its last clone run: rows were added or removed. The new version"
        assert told in "".join(warnings)
        assert "version 1 has them" in "".join(warnings)
    assert ids(target) == [1, 2, 3]


def test_a_restore_of_the_clone_changes_no_protocol(tmp_path: Path) -> None:
    """Its commit has the protocol again."""
    source, target = scene(tmp_path)
    source.append([{"p": "c", "id": 4}])
    replace = partial(clone, source.store, target, deep=False, replace=True)
    replace()
    source.append([{"p": "c", "id": 5}])  # so that there is something to replace
    table = Table("x", store=target)
    for version, told in ((0, "rows were added or removed"), (1, None)):
        table.restore(RestoreOptions(version=version))
        assert bodies(target, table.snapshot().version, "protocol")
        warnings: list[str] = []
        assert not replace(warnings=warnings, dry_run=True).is_done
        found = re.findall("was changed after its last clone run: ([^.]*)", "".join(warnings))
        assert found == ([] if told is None else [told])


def test_a_moved_clone_is_recorded_as_the_hint_of_a_vacuum_says(tmp_path: Path) -> None:
    """Its changes stay, though the source has newer versions."""
    source, target = scene(tmp_path)
    delete_file(target)
    source.append([{"p": "c", "id": 4}])
    (tmp_path / "clone").rename(tmp_path / "moved")
    moved, table = LocalStore(str(tmp_path / "moved")), Table("x", store=source.store)
    with pytest.raises(SafetyError) as caught:
        table.vacuum(VacuumOptions())
    command = f"`deltactl clone {source.store.uri} NEW --shallow --version 1`, which records"
    assert command in str(caught.value.hint)
    with pytest.raises(SafetyError, match="already contains a table") as refused:
        clone(source.store, moved, deep=False)
    assert "discards the changes that were committed to it" in str(refused.value.hint)
    report = clone(source.store, moved, deep=False, version=1)
    assert (report.is_done, report.notes, ids(moved)) == (True, (source.store.uri,), [3])
    assert {note.clone_uri for note in read_notes(source.store)} == {target.uri, moved.uri}
