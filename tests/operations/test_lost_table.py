"""Tables that are moved, deleted, replaced or unmounted while a command runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import CommitDamagedError, ConflictError, DeltactlError, StorageError
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.support.folders import files_in
from tests.support.table_builder import TableBuilder, commit_path
from tests.support.table_values import Column

COLUMNS = [Column("id", "long"), Column("p", "string")]
OTHER_ID = "00000000-9794-4965-ba6e-6ee3c0d22af9"

Change = Callable[[Path], None]
Command = Callable[[Path], object]


def _build(root: Path) -> None:
    table = TableBuilder(root, COLUMNS, partition_by=["p"])
    for day in ("d0", "d1", "d2"):
        table.append(*([{"id": number, "p": day}] for number in range(4)))
    gone = table.append([{"id": 9, "p": "d0"}])
    table.remove(*gone)


def _move(root: Path) -> None:
    root.rename(root.parent / "elsewhere")


def _replace(root: Path) -> None:
    _move(root)
    other = TableBuilder(root, COLUMNS, partition_by=["p"])
    first = root / commit_path(0)
    first.write_text(first.read_text().replace("5fba94ed-9794-4965-ba6e-6ee3c0d22af9", OTHER_ID))
    other.append([{"id": 1, "p": "other"}])


def _unmount(root: Path) -> None:
    _move(root)
    root.mkdir()


class Moment:
    """Changes the directory before the first call of a method for a name that contains a text."""

    def __init__(self, patch: pytest.MonkeyPatch, methods: str, text: str) -> None:
        self.act: Callable[[], None] | None = None
        for method in methods.split():
            patch.setattr(LocalStore, method, self._wrap(getattr(LocalStore, method), text))

    def _wrap(self, method: Callable[..., Any], text: str) -> Callable[..., Any]:
        def call(store: LocalStore, *args: Any, **options: Any) -> Any:
            act = self.act
            if act is not None and text in f"{store.uri} {args[:1]}":
                self.act = None
                act()
            return method(store, *args, **options)

        return call


def _optimize(root: Path) -> object:
    # With one worker: no other thread sees the change half done.
    return Table(str(root)).optimize(engine=LocalEngine(workers=1))


COMMANDS: dict[str, tuple[Command, str, str]] = {
    "optimize": (_optimize, "open_output open_assembly", "part-"),
    "optimize when it reads": (
        _optimize, "read_many open_input", ".parquet",
    ),
    "vacuum": (lambda root: Table(str(root)).vacuum(), "walk_tree", ""),
    "vacuum without files to delete": (
        lambda root: Table(str(root)).vacuum(mode="lite"), "list_from", "_deltactl/clones",
    ),
    "quarantine": (lambda root: Table(str(root)).vacuum(quarantine=True), "walk_tree", ""),
    "checkpoint": (
        lambda root: Table(str(root)).checkpoint(), "open_output open_replacement", "checkpoint",
    ),
    "restore": (lambda root: Table(str(root)).restore(version=1), "stat_many walk", "p=d"),
    "check": (lambda root: Table(str(root)).check(depth="data"), "stat_many walk", "p=d"),
    "clone": (
        lambda root: Table(str(root)).clone(str(root.parent / "copy")), "copy_files", "/copy ",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_move, StorageError),
        (shutil.rmtree, StorageError),
        (_unmount, StorageError),
        (_replace, ConflictError),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_that_is_lost_meanwhile_is_not_damaged_and_not_made_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    change: Change,
    expected: type[DeltactlError],
) -> None:
    root = tmp_path / "table"
    _build(root)
    run, methods, text = COMMANDS[command]
    moment = Moment(monkeypatch, methods, text)
    left: list[set[str]] = []

    def act() -> None:
        change(root)
        left.append(files_in(root))

    moment.act = act
    with pytest.raises(expected):
        run(root)
    assert left, "the moment did not come"
    assert files_in(root) <= left[0]
    assert root.exists() == (change not in (_move, shutil.rmtree))


@pytest.mark.parametrize("change", [_move, shutil.rmtree, _unmount, _replace])
def test_a_table_that_is_lost_after_a_commit_has_no_other_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    root = tmp_path / "table"
    _build(root)
    moment = Moment(monkeypatch, "read_ranges", commit_path(6))
    moment.act = partial(change, root)
    with pytest.raises(CommitDamagedError) as caught:
        Table(str(root)).alter(properties={"a": "b"})
    assert "version 6 of " in caught.value.message
    assert "then the table was moved, deleted or replaced" in caught.value.message
    if change is _move:
        properties = Table(str(root.parent / "elsewhere")).snapshot().metadata.configuration
        assert properties["a"] == "b"
