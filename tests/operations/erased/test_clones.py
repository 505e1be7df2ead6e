"""Recorded clones are searched too, and what is not of the table; a search changes nothing."""

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import Table, TableWarning
from deltactl.engine.base import CancelToken
from deltactl.errors import InterruptedRunError


def test_recorded_clones_are_searched(tmp_path: Path) -> None:
    source, clone = str(tmp_path / "a table"), str(tmp_path / "a clone")
    write_deltalake(source, pa.table({"id": [1, 42]}))
    with pytest.warns(TableWarning, match="a shallow clone needs the files of its source"):
        Table(source).clone(clone, deep=False)
    DeltaTable(source).delete("id = 42")
    report = Table(source).check_erased("id = 42")
    names = [unquote(table).rpartition("/")[2] for table, _ in report.tables]
    assert names == ["a table", "a clone"]
    live = [it for it in report.places if it.name == "live rows"]
    assert [(it.table, it.rows) for it in live] == [(report.tables[1][0], 1)]
    assert f"DELETE FROM delta.`{clone}` WHERE id = 42" in report.commands
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    (tmp_path / "a clone" / "_delta_log" / f"{0:020d}.json").rename(tmp_path / "log")
    lost = Table(source).check_erased("id = 43")
    assert [(it.name, it.place) for it in lost.unread] == [(report.tables[1][0], "clones")]
    (tmp_path / "log").rename(tmp_path / "a clone" / "_delta_log" / f"{0:020d}.json")
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == {path: it for path, it in before.items() if path in after}


def test_a_redacted_report_has_no_value_in_the_address_of_a_clone(tmp_path: Path) -> None:
    source, clone = str(tmp_path / "t"), tmp_path / "of_Alice%41_x"
    write_deltalake(source, pa.table({"name": ["b", "alicea"]}))
    with pytest.warns(TableWarning, match="a shallow clone needs the files of its source"):
        Table(source).clone(str(clone), deep=False)
    for redact in (False, True):
        report = Table(source).check_erased("name = 'alicea'", redact=redact)
        assert ("lice" in json.dumps(report.to_dict())) == (not redact)
    assert [it.table for it in report.places if it.name == "live rows"] == [
        report.tables[0][0],
        "CLONE",
    ]
    assert "DELETE FROM delta.`CLONE` WHERE PREDICATE" in report.commands
    (clone / "_delta_log" / f"{0:020d}.json").unlink()
    lost = Table(source).check_erased("name = 'alicea'", redact=True)
    assert [it.name for it in lost.unread] == ["*"]


def test_a_file_elsewhere_that_a_clone_had_is_searched(tmp_path: Path) -> None:
    source, clone = str(tmp_path / "t"), tmp_path / "clone"
    write_deltalake(source, pa.table({"id": [1, 42, 99]}))
    with pytest.warns(TableWarning, match="a shallow clone needs the files of its source"):
        Table(source).clone(str(clone), deep=False)
    (add,) = (
        json.loads(line)["add"]
        for line in (clone / "_delta_log" / f"{0:020d}.json").read_text("utf-8").splitlines()
        if line.startswith('{"add"')
    )
    remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
    (clone / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"remove": remove}), "utf-8")
    (place,) = Table(str(clone)).check_erased("id = 42").places
    assert (place.name, place.rows) == ("files of the source of this clone", 1)


def test_files_of_a_table_in_a_subdirectory_are_found_as_such(tmp_path: Path) -> None:
    """No vacuum of the table above deletes them; that of the one below may not delete ours."""
    source, below = tmp_path / "t", tmp_path / "t" / "id=42"
    write_deltalake(source, pa.table({"id": [1, 2]}))
    write_deltalake(below, pa.table({"id": [1, 42]}))
    (source / "h" / ".hoodie").mkdir(parents=True)
    (source / "h" / "notes.txt").write_text("42", "utf-8")
    report = Table(str(source)).check_erased("id = 42")
    assert len(report.tables) == 1
    found = {str(it.name): (it.files, it.rows) for it in report.places}
    assert found["other tables"][1] == 1
    assert "names of files and directories" in found
    assert "unreferenced files" not in found
    assert not [it for it in report.commands if "unknown" in it]


def test_parquet_files_in_hidden_directories_are_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    (tmp_path / "_symlink_format_manifest").mkdir()
    pq.write_table(pa.table({"id": [42]}), tmp_path / "_symlink_format_manifest" / "x.parquet")
    report = Table(str(tmp_path)).check_erased("id = 42")
    assert [(str(it.name), it.rows) for it in report.places] == [("symlink manifests", 1)]


def test_a_directory_that_no_command_deletes_is_named(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1], "p": ["a"]}), partition_by=["p"])
    (tmp_path / "_symlink_format_manifest" / "p=zebra").mkdir(parents=True)
    (place,) = Table(str(tmp_path)).check_erased("p = 'zebra'").places
    assert (place.steps, place.parts) == ((), ("_symlink_format_manifest/p=*/",))


def test_settings_of_the_table_are_no_values(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"s": ["a"]}))
    Table(str(tmp_path)).alter(properties={"delta.appendOnly": "true", "owner": "true"})
    report = Table(str(tmp_path)).check_erased("s = 'true'")
    (unset,) = (it for it in report.commands if "--unset" in it)
    assert unset.endswith("--unset owner")


def test_a_cancelled_search_has_no_result(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 42]}))
    cancel = CancelToken()
    cancel.set()
    with pytest.raises(InterruptedRunError):
        Table(str(tmp_path / "t")).check_erased("id = 42", cancel=cancel)
