"""A commit lost its ``metaData`` or ``protocol``, and is still valid JSON."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from deltactl.errors import SafetyError
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table, TableWarning
from tests.support.damage import check, codes
from tests.support.table_builder import commit_path


def append(root: Path, **row: int) -> None:
    write_deltalake(root, pa.table({name: [value] for name, value in row.items()}), mode="append")


def lose(root: Path, version: int, action: str) -> None:
    path = root / commit_path(version)
    lines = path.read_text().splitlines(keepends=True)
    left = [line for line in lines if not line.startswith(f'{{"{action}"')]
    assert len(left) == len(lines) - 1
    path.write_text("".join(left))


def add_column(root: Path) -> None:
    DeltaTable(root).alter.add_columns([Field("x", PrimitiveType("long"))])
    append(root, id=3, x=7)


def set_property(root: Path) -> None:
    Table(root).alter(properties={"delta.deletedFileRetentionDuration": "interval 30 days"})


@pytest.mark.parametrize("change", [add_column, set_property])
def test_a_rewrite_would_lose_a_column_or_a_vacuum_use_another_retention(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    for number in range(2):
        append(tmp_path, id=number)
    change(tmp_path)
    assert codes(check(LocalStore(str(tmp_path)))) == []
    lose(tmp_path, 2, "metaData")
    assert codes(check(LocalStore(str(tmp_path)))) == ["COMMIT_DOUBTFUL"]
    with pytest.raises(SafetyError, match="2.json may be damaged: it has no metaData action"):
        Table(tmp_path).optimize()
    with pytest.warns(TableWarning, match="a vacuum that has files to remove would be refused"):
        Table(tmp_path).vacuum()


@pytest.mark.parametrize("action", ["metaData", "protocol"])
def test_older_versions_cannot_be_read_after_the_first_commit_lost_an_action(
    tmp_path: Path, action: str
) -> None:
    for number in range(3):
        append(tmp_path, id=number)
    DeltaTable(tmp_path).create_checkpoint()
    lose(tmp_path, 0, action)
    assert codes(check(LocalStore(str(tmp_path)), all_versions=True)) == ["LOG_ACTION_MISSING"]


def test_either_of_two_equal_commits_may_be_the_copy(tmp_path: Path) -> None:
    for number in range(4):
        append(tmp_path, id=number)
    (tmp_path / commit_path(2)).write_bytes((tmp_path / commit_path(3)).read_bytes())
    (row,) = check(LocalStore(str(tmp_path))).findings.to_pylist()
    assert (row["code"], row["version"]) == ("COMMIT_DOUBTFUL", 3)
    assert "compare this commit and the earlier ones with a backup" in row["repair"]
