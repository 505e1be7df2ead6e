"""``deltactl bundle``: one zip without user data."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deltactl.cli.commands.bundle import make_pseudonyms
from deltactl.storage.local.store import LocalStore
from tests.cli.conftest import RunCli
from tests.cli.html_report.test_report import ensure_harmless
from tests.support.html_page import parse_page
from tests.support.table_builder import Column, TableBuilder

MARK = "Pl4nt3d"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """A table whose every text is planted."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(
        LocalStore(str(tmp_path / f"{MARK}-table")),
        [Column("id"), Column(f"{MARK}-column", "string", metadata={"comment": f"{MARK}-comment"})],
        partition_by=[f"{MARK}-column"],
        properties={f"{MARK}.key": f"{MARK}-value", "delta.appendOnly": f"{MARK}"},
    )
    builder.append([{"id": 1, f"{MARK}-column": f"{MARK}-a"}, {"id": 2, f"{MARK}-column": "b"}])
    builder.commit(
        operation=f"{MARK} operation",
        userName=f"{MARK}-user",
        userMetadata=f"{MARK} metadata",
        engineInfo=f"{MARK}-engine",
        operationParameters={"predicate": f"{MARK} = 1", f"{MARK}-parameter": MARK},
        **{f"{MARK}-field": MARK},
    )
    builder.change_metadata(name=f"{MARK}-name", description=f"{MARK}-description")
    return builder


def root_of(builder: TableBuilder) -> Path:
    return Path(builder.store.uri.removeprefix("file://"))


def read_zip(path: Path | str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read_folder(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def find_plants(files: dict[str, bytes]) -> list[str]:
    return [name for name, data in files.items() if MARK.encode() in data or MARK in name]


def test_no_text_of_the_table_is_in_it(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("bundle", str(root_of(table)), "--file", "b.zip")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("b.zip: ")
    files = read_zip("b.zip")
    assert find_plants(files) == []
    assert next(iter(files)) == "index.html"
    page = files["index.html"].decode()
    ensure_harmless(page)
    parse_page(page)
    wanted = ["detail", "history", "check", "optimize", "vacuum", "settings", "machine", "parts"]
    assert {f"{name}.json" for name in wanted} <= files.keys()
    assert len([name for name in files if name.startswith("log/0")]) == table.version + 1
    values = {name: json.loads(files[f"{name}.json"]) for name in wanted}
    assert values["detail"]["version"] == values["check"]["version"] == table.version
    assert values["detail"]["row"]["numFiles"] == 1
    assert len(values["history"]["rows"]) == table.version + 1
    assert not any(part["error"] for part in values["parts"])


def test_findings_are_in_it_and_are_no_failure(cli: RunCli, table: TableBuilder) -> None:
    (path,) = root_of(table).rglob("*.parquet")
    path.unlink()
    assert cli("bundle", str(root_of(table)), "--file", "b.zip").code == 0
    files = read_zip("b.zip")
    assert find_plants(files) == []
    check = json.loads(files["check.json"])
    assert check["codes"] == {"FILE_MISSING": 1}
    assert check["findings"][0]["code"] == "FILE_MISSING"
    assert b"FILE_MISSING" in files["index.html"]


def test_what_fails_is_in_it_as_its_error(cli: RunCli, table: TableBuilder) -> None:
    (root_of(table) / "_delta_log" / f"{table.version:020}.json").write_text(f"{MARK} is no JSON")
    ran = cli("bundle", str(root_of(table)), "--file", "b.zip")
    assert ran.code == 5
    assert "missing in the bundle, such as detail.json (LOG_CORRUPT)" in ran.err
    files = read_zip("b.zip")
    assert find_plants(files) == []
    errors = {part["name"]: part["error"] for part in json.loads(files["parts.json"])}
    assert errors["detail.json"]["code"] == errors["optimize.json"]["code"] == "LOG_CORRUPT"
    assert errors["check.json"] is errors["history.json"] is None
    assert b"LOG_CORRUPT" in files["index.html"]
    assert json.loads(files[f"log/{table.version:020}.json"])["unparsed"]["length"] == 18


def test_a_bug_in_a_part_leaves_the_others(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError(MARK)

    monkeypatch.setattr("deltactl.operations.bundle.parts.load_detail", fail)
    ran = cli("bundle", str(root_of(table)), "--file", "b.zip", "-o", "json")
    assert ran.code == 5
    parts = {part["name"]: part["error"] for part in json.loads(ran.out)["result"]["parts"]}
    assert parts.pop("detail.json")["code"] == "INTERNAL"
    assert set(parts.values()) == {None}
    assert find_plants(read_zip("b.zip")) == []


def test_an_existing_file_is_not_overwritten(cli: RunCli, table: TableBuilder) -> None:
    Path("b.zip").write_text("mine")
    ran = cli("bundle", str(root_of(table)), "--file", "b.zip")
    assert ran.code == 6
    assert Path("b.zip").read_text() == "mine"
    assert cli("bundle", str(root_of(table)), "--file", "b.zip", "--force").code == 0
    assert "index.html" in read_zip("b.zip")


def test_names_may_be_kept_and_commits_chosen(cli: RunCli, table: TableBuilder) -> None:
    assert cli("bundle", str(root_of(table)), "--include-names", "--commits", "1").code == 0
    (path,) = Path().glob("deltactl-bundle-*.zip")
    files = read_zip(path)
    assert len([name for name in files if name.startswith("log/0")]) == 1
    detail = json.loads(files["detail.json"])["row"]
    assert detail["partitionColumns"] == [f"{MARK}-column"]
    said = b"".join(files.values())
    for text in ("a", "value", "user", "comment", "description", "table", "engine"):
        assert f"{MARK}-{text}".encode() not in said


def test_nothing_but_the_zip_is_written(cli: RunCli, table: TableBuilder) -> None:
    before = read_folder(root_of(table))
    assert cli("bundle", str(root_of(table)), "--file", "b.zip").code == 0
    assert read_folder(root_of(table)) == before
    assert sorted(path.name for path in Path().iterdir()) == [f"{MARK}-table", "b.zip"]


def test_settings_and_variables(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{MARK}-key")
    monkeypatch.setenv("DELTACTL_TARGET_SIZE", "64MiB")
    monkeypatch.setenv("DELTACTL_MASTER", f"spark://{MARK}:7077")
    monkeypatch.setenv(f"{MARK}_VARIABLE", "1")
    assert cli("bundle", str(root_of(table)), "--file", "b.zip").code == 0
    files = read_zip("b.zip")
    assert find_plants(files) == []
    assert "AWS_SECRET_ACCESS_KEY" in json.loads(files["machine.json"])["variables"]
    rows = json.loads(files["settings.json"])
    (size,) = (
        row for row in rows if (row["command"], row["setting"]) == ("optimize", "target-size")
    )
    assert (size["value"], size["origin"], size["name"]) == (
        "64MiB",
        "environment",
        "DELTACTL_TARGET_SIZE",
    )


@pytest.mark.parametrize("name", ["missing/b.zip", ".", "s3://b/b.zip", "-", "pipe", "/dev/null"])
def test_places_that_cannot_be_written(cli: RunCli, table: TableBuilder, name: str) -> None:
    os.mkfifo("pipe")
    assert cli("bundle", str(root_of(table)), "--file", name, "--force").code == 2
    assert Path("pipe").is_fifo()


@pytest.mark.parametrize("name", [f"_delta_log/{0:020}.json", "_delta_log/b.zip", "b.zip"])
def test_no_file_of_a_table_is_replaced(cli: RunCli, table: TableBuilder, name: str) -> None:
    before = read_folder(root_of(table))
    ran = cli("bundle", str(root_of(table)), "--file", str(root_of(table) / name), "--force")
    assert ran.code == 2
    assert "is in the table at" in ran.err
    assert read_folder(root_of(table)) == before


def test_the_working_directory_may_be_a_table(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_folder(root_of(table))
    monkeypatch.chdir(root_of(table))
    assert cli("bundle", ".").code == 2
    assert cli("bundle", ".", "--file", "../b.zip").code == 0
    assert read_folder(root_of(table)) == before


def test_an_address_keeps_no_name(cli: RunCli, table: TableBuilder) -> None:
    gone = {
        "path": f"https://{MARK}a.blob.core.windows.net/{MARK}c?{MARK}s=1/{MARK}d=2/f.parquet",
        "partitionValues": {f"{MARK}-column": "x"},
        "dataChange": True,
    }
    table.commit({"remove": gone}, operation="DELETE")
    cli("bundle", str(root_of(table)), "--file", "b.zip", "--include-names")
    said = b"".join(read_zip("b.zip").values())
    assert f"{MARK}-column=~".encode() in said
    for text in "acsd":
        assert f"{MARK}{text}".encode() not in said


def test_messages_of_the_system_are_readable() -> None:
    names = make_pseudonyms(keep_names=False)
    for number in (errno.EACCES, errno.ENOSPC, errno.ETIMEDOUT, errno.EISDIR):
        assert names.prose(os.strerror(number)) == os.strerror(number)
    assert MARK not in names.prose(f"Permission denied: {MARK}")
