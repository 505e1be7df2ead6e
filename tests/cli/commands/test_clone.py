"""``deltactl clone``."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from deltactl.table import Table
from tests.cli.conftest import RunCli
from tests.support.table_builder import Column, TableBuilder, commit_path


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Version 1: two partitions; 2: a file more."""
    monkeypatch.chdir(tmp_path)
    columns = [Column("p", "string"), Column("id")]
    builder = TableBuilder(tmp_path / "events", columns, partition_by=["p"])
    builder.append([{"p": "a", "id": 1}], [{"p": "b", "id": 2}])
    builder.append([{"p": "b", "id": 3}])
    return builder


def test_the_hint_for_a_missing_commit_is_a_clone_that_works(
    cli: RunCli, table: TableBuilder
) -> None:
    table.append([{"p": "a", "id": 4}])
    table.store.delete_many([commit_path(2)])
    failed = cli("optimize", "events")
    assert failed.code == 1
    command = f"deltactl clone {table.store.uri} NEW --deep --version 1"
    assert f"new table: `{command}`." in failed.err
    assert cli(*command.split()[1:]).code == 0
    assert ids("NEW") == [1, 2]
    first = cli("clone", "events", "OTHER", "--deep", "--version", "2")
    assert "shows which versions are left" in first.err


def ids(table: str) -> list[int]:
    return sorted(Table(table).scan().read_all()["id"].to_pylist())


def test_deep_shows_the_copied_files_and_the_command_to_check(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    ran = cli("clone", "events", "copy", "--deep", "--dry-run")
    assert ran.code == 0
    said = " ".join(ran.out.split())
    assert said.startswith(f"Would clone version 2 to file://{tmp_path}/copy table 3 files, ")
    assert "to copy  3 files, " in ran.out
    assert ran.out.endswith("  deltactl clone events copy --deep\n")
    assert not Path("copy").exists()
    ran = cli("clone", "events", "copy", "--deep")
    assert ran.code == 0
    said = " ".join(ran.out.split())
    assert said.startswith(f"Cloned version 2 to file://{tmp_path}/copy, version 0 ")
    assert "copied  3 files, " in ran.out
    assert ran.out.endswith("  deltactl check copy\n")
    assert cli("check", "copy").code == 0
    assert ids("copy") == [1, 2, 3]
    assert not list(Path("copy/_deltactl").rglob("*.json"))
    ran = cli("clone", "events", "copy", "--deep")
    assert ran.out == "Nothing to clone: already at version 2\n"


def test_a_sync_tells_how_many_lost_files_it_copied_again(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    cli("clone", "events", "copy", "--deep")
    next(Path("copy/p=b").glob("*.parquet")).unlink()
    for flags, label in ((["--dry-run"], "to copy again"), ([], "copied again")):
        ran = cli("clone", "events", "copy", "--deep", "--sync", *flags)
        assert ran.out.splitlines()[:2] == [
            "Nothing to clone: already at version 2",
            f"  {label}  1 file that the clone had lost",
        ]


@pytest.mark.parametrize("broken", ["events", "copy"])
def test_an_error_about_a_log_names_the_table(
    cli: RunCli, table: TableBuilder, tmp_path: Path, broken: str
) -> None:
    cli("clone", "events", "copy", "--deep")
    table.append([{"id": 9, "p": "c"}])
    cli("clone", "events", "copy", "--deep", "--sync")
    Path(f"{broken}/_delta_log/{1:020}.json").write_text("{broken\n")
    ran = cli("clone", "events", "copy", "--deep", "--sync")
    address = f"file://{tmp_path}/{broken}"
    assert ran.code == 1
    assert f"error: in {address}: _delta_log/{1:020}.json, line 1: not valid JSON" in ran.err
    assert f"`deltactl clone {address} NEW --deep --version 0`" in ran.err
    advice = f"Use a new clone of file://{tmp_path}/events if the log cannot be repaired."
    assert (advice in ran.err) == (broken == "copy")


@pytest.mark.parametrize("kind", ["--deep", "--shallow"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_path_that_is_not_utf8_is_told(
    cli: RunCli, table: TableBuilder, tmp_path: Path, kind: str, side: str
) -> None:
    odd = os.fsdecode(b"odd\xff")
    shutil.copytree("events", odd)
    names = (odd, "copy") if side == "source" else ("events", odd + "2")
    ran = cli("clone", *names, kind)
    assert (ran.code, "is not UTF-8, which clones do not support" in ran.err) == (7, True), ran.err
    assert "LOG_CORRUPT" not in ran.err


def test_shallow_shows_whose_files_the_clone_needs(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    ran = cli("clone", "events", "try", "--shallow", "--where", "p = 'b'")
    assert ran.code == 0
    said = " ".join(ran.out.split())
    assert said.startswith(f"Cloned version 2 where p = 'b' to file://{tmp_path}/try, version 0")
    assert "copied  no files" in ran.out
    assert ran.out.endswith(f"The clone needs the files of:\n  file://{tmp_path}/events\n")
    assert "the clone may become unreadable" in ran.err
    assert ids("try") == [2, 3]
    assert len(list(Path("events/_deltactl/clones").iterdir())) == 1


def test_a_moved_clone_keeps_its_record_if_another_is_made_at_its_address(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    assert cli("clone", "events", "try", "--shallow").code == 0
    Path("try").rename("moved")
    ran = cli("clone", "events", "try", "--shallow")
    assert ran.code == 0
    forget = f"deltactl vacuum file://{tmp_path}/events --forget-clone file://{tmp_path}/try"
    assert forget in ran.err
    refused = cli("vacuum", "events", "--yes")
    assert refused.code == 6
    assert forget in refused.err
    assert ids("moved") == [1, 2, 3]
    assert cli(*shlex.split(forget)[1:], "--yes").code == 0
    assert cli("vacuum", "events", "--yes").code == 0


@pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
def test_every_form_tells_the_versions(cli: RunCli, table: TableBuilder, form: str) -> None:
    ran = cli("clone", "events", "copy", "--deep", "--version", "1", "-o", form)
    assert ran.code == 0
    assert ids("copy") == [1, 2]
    if form == "json":
        envelope = ran.document
        assert (envelope["version_before"], envelope["version_after"]) == (None, 0)
        result = envelope["result"]
        assert (result["kind"], result["source_version"]) == ("deep", 1)
        assert (result["files"], result["files_copied"], result["files_kept"]) == (2, 2, 0)


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        ((), 2, "clone needs --deep or --shallow"),
        (("--deep", "--shallow"), 2, "--deep and --shallow cannot be combined"),
        (("--deep", "--version", "1", "--timestamp", "1d"), 2, "cannot be combined"),
        (("--shallow", "--sync"), 2, "--sync needs --deep"),
        (("--deep", "--no-note"), 2, "--no-note is for shallow clones"),
        (("--deep", "--property", "x"), 2, "--property: a key and a value are needed"),
        (("--deep", "--version", "9"), 1, "it has versions 0 to 2"),
        (("--deep", "--timestamp", "2001-01-01"), 1, "is before the first commit"),
        (("--deep", "--where", "id = 1"), 2, "id"),
        (("--deep", "--source-storage-option", "x"), 2, "KEY=VALUE"),
    ],
)
def test_a_refused_clone_creates_nothing(
    cli: RunCli, table: TableBuilder, args: tuple[str, ...], code: int, text: str
) -> None:
    ran = cli("clone", "events", "copy", *args)
    assert ran.code == code
    assert text in ran.err
    assert not Path("copy").exists()
