"""``check`` finds files that a remove names by another text, and ``--fix`` removes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from deltactl import CheckpointOptions, ConflictError, SafetyError, Table, UsageError
from deltactl.operations.check_fix import PathRepairReport
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.path_texts import TextTable

RAW, ENCODED = "p=é/f.parquet", "p=%C3%A9/f.parquet"


def codes(root: Path) -> list[str]:
    return list(Table(str(root)).check().findings["code"].to_pylist())


def problems(root: Path) -> list[str]:
    return list(Table(str(root)).check().findings["problem"].to_pylist())


def pairs(root: Path) -> dict[str, str]:
    """Give the verdict of each live text."""
    found = Table(str(root)).fix_paths(dry_run=True).found
    return {pair.text: pair.verdict.value for pair in found}


def ids(root: Path) -> list[int]:
    """Give what DuckDB and delta-rs read, which is the same."""
    found = sorted(row["id"] for row in rows_with_duckdb(root))
    assert found == sorted(row["id"] for row in rows_with_delta_rs(root))
    return found


def last_commit(table: TextTable, version: int) -> list[dict[str, Any]]:
    path = table.root / "_delta_log" / f"{version:020}.json"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def table(tmp_path: Path) -> TextTable:
    """Two files with raw texts, as Spark writes them."""
    made = TextTable(tmp_path)
    made.add(RAW, (1, 2))
    made.add("p=é/g.parquet", (3,))
    return made


CHANGES: dict[str, tuple[Callable[[DeltaTable], object], list[int], list[int]]] = {
    "delete": (lambda it: it.delete("id = 1"), [1, 2, 2, 3], [2, 3]),
    "update": (lambda it: it.update({"id": "4"}, predicate="id = 3"), [1, 2, 3, 4], [1, 2, 4]),
    "compact": (lambda it: it.optimize.compact(), [1, 1, 2, 2, 3, 3], [1, 2, 3]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_delta_rs_removes_by_another_text(table: TextTable, change: str) -> None:
    act, before, after = CHANGES[change]
    act(DeltaTable(str(table.root)))
    assert ids(table.root) == before
    assert set(codes(table.root)) == {"PATH_ENCODING"}
    first = problems(table.root)[0]
    assert "delta-rs" in first
    assert "readers still return" in first
    report = Table(str(table.root)).fix_paths()
    assert ids(table.root) == after
    assert codes(table.root) == []
    assert report.version_after == 4
    assert Table(str(table.root)).fix_paths().version_after is None


def test_the_remove_has_the_text_of_the_add(table: TextTable) -> None:
    table.remove(ENCODED)
    report = Table(str(table.root)).fix_paths()
    assert report.version_after is not None
    info, remove = last_commit(table, report.version_after)
    assert info["commitInfo"]["operationMetrics"]["numDeletedRows"] == "2"
    body = remove["remove"]
    size = (table.root / "p=é/f.parquet").stat().st_size
    assert (body["path"], body["size"], body["dataChange"]) == (RAW, size, True)
    assert (body["partitionValues"], body["extendedFileMetadata"]) == ({"p": "é"}, True)
    assert (table.root / "p=é/f.parquet").exists()


def test_rows_that_a_restore_brought_back_are_wanted(table: TextTable) -> None:
    DeltaTable(str(table.root)).delete("id = 1")
    DeltaTable(str(table.root)).restore(2)
    assert ids(table.root) == [1, 2, 3]
    assert codes(table.root) == []
    assert pairs(table.root) == {RAW: "wanted"}
    assert Table(str(table.root)).fix_paths().version_after is None
    assert ids(table.root) == [1, 2, 3]


def test_of_two_live_texts_the_newer_stays(table: TextTable) -> None:
    table.add(ENCODED, (1, 2))
    assert ids(table.root) == [1, 1, 2, 2, 3]
    assert codes(table.root) == ["PATH_ENCODING"]
    Table(str(table.root)).fix_paths()
    assert ids(table.root) == [1, 2, 3]
    texts = Table(str(table.root)).snapshot().files["encoded_path"].to_pylist()
    assert sorted(texts) == [ENCODED, "p=é/g.parquet"]


def test_all_texts_of_a_file_never_go(table: TextTable) -> None:
    table.add(ENCODED, (1, 2))
    table.remove("p=é/%66.parquet")
    assert set(pairs(table.root)) == {RAW, ENCODED}
    with pytest.raises(SafetyError, match="all of them were to go"):
        Table(str(table.root)).fix_paths([RAW, ENCODED])
    assert ids(table.root) == [1, 1, 2, 2, 3]


def test_what_nobody_knows_has_to_be_named(table: TextTable) -> None:
    """The commits that would tell are gone: only the tombstone in the checkpoint is left."""
    table.remove(ENCODED)
    path = table.root / "_delta_log" / f"{table.version:020}.json"
    path.write_text(path.read_text("utf-8").replace('"deletionTimestamp": 0', '"deletionTimestamp": 99999999999999'), "utf-8")  # fmt: skip  # noqa: E501
    Table(str(table.root)).checkpoint(CheckpointOptions())
    for version in range(table.version + 1):
        (table.root / "_delta_log" / f"{version:020}.json").unlink()
    assert codes(table.root) == ["PATH_ENCODING_DOUBTFUL"]
    assert Table(str(table.root)).fix_paths().version_after is None
    with pytest.raises(UsageError, match="not the live text"):
        Table(str(table.root)).fix_paths(["p=x"])
    assert Table(str(table.root)).fix_paths([RAW]).version_after == table.version + 1
    assert ids(table.root) == [3]


def test_an_append_only_table_is_refused(tmp_path: Path) -> None:
    table = TextTable(tmp_path, **{"delta.appendOnly": "true"})
    table.add(RAW, (1,))
    table.remove(ENCODED)
    with pytest.raises(SafetyError, match="append-only"):
        Table(str(tmp_path)).fix_paths()
    assert ids(tmp_path) == [1]


@pytest.mark.parametrize("writer", ["the file", "the schema", "another file"])
def test_what_another_writer_does_meanwhile(table: TextTable, writer: str) -> None:
    table.remove(ENCODED)

    def commit_first(report: PathRepairReport) -> bool:
        if writer == "the file":
            table.remove(RAW)
        elif writer == "another file":
            table.add("p=x/h.parquet", (9,), p="x")
        else:
            path = table.root / "_delta_log" / f"{0:020}.json"
            lines = path.read_text("utf-8").splitlines()
            metadata = next(json.loads(line) for line in lines if "metaData" in line)
            table.commit(metadata)
        return True

    if writer == "another file":
        Table(str(table.root)).fix_paths(confirm=commit_first)
        assert ids(table.root) == [3, 9]
        return
    version = table.version
    with pytest.raises(ConflictError, match="nothing was committed"):
        Table(str(table.root)).fix_paths(confirm=commit_first)
    assert Table(str(table.root)).snapshot().version == version + 1


def test_a_no_leaves_the_table_alone(table: TextTable) -> None:
    table.remove(ENCODED)
    with pytest.raises(SafetyError, match="not confirmed"):
        Table(str(table.root)).fix_paths(confirm=lambda report: False)
    assert ids(table.root) == [1, 2, 3]


def test_a_deletion_vector_goes_into_the_remove(tmp_path: Path) -> None:
    from deltactl.storage.open import open_store
    from tests.support.table_builder import Column, TableBuilder

    builder = TableBuilder(open_store(str(tmp_path)), [Column("id")], features=("deletionVectors",))
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    builder.delete_rows(path, [0])
    add = builder.find(path)
    other = path.replace("f", "%66", 1)
    builder.commit({"remove": {**add, "path": other, "deletionTimestamp": 0}})
    report = Table(str(tmp_path)).fix_paths()
    assert report.version_after is not None
    log = (tmp_path / "_delta_log" / f"{report.version_after:020}.json").read_text("utf-8")
    remove = json.loads(log.splitlines()[1])["remove"]
    assert remove["deletionVector"] == add["deletionVector"]
    assert report.num_rows == 1
    assert Table(str(tmp_path)).snapshot().num_files == 0


def test_a_table_without_pairs(table: TextTable) -> None:
    report = Table(str(table.root)).fix_paths()
    assert (report.is_empty, report.version_after) == (True, None)
