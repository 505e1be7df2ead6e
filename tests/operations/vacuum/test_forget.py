"""A clone is forgotten only if it does not use files of the table, as far as it can be read."""

import re
from typing import Any

import pytest

from deltactl.errors import AccessDeniedError, SafetyError
from deltactl.operations.clone_notes import CloneNote, read_notes
from deltactl.operations.vacuum import forget
from deltactl.operations.vacuum.forget import ensure_unused
from tests.operations.vacuum.test_clones import (
    break_log,
    cloned_scene,
    damage_log,
    forget_tombstones,
    opened_at,
    remove_all,
    replace_table,
)
from tests.support.table_builder import commit_path
from tests.support.vacuum_scenes import Scene


def note_of(scene: Scene) -> CloneNote:
    (note,) = read_notes(scene.store)
    return note


def test_a_clone_that_uses_files_is_not_forgotten() -> None:
    scene, _, names = cloned_scene()
    with pytest.raises(SafetyError, match=re.escape(names["used"])):
        ensure_unused(scene.store, note_of(scene))


@pytest.mark.parametrize("version", [1, 9], ids=["committed", "replaced by a run that was killed"])
def test_a_clone_of_a_moved_table_is_not_forgotten(version: int) -> None:
    scene, _, names = cloned_scene()
    moved = opened_at(scene, f"memory://moved/forget/{version}/t", in_place=False)
    note = note_of(moved)
    noted = CloneNote(note.clone_uri, 1, note.noted_ms, note.clone_id, "", version)
    with pytest.raises(SafetyError, match=re.escape(names["used"])) as caught:
        ensure_unused(moved.store, noted)
    assert "make the old address lead to it" in (caught.value.hint or "")


def test_a_clone_of_an_alias_of_the_table_is_not_forgotten() -> None:
    scene, _, _ = cloned_scene()
    alias = opened_at(scene, "memory://alias/forget/t", in_place=True)
    with pytest.raises(SafetyError):
        ensure_unused(alias.store, note_of(alias))


def test_a_copy_of_the_table_forgets_the_clone_of_the_original() -> None:
    scene, _, _ = cloned_scene()
    copied = opened_at(scene, "memory://copy/forget/t", in_place=True)
    for name in copied.names():
        copied.store.set_modified(name, 1)  # as `cp -r` does
    ensure_unused(copied.store, note_of(copied))


def test_a_clone_with_a_damaged_log_is_not_forgotten() -> None:
    scene, clone, _ = cloned_scene()
    damage_log(clone)
    with pytest.raises(SafetyError, match="cannot be read now"):
        ensure_unused(scene.store, note_of(scene))


@pytest.mark.parametrize("harm", [break_log, replace_table])
def test_a_clone_that_does_not_exist_is_forgotten(harm: Any) -> None:
    scene, clone, _ = cloned_scene()
    harm(clone)
    ensure_unused(scene.store, note_of(scene))


def test_a_clone_without_files_of_the_table_is_forgotten() -> None:
    scene, clone, _ = cloned_scene()
    remove_all(clone)
    with pytest.raises(SafetyError):  # earlier versions of the clone use them
        ensure_unused(scene.store, note_of(scene))
    forget_tombstones(clone)
    clone.store.delete_many([commit_path(version) for version in range(clone.builder.version + 1)])
    ensure_unused(scene.store, note_of(scene))


def test_a_clone_on_another_kind_of_storage_than_its_files_is_forgotten() -> None:
    scene, clone, _ = cloned_scene()
    data = clone.store.read(commit_path(1)).replace(scene.store.uri.encode(), b"s3://lake/t")
    clone.store.put(commit_path(1), data)
    ensure_unused(scene.store, note_of(scene))


def test_a_clone_that_this_user_may_not_read_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, _, _ = cloned_scene()

    def deny(*_: object) -> None:
        raise AccessDeniedError("cannot list '_delta_log': Permission denied")

    monkeypatch.setattr(forget, "names_in_log_of", deny)
    with pytest.raises(SafetyError, match="this user may not read the clone"):
        ensure_unused(scene.store, note_of(scene))
