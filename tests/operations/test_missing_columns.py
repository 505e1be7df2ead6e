"""Tables without a schema: what works on them, and what is refused because it would lose data.

Version 0 of tables that Delta Live Tables makes has a ``metaData`` without ``schemaString``.
"""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltactl.errors import CorruptLogError, SafetyError
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.report import CheckReport
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.support.run import run_on
from tests.support.schemaless import ABSENT, NO_SCHEMA, NUM_FILES, make_schemaless, replace_schema
from tests.support.table_builder import Column, commit_path, struct_of

pytestmark = pytest.mark.thorough

DEEP = CheckOptions(depth=Depth.DATA, checkpoints=True, vectors=True)
PURGE = OptimizeOptions(purge=True)


def open_table(path: Path) -> Table:
    return Table(str(path), warn=lambda message: None)


def codes(report: CheckReport) -> dict[str, int]:
    return report.count_codes()


def vacuum_orphan(path: Path) -> int:
    """How many files a vacuum removes when there is one old file that no commit names."""
    orphan = path / "orphan.parquet"
    orphan.write_bytes(b"PAR1")
    os.utime(orphan, (1, 1))
    removed = run_on(
        LocalStore(str(path)), partial(vacuum_table, orphans="all"), VacuumOptions()
    ).files_removed
    assert not orphan.exists()
    return removed


def data_files(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("f0*.parquet")}


@pytest.mark.parametrize("schema", NO_SCHEMA)
@pytest.mark.parametrize("partition_by", [(), ("p",)])
def test_a_later_commit_brings_the_schema(
    tmp_path: Path, schema: Any, partition_by: tuple[str, ...]
) -> None:
    make_schemaless(tmp_path, schema, partition_by, later=True)
    table = open_table(tmp_path)
    assert table.scan(0).read_all().column_names == []
    before = sorted(table.scan().read_all().to_pylist(), key=str)
    assert len(before) == NUM_FILES
    assert len(table.history()) == 4
    assert table.checkpoint().plan.version == 3
    assert table.optimize().files_removed == NUM_FILES
    assert sorted(table.scan().read_all().to_pylist(), key=str) == before
    assert vacuum_orphan(tmp_path) == 1
    every = CheckOptions(depth=Depth.DATA, checkpoints=True, all_versions=True)
    assert codes(table.check(every)) == {}
    assert codes(table.check(DEEP)) == {}


@pytest.mark.parametrize("schema", NO_SCHEMA)
@pytest.mark.parametrize("partition_by", [(), ("p",)])
def test_without_columns_nothing_is_rewritten(
    tmp_path: Path, schema: Any, partition_by: tuple[str, ...]
) -> None:
    make_schemaless(tmp_path, schema, partition_by, later=False)
    table, before = open_table(tmp_path), data_files(tmp_path)
    lack = "lacks the partition column 'p'" if partition_by else "has no columns"
    for options in (OptimizeOptions(), PURGE):
        for dry_run in (False, True):
            with pytest.raises(SafetyError, match=lack):
                table.optimize(options, dry_run=dry_run)
    with pytest.raises(SafetyError, match=lack):
        table.generate_manifest(ManifestOptions(ddl="hive"), dry_run=True)
    with pytest.raises(SafetyError, match=lack):
        table.scan()
    assert data_files(tmp_path) == before
    assert len(table.history()) == 3
    assert table.detail().row["numFiles"] == NUM_FILES
    assert table.checkpoint().plan.version == 2
    assert vacuum_orphan(tmp_path) == 1
    assert data_files(tmp_path) == before
    found = codes(table.check(DEEP))
    assert found.pop("SCHEMA_EMPTY") == 1
    assert found.keys() <= {"SCHEMA_MISSING"}


@pytest.mark.parametrize("schema", NO_SCHEMA)
def test_a_checkpoint_keeps_the_missing_schema(tmp_path: Path, schema: Any) -> None:
    make_schemaless(tmp_path, schema, (), later=False)
    table = open_table(tmp_path)
    table.checkpoint(CheckpointOptions())
    (stored,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(stored, columns=["metaData"])["metaData"].to_pylist()
    texts = [row["schemaString"] for row in rows if row is not None]
    if schema is ABSENT:
        schema = None
    assert texts == [schema]
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        commit.unlink()
    assert table.snapshot().metadata.schema_string == schema
    assert table.snapshot().num_files == NUM_FILES


@pytest.mark.parametrize("schema", NO_SCHEMA)
@pytest.mark.parametrize("options", [{}, {"kind": "v2"}, {"compact_log": True}])
@pytest.mark.parametrize("versions", [(2,), (1, 2)])
def test_a_checkpoint_keeps_values_of_mapped_partition_columns(
    tmp_path: Path, schema: Any, options: dict[str, Any], versions: tuple[int, ...]
) -> None:
    """The log has the values by physical names, which only the schema has."""
    features = ["v2Checkpoint"] if options.get("kind") else []
    builder = make_schemaless(
        tmp_path, schema, ("p",), later=False, mapping="name", features=features
    )
    table = open_table(tmp_path)
    with pytest.raises(SafetyError, match="lacks the partition column 'p'"):
        table.optimize()
    for version in versions:
        last = version == versions[-1]
        table.checkpoint(CheckpointOptions(version=None if last else version, **options))
    builder.change_metadata()
    for version in range(3):
        (tmp_path / commit_path(version)).unlink()
    expected = sorted(builder.rows(), key=str)
    assert {row["p"] for row in expected} == {"x"}
    assert sorted(table.scan().read_all().to_pylist(), key=str) == expected
    assert table.optimize().files_removed == NUM_FILES
    assert sorted(table.scan().read_all().to_pylist(), key=str) == expected


def test_row_ids_are_no_columns(tmp_path: Path) -> None:
    """The rewrite of a table that tracks rows would keep their ids, and nothing else."""
    make_schemaless(tmp_path, ABSENT, (), later=False, features=["rowTracking"])
    before = data_files(tmp_path)
    with pytest.raises(SafetyError, match="has no columns"):
        open_table(tmp_path).optimize()
    assert data_files(tmp_path) == before


def test_a_table_without_columns_and_files_has_nothing_to_rewrite(tmp_path: Path) -> None:
    make_schemaless(tmp_path, ABSENT, ("p",), later=False)
    for name in ("1", "2"):
        (tmp_path / "_delta_log" / f"{name:0>20}.json").unlink()
    table = open_table(tmp_path)
    assert table.optimize().files_removed == 0
    assert codes(table.check(DEEP)) == {"SCHEMA_MISSING": 1}


def test_a_partition_column_is_not_in_the_schema(tmp_path: Path) -> None:
    make_schemaless(tmp_path, ABSENT, ("p",), later=True)
    replace_schema(tmp_path, 1, json.dumps(struct_of(Column("id"))))
    table, before = open_table(tmp_path), data_files(tmp_path)
    for options in (OptimizeOptions(), PURGE):
        with pytest.raises(SafetyError, match="lacks the partition column 'p'"):
            table.optimize(options)
    with pytest.raises(SafetyError, match="lacks the partition column 'p'"):
        table.generate_manifest(ManifestOptions(ddl="hive"))
    with pytest.raises(SafetyError, match="lacks the partition column 'p'"):
        table.generate_manifest()
    assert len(table.history()) == 4
    assert table.checkpoint().plan.version == 3
    assert vacuum_orphan(tmp_path) == 1
    assert codes(table.check(DEEP)) == {"SCHEMA_INVALID": 1}
    assert data_files(tmp_path) == before


@pytest.mark.parametrize("text", ["{", " ", "null", "[]", '"integer"', '{"type":"struct"}'])
@pytest.mark.parametrize("work", [Table.checkpoint, Table.optimize, Table.scan])
def test_a_text_that_is_no_schema_stays_an_error(
    tmp_path: Path, text: str, work: Callable[[Table], object]
) -> None:
    make_schemaless(tmp_path, text, ("p",), later=False)
    with pytest.raises(CorruptLogError, match="schemaString"):
        work(open_table(tmp_path))


def test_check_names_the_checkpoint_that_other_readers_need(tmp_path: Path) -> None:
    make_schemaless(tmp_path, ABSENT, (), later=True)
    table = open_table(tmp_path)
    (row,) = table.check().findings.to_pylist()
    assert (row["code"], row["severity"], row["version"]) == ("SCHEMA_MISSING", "warning", 0)
    assert "is in version 1" in row["problem"]
    assert row["repair"].startswith("run `deltactl checkpoint ")
    table.checkpoint()
    report = table.check()
    assert codes(report) == {}
    assert any("with the checkpoint of version 3" in note for note in report.notes)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_check_says_what_readers_do_with_an_empty_commit(tmp_path: Path, content: bytes) -> None:
    make_schemaless(tmp_path, ABSENT, (), later=True)
    (tmp_path / "_delta_log" / f"{2:020}.json").write_bytes(content)
    rows = open_table(tmp_path).check().findings.to_pylist()
    (row,) = [row for row in rows if row["code"] == "COMMIT_UNREADABLE"]
    assert row["version"] == 2
    for words in ("Delta on Spark, delta-rs and DuckDB continue", "orphans", "do not vacuum"):
        assert words in row["problem"]
    assert "some readers continue without the changes" in row["meaning"]
