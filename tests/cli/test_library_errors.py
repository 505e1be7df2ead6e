"""Methods of ``Table`` that did a part of their work raise the error of the command."""

import os
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from deltactl.errors import (
    AccessDeniedError,
    DeltactlError,
    FileMissingError,
    SafetyError,
    StorageError,
)
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.cli.conftest import RunCli
from tests.support.table_builder import LOG, Column, TableBuilder

NOW: dict[str, Any] = {"retain": "0s", "force_retention": True, "mode": "full"}
AT_ONCE = ("--retain", "0s", "--force-retention", "--mode", "full", "--yes")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two partitions of three files each."""
    path = tmp_path / "t"
    builder = TableBuilder(path, [Column("id"), Column("p", "string")], partition_by=["p"])
    for number in range(3):
        builder.append([{"id": number, "p": "a"}], [{"id": number, "p": "b"}])
    return path


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts of the names of files that cannot be deleted."""
    parts: list[str] = []
    delete = LocalStore.delete_many

    def delete_others(store: LocalStore, names: Sequence[str]) -> dict[str, StorageError]:
        bad = [name for name in names if any(part in name for part in parts)]
        failed = {name: AccessDeniedError("no permission") for name in bad}
        return {**delete(store, [name for name in names if name not in bad]), **failed}

    monkeypatch.setattr(LocalStore, "delete_many", delete_others)
    return parts


def compare(
    cli: RunCli,
    root: Path,
    command: Sequence[str],
    method: Callable[[Table], object],
    kind: type[DeltactlError],
) -> Any:
    """Run both on the same table; return the report of the error."""
    spare = root.with_name("spare")
    shutil.copytree(root, spare)
    ran = cli(command[0], str(root), *command[1:], "-o", "json")
    shutil.rmtree(root)
    spare.rename(root)
    with pytest.raises(kind) as caught:
        method(Table(root))
    error, told = caught.value, ran.document["error"]
    assert type(error) is kind
    assert (error.code, error.exit_code) == (told["code"], ran.code)
    assert error.message.split(":")[0] == told["message"].split(":")[0]
    assert "TABLE" not in str(error.hint)
    report: Any = pickle.loads(pickle.dumps(error)).report
    assert report is not None
    return report


def test_optimize(cli: RunCli, root: Path) -> None:
    min(root.glob("p=a/*.parquet")).unlink()
    report = compare(cli, root, ["optimize"], Table.optimize, FileMissingError)
    assert (report.files_removed, len(report.failures)) == (5, 1)
    assert Table(root).snapshot().version == report.version_after


def test_vacuum(cli: RunCli, root: Path, refused: list[str]) -> None:
    Table(root).optimize()
    refused += [path.name for path in root.glob("p=a/*.parquet")]
    report = compare(
        cli, root, ["vacuum", *AT_ONCE], lambda it: it.vacuum(**NOW), AccessDeniedError
    )
    assert (report.files_removed, len(report.failures)) == (3, 3)


def test_undo(cli: RunCli, root: Path) -> None:
    table = Table(root)
    table.optimize()
    table.vacuum(**NOW, quarantine=True)
    min(root.rglob("_deltactl/**/p=a/*.parquet")).unlink()
    assert len(table.undo_vacuum(dry_run=True).errors) == 1
    report = compare(cli, root, ["vacuum", "--undo", "last"], Table.undo_vacuum, FileMissingError)
    assert (len(report.restored), len(report.errors)) == (5, 1)


def test_purge_quarantine(cli: RunCli, root: Path) -> None:
    table = Table(root)
    table.optimize()
    table.vacuum(**NOW, quarantine=True, quarantine_for="0s")
    report = compare(
        cli,
        root,
        ["vacuum", "--purge-quarantine", "--force-retention", "--yes"],
        lambda it: it.purge_quarantine(force_retention=True),
        SafetyError,
    )
    assert len(report.needed) == 1
    assert table.purge_quarantine(force_retention=True, dry_run=True).needed == report.needed


@pytest.mark.usefixtures("trusted_clock")
def test_checkpoint(cli: RunCli, root: Path, refused: list[str]) -> None:
    refused.append(f"{0:020d}.json")
    Table(root).checkpoint()
    for number, path in enumerate(sorted((root / LOG).glob("*.json"))):
        os.utime(path, (number, number))
    Table(root).optimize()
    report = compare(
        cli,
        root,
        ["checkpoint", "--cleanup-only", "--yes"],
        lambda it: it.checkpoint(cleanup_only=True),
        StorageError,
    )
    assert len(report.failed) == 1
