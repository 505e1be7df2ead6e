"""Tables whose columns a reader could misread are refused before anything is written."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from deltactl import maintain
from deltactl.errors import SafetyError, UnsupportedFeatureError
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.protocol.features import Operation
from deltactl.table import Table
from tests.support.duckdb_delta import connect_duckdb
from tests.support.table_builder import Column, TableBuilder, struct_of

ID, NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
NUM_FILES = 6


@dataclass(frozen=True)
class Written:
    """What `write_table` writes: two columns, one row a file."""

    columns: Sequence[Column] = (Column("k"), Column("v", "string"))
    stored: Mapping[str, str] = field(default_factory=lambda: {"k": "k", "v": "v"})
    partition_columns: Sequence[str] = ()
    partition_key: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    reader: int = 1
    value: Any = "w"
    value_type: pa.DataType = field(default_factory=pa.string)
    has_ids: bool = False


def write_table(root: Path, written: Written) -> None:
    """The partition column, if there is one, is the second column: WEST in odd files, EAST else."""
    builder = TableBuilder(
        root,
        written.columns,
        partition_by=written.partition_columns,
        properties=written.configuration,
        features=["columnMapping"] if written.reader > 1 else [],
    )
    for number in range(1, NUM_FILES + 1):
        columns = {written.stored["k"]: pa.array([number])}
        values = {}
        if written.partition_key is None:
            columns[written.stored["v"]] = pa.array([written.value], written.value_type)
        else:
            values = {written.partition_key: "WEST" if number % 2 else "EAST"}
        name = f"part-{number}.parquet"
        content = pa.table(columns)
        if written.has_ids:
            fields = [
                f.with_metadata({"PARQUET:field_id": str(place)})
                for place, f in enumerate(content.schema, 1)
            ]
            content = content.cast(pa.schema(fields))
        pq.write_table(content, root / name)
        builder.commit(builder.adopt(name, partitionValues=values, stats='{"numRecords":1}'))


def mapped(mode: str, second: Mapping[str, Any]) -> Written:
    first = Column("k", metadata={ID: 1, NAME: "a"})
    return Written(
        columns=(first, Column("v", "string", metadata=second)),
        stored={"k": "a", "v": "b"},
        configuration={"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"},
        reader=2,
    )


WHOLE = {ID: 2, NAME: "b"}
ODD = {
    "no id": (mapped("id", {NAME: "b"}), SafetyError, "column 'v' has no id"),
    "no physical name": (mapped("name", {ID: 2}), SafetyError, "column 'v' has no physical name"),
    "an id twice": (mapped("id", {ID: 1, NAME: "b"}), SafetyError, "the column id 1 is used 2"),
    "a name twice": (mapped("name", {ID: 2, NAME: "a"}), SafetyError, "physical name 'a' is used"),
    "a mode with spaces": (mapped(" name ", WHOLE), UnsupportedFeatureError, "mode is ' name '"),
    "an unknown mode": (mapped("bogus", WHOLE), UnsupportedFeatureError, "mode is 'bogus'"),
    "an empty mode": (mapped("", WHOLE), UnsupportedFeatureError, "mode is ''"),
    "a partition column in another case": (Written(partition_columns=["V"], partition_key="V"),
        SafetyError, "lacks the partition column 'V'"),
    "partition values in another case": (Written(partition_columns=["v"], partition_key="V"),
        SafetyError, "the key 'V', which is not a partition column"),
}  # fmt: skip


def list_files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def open_table(root: Path) -> Table:
    return Table(str(root), warn=lambda message: None)


@pytest.mark.parametrize(("written", "error", "problem"), ODD.values(), ids=ODD.keys())
def test_a_table_whose_columns_are_ambiguous_is_not_rewritten(
    tmp_path: Path, written: Written, error: type[Exception], problem: str
) -> None:
    write_table(tmp_path, written)
    table, before = open_table(tmp_path), list_files(tmp_path)
    for options in (OptimizeOptions(), OptimizeOptions(purge=True)):
        for dry_run in (False, True):
            with pytest.raises(error, match=problem):
                table.optimize(options, dry_run=dry_run)
    with pytest.raises((SafetyError, UnsupportedFeatureError)):
        table.generate_manifest(ManifestOptions())
    report = maintain([str(tmp_path)], dry_run=True)
    assert isinstance(report.tables[0].facts.problems["optimize"], error)
    assert list_files(tmp_path) == before
    found = table.check(CheckOptions(depth=Depth.DATA))
    assert found.count_codes().keys() & {"SCHEMA_INVALID", "PARTITION_VALUE"}


def read_with_delta_rs(root: Path) -> list[Any]:
    return [row["v"] for row in DeltaTable(str(root)).to_pyarrow_table().to_pylist()]


def read_with_duckdb(root: Path) -> list[Any]:
    return [v for (v,) in connect_duckdb().sql(f"SELECT v FROM delta_scan('{root}')").fetchall()]


@pytest.mark.parametrize("read", [read_with_delta_rs, read_with_duckdb])
@pytest.mark.parametrize("written", [case[0] for case in ODD.values()], ids=ODD.keys())
def test_no_other_reader_reads_the_values_of_a_table_that_is_refused(
    tmp_path: Path, written: Written, read: Callable[[Path], list[Any]]
) -> None:
    write_table(tmp_path, written)
    try:
        values = read(tmp_path)
    except (DeltaError, duckdb.Error, KeyError, ValueError):
        return
    assert not set(values) & {"w", "EAST", "WEST"}


@pytest.mark.parametrize("mode", ["NAME", "Id", "none"])
def test_the_case_of_a_known_mode_does_not_matter(tmp_path: Path, mode: str) -> None:
    columns = mapped(mode, WHOLE)
    if mode == "none":
        columns = Written(configuration={"delta.columnMapping.mode": mode})
    write_table(tmp_path, replace(columns, has_ids=mode == "Id"))
    table = open_table(tmp_path)
    table.optimize()
    assert table.scan().read_all()["v"].to_pylist() == ["w"] * NUM_FILES


POINT = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))])
UDT = {
    "type": "udt",
    "class": "org.example.PointUDT",
    "pyClass": None,
    "sqlType": struct_of(
        Column("x"), Column("y", {"type": "array", "elementType": "double", "containsNull": True})
    ),
}


def test_a_user_defined_type_is_read_as_its_stored_type(tmp_path: Path) -> None:
    value = {"x": 1, "y": [1.5, None]}
    columns = (Column("k"), Column("v", UDT))
    write_table(tmp_path, Written(columns=columns, value=value, value_type=POINT))
    table = open_table(tmp_path)
    assert table.optimize(OptimizeOptions(verify="full")).files_removed == NUM_FILES
    assert table.scan().read_all()["v"].to_pylist() == [value] * NUM_FILES
    commit = tmp_path / "_delta_log" / f"{NUM_FILES + 1:020d}.json"
    assert '"metaData"' not in commit.read_text()
    table.checkpoint()
    stored = table.snapshot().metadata.schema_string or ""
    assert json.loads(stored)["fields"][1]["type"] == UDT
    checked = table.check(CheckOptions(depth=Depth.DATA, checkpoints=True))
    assert not checked.count_codes()


def test_a_schema_that_cannot_be_rewritten_stops_no_other_care(tmp_path: Path) -> None:
    odd, _, problem = ODD["an unknown mode"]
    due = {"delta.checkpointInterval": "2"}
    write_table(tmp_path, replace(odd, configuration={**odd.configuration, **due}))
    assert problem in open_table(tmp_path).detail().refusals[Operation.REWRITE]
    (report,) = maintain([str(tmp_path)]).tables
    assert problem in str(report.facts.problems["optimize"])
    assert not report.errors
    assert {it.name for it in report.outcomes} >= {"checkpoint"}
