"""``check`` finds files that a remove names by another text, and ``--fix`` removes them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import CheckpointOptions, ConflictError, SafetyError, Table, UsageError, VacuumOptions
from deltactl.operations.check.fixes.path_encoding import PathRepairReport
from deltactl.operations.check.fixes.report import FixReport
from deltactl.storage.local.store import LocalStore
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.path_texts import TextTable
from tests.support.restores import bodies
from tests.support.table_builder import Column, TableBuilder

RAW, ENCODED = "p=é/f.parquet", "p=%C3%A9/f.parquet"


def fix(root: Path, texts: Sequence[str] = (), **options: Any) -> PathRepairReport:
    report = Table(str(root)).fix(kind="path-encoding", texts=tuple(texts), **options)
    assert isinstance(report, PathRepairReport)
    return report


def codes(root: Path) -> list[str]:
    return list(Table(str(root)).check().findings["code"].to_pylist())


def problems(root: Path) -> list[str]:
    return list(Table(str(root)).check().findings["problem"].to_pylist())


def pairs(root: Path) -> dict[str, str]:
    """Give the verdict of each live text."""
    found = fix(root, dry_run=True).found
    return {pair.text: pair.verdict.value for pair in found}


def ids(root: Path) -> list[int]:
    """Give what DuckDB and delta-rs read, which is the same."""
    found = sorted(row["id"] for row in rows_with_duckdb(root))
    assert found == sorted(row["id"] for row in rows_with_delta_rs(root))
    return found


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
    report = fix(table.root)
    assert ids(table.root) == after
    assert codes(table.root) == []
    assert report.version_after == 4
    assert fix(table.root).version_after is None


def test_the_remove_has_the_text_of_the_add(table: TextTable) -> None:
    table.remove(ENCODED)
    report = fix(table.root)
    assert report.version_after is not None
    store = LocalStore(str(table.root))
    (info,), (body,) = (bodies(store, report.version_after, it) for it in ("commitInfo", "remove"))
    assert info["operationMetrics"]["numDeletedRows"] == "2"
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
    assert fix(table.root).version_after is None
    assert ids(table.root) == [1, 2, 3]


def test_of_two_live_texts_the_newer_stays(table: TextTable) -> None:
    table.add(ENCODED, (1, 2))
    assert ids(table.root) == [1, 1, 2, 2, 3]
    assert codes(table.root) == ["PATH_ENCODING"]
    fix(table.root)
    assert ids(table.root) == [1, 2, 3]
    texts = Table(str(table.root)).snapshot().files["encoded_path"].to_pylist()
    assert sorted(texts) == [ENCODED, "p=é/g.parquet"]


def test_a_name_selects_its_only_live_text(tmp_path: Path) -> None:
    table = TextTable(tmp_path)
    table.add(ENCODED, (1, 2))
    table.remove("p=é/%66.parquet")
    with pytest.raises(
        UsageError, match="is not the path of a file that `deltactl check`"
    ) as error:
        fix(tmp_path, ["p=é/%66.parquet"])
    assert "omit" not in (error.value.hint or "")
    assert [it.text for it in fix(tmp_path, [RAW], dry_run=True).chosen] == [ENCODED]
    table.add(RAW, (1, 2))
    assert pairs(tmp_path) == {ENCODED: "remove"}
    with pytest.raises(UsageError, match="is not the path of a file that"):
        fix(tmp_path, [RAW])


def test_all_texts_of_a_file_never_go(table: TextTable) -> None:
    table.add(ENCODED, (1, 2))
    table.remove("p=é/%66.parquet")
    assert set(pairs(table.root)) == {RAW, ENCODED}
    with pytest.raises(SafetyError, match="This run would remove all of them"):
        fix(table.root, [RAW, ENCODED])
    assert ids(table.root) == [1, 1, 2, 2, 3]


def test_what_is_unknown_has_to_be_named(table: TextTable) -> None:
    """The commits that would tell are gone: only the tombstone in the checkpoint is left."""
    table.remove(ENCODED)
    path = table.root / "_delta_log" / f"{table.version:020}.json"
    path.write_text(path.read_text("utf-8").replace('"deletionTimestamp": 0', '"deletionTimestamp": 99999999999999'), "utf-8")  # fmt: skip  # noqa: E501
    Table(str(table.root)).checkpoint(CheckpointOptions())
    for version in range(table.version + 1):
        (table.root / "_delta_log" / f"{version:020}.json").unlink()
    assert codes(table.root) == ["PATH_ENCODING_DOUBTFUL", "HISTORY_GAP"]
    assert fix(table.root).version_after is None
    with pytest.raises(UsageError, match="is not the path of a file that"):
        fix(table.root, ["p=x"])
    assert fix(table.root, [RAW]).version_after == table.version + 1
    assert ids(table.root) == [3]


@pytest.mark.parametrize("writer", ["the file", "the schema", "another file"])
def test_what_another_writer_does_meanwhile(table: TextTable, writer: str) -> None:
    table.remove(ENCODED)

    def commit_first(report: FixReport) -> bool:
        if writer == "the file":
            table.remove(RAW)
        elif writer == "another file":
            table.add("p=x/h.parquet", (9,), p="x")
        else:
            (metadata,) = bodies(LocalStore(str(table.root)), 0, "metaData")
            table.commit({"metaData": metadata})
        return True

    if writer == "another file":
        fix(table.root, confirm=commit_first)
        assert ids(table.root) == [3, 9]
        return
    version = table.version
    with pytest.raises(ConflictError, match="nothing was committed"):
        fix(table.root, confirm=commit_first)
    assert Table(str(table.root)).snapshot().version == version + 1


def test_a_no_leaves_the_table_alone(table: TextTable) -> None:
    table.remove(ENCODED)
    with pytest.raises(SafetyError, match="not confirmed"):
        fix(table.root, confirm=lambda report: False)
    assert ids(table.root) == [1, 2, 3]


def test_a_deletion_vector_goes_into_the_remove(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")], features=("deletionVectors",))
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    builder.delete_rows(path, [0])
    add = builder.find(path)
    other = path.replace("f", "%66", 1)
    builder.commit({"remove": {**add, "path": other, "deletionTimestamp": 0}})
    report = fix(tmp_path)
    assert report.version_after is not None
    (remove,) = bodies(builder.store, report.version_after, "remove")
    assert remove["deletionVector"] == add["deletionVector"]
    assert report.num_rows == 1
    assert Table(str(tmp_path)).snapshot().num_files == 0


def compact(table: TextTable) -> str:
    """Let delta-rs rewrite both files; give the path of the new one."""
    DeltaTable(str(table.root)).optimize.compact()
    table.version += 1
    texts = Table(str(table.root)).snapshot().files["encoded_path"].to_pylist()
    return str(next(text for text in texts if "part-" in text))


def test_the_only_copy_of_rows_is_left(table: TextTable) -> None:
    """Somebody saw every row twice, and deleted the copy that delta-rs had written."""
    table.remove(compact(table))
    assert ids(table.root) == [1, 2, 3]
    assert set(codes(table.root)) == {"PATH_ENCODING_DOUBTFUL"}
    assert "version 4 (DELETE) removed files that version 3 had written" in problems(table.root)[0]
    assert fix(table.root).version_after is None
    assert ids(table.root) == [1, 2, 3]


def test_the_only_copy_is_followed_through_a_compaction(table: TextTable) -> None:
    new = compact(table)
    table.write_file("p=é/h.parquet", (1, 2, 3))
    common = {"partitionValues": {"p": "é"}, "size": 1, "dataChange": False}
    table.commit(
        {"remove": {"path": new, "deletionTimestamp": 0, **common}},
        {"add": {"path": "p=é/h.parquet", "modificationTime": 0, **common}},
        operation="OPTIMIZE",
    )
    assert set(codes(table.root)) == {"FILE_SIZE", "PATH_ENCODING"}
    table.remove("p=é/h.parquet")
    assert set(codes(table.root)) == {"PATH_ENCODING_DOUBTFUL"}


def test_a_second_overwrite_leaves_no_doubt(table: TextTable) -> None:
    """It removes what the first one wrote, and means the missed files once more."""
    for number in (7, 8):
        rows = pa.table({"id": pa.array([number], pa.int64()), "p": ["é"]})
        write_deltalake(str(table.root), rows, mode="overwrite")
    assert ids(table.root) == [1, 2, 3, 8]
    assert set(codes(table.root)) == {"PATH_ENCODING", "REMOVE_REPEATED"}
    fix(table.root)
    assert ids(table.root) == [8]


def test_a_delete_after_a_restore_counts(table: TextTable) -> None:
    DeltaTable(str(table.root)).delete("id = 1")
    DeltaTable(str(table.root)).restore(2)
    DeltaTable(str(table.root)).delete("id = 1")
    assert codes(table.root) == ["PATH_ENCODING", "REMOVE_REPEATED"]
    fix(table.root)
    assert ids(table.root) == [2, 3]


def test_a_restore_that_removes_by_another_text_is_certain(table: TextTable) -> None:
    DeltaTable(str(table.root)).restore(1)  # to before the second file
    assert ids(table.root) == [1, 2, 3]
    assert codes(table.root) == ["PATH_ENCODING"]
    assert "RESTORE of delta-rs" in problems(table.root)[0]
    fix(table.root)
    assert ids(table.root) == [1, 2]


def test_the_copy_goes_while_the_fix_is_at_work(table: TextTable) -> None:
    new = compact(table)

    def delete_first(report: FixReport) -> bool:
        table.remove(new)
        return True

    with pytest.raises(ConflictError, match="nothing was committed"):
        fix(table.root, confirm=delete_first)
    assert ids(table.root) == [1, 2, 3]


def test_a_pair_outside_of_the_table(tmp_path: Path) -> None:
    table = TextTable(tmp_path / "t")
    table.add("../u/é.parquet", (1,))
    table.remove("../u/%C3%A9.parquet")
    assert set(codes(table.root)) >= {"PATH_ENCODING", "PATH_INVALID"}
    (pair,) = fix(table.root, dry_run=True).found
    assert pair.exists is None


def test_a_vacuum_keeps_the_file_for_the_retention(table: TextTable) -> None:
    table.remove(ENCODED)
    fixed = fix(table.root)
    Table(str(table.root)).vacuum(VacuumOptions(mode="full"))
    assert (table.root / RAW).exists()
    assert fixed.version_after is not None
    DeltaTable(str(table.root)).restore(fixed.version_after - 1)
    assert ids(table.root) == [1, 2, 3]
