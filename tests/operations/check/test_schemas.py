"""`check` of schemas, protocols and features."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from deltactl.operations.check.options import Depth
from tests.support.checkpoints import new_table
from tests.support.damage import DEEP, check, codes, edit_action
from tests.support.table_builder import Column, TableBuilder, array_of, struct_of


def mapped(edit: Callable[[list[dict[str, Any]]], Any]) -> TableBuilder:
    """A mapped table that has a file, and an edited schema."""
    builder = new_table(Column("a"), Column("b"), mapping="name")
    builder.append([{"a": 1, "b": 2}])
    schema = json.loads(builder.state.metadata["schemaString"])  # type: ignore[index]
    edit(schema["fields"])
    edit_action(builder, 0, "metaData", schemaString=json.dumps(schema))
    return builder


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda fields: fields[0]["metadata"].pop("delta.columnMapping.id"), "no id"),
        (lambda fields: fields[0]["metadata"].pop("delta.columnMapping.physicalName"), "physical"),
        (lambda fields: fields[0]["metadata"].update(fields[1]["metadata"]), "used 2 times"),
        (lambda fields: fields[0]["metadata"].update({"delta.columnMapping.id": 9}), "maxColumnId"),
        (lambda fields: fields[0].update(name="b"), "not a Delta schema"),
    ],
)
def test_invalid_schemas_are_found(
    edit: Callable[[list[dict[str, Any]]], Any], problem: str
) -> None:
    assert codes(check(mapped(lambda fields: None).store, **DEEP)) == []
    report = check(mapped(edit).store, **DEEP)
    assert codes(report) == ["SCHEMA_INVALID"]
    assert any(problem in text for text in report.findings["problem"].to_pylist())


def _protocol(reader: int, writer: int, **lists: Any) -> dict[str, Any]:
    return {
        "minReaderVersion": reader, "minWriterVersion": writer,
        "readerFeatures": None, "writerFeatures": None, **lists,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        (_protocol(0, 2), "reader version is 0"),
        (_protocol(3, 7, writerFeatures=[]), "no list of reader features"),
        (_protocol(1, 7), "no list of writer features"),
        (_protocol(1, 2, writerFeatures=["appendOnly"]), "require writer version 7"),
        (_protocol(3, 2, readerFeatures=[]), "without writer features"),
        (
            _protocol(3, 7, readerFeatures=["typeWidening"], writerFeatures=[]),
            "not listed as writer features",
        ),
        (
            _protocol(3, 7, readerFeatures=[], writerFeatures=["typeWidening"]),
            "as writer features only",
        ),
        *(
            (
                _protocol(reader, 7, writerFeatures=[name]),
                f"the feature {name} needs reader version 3, the table has {reader}",
            )
            for name in ("deletionVectors", "timestampNtz", "v2Checkpoint")
            for reader in (1, 2)
        ),
        (
            _protocol(1, 7, writerFeatures=["columnMapping"]),
            "the feature columnMapping needs reader version 2, the table has 1",
        ),
        (
            _protocol(3, 7, readerFeatures=["appendOnly"], writerFeatures=["appendOnly"]),
            "writer-only features are listed as reader features: appendOnly",
        ),
    ],
)
def test_invalid_protocols_are_found(protocol: dict[str, Any], problem: str) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, "protocol", **protocol)
    report = check(builder.store)
    assert codes(report) == ["PROTOCOL_INVALID"]
    (found,) = report.findings["problem"].to_pylist()
    assert problem in found


@pytest.mark.parametrize(
    ("action", "member"), [("metaData", "createdTime"), ("protocol", "minReaderVersion")]
)
def test_a_number_without_end_is_a_finding(action: str, member: str) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, action, **{member: float("inf")})
    assert set(codes(check(builder.store))) == {"COMMIT_UNREADABLE"}


@pytest.mark.parametrize(
    "protocol",
    [
        _protocol(1, 2),
        _protocol(2, 5),
        _protocol(1, 7, writerFeatures=[]),
        _protocol(2, 7, writerFeatures=["columnMapping"]),
        _protocol(3, 7, readerFeatures=[], writerFeatures=[]),
        _protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=["v2Checkpoint", "x"]),
        _protocol(3, 7, readerFeatures=["x"], writerFeatures=["x", "appendOnly"]),
        _protocol(1, 7, writerFeatures=["x"]),
    ],
)
def test_protocols_that_are_in_order(protocol: dict[str, Any]) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, "protocol", **protocol)
    assert codes(check(builder.store)) == []


@pytest.mark.parametrize(
    ("kind", "properties", "features"),
    [
        ("timestamp_ntz", {}, []),
        ("long", {"delta.enableInCommitTimestamps": "true"}, []),
        ("long", {"delta.enableRowTracking": "true"}, []),
        ("long", {"delta.checkpointPolicy": "v2"}, ["appendOnly"]),
        ("long", {"delta.columnMapping.mode": "name"}, []),
        ("long", {}, ["clustering"]),
    ],
)
def test_features_that_are_used_and_not_listed(
    kind: str, properties: dict[str, str], features: list[str]
) -> None:
    builder = new_table(Column("id", kind), properties=properties, features=features)
    if features:
        edit_action(builder, 0, "protocol", writerFeatures=features)
    assert "FEATURE_MISSING" in codes(check(builder.store))


def test_a_property_that_does_nothing_is_no_finding() -> None:
    """As delta-rs makes tables; Spark reads them, and the feature comes with the next metadata."""
    builder = new_table(Column("id"), properties={"delta.checkpointPolicy": "v2"})
    edit_action(builder, 0, "protocol", minReaderVersion=1, minWriterVersion=2)
    assert codes(check(builder.store)) == []


def schema_problems(builder: TableBuilder) -> list[str]:
    report = check(builder.store)
    assert set(codes(report)) <= {"SCHEMA_INVALID"}
    found: list[str] = report.findings["problem"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            [Column("a"), Column("A")],
            "2 fields of a struct have the same name 'a', if case is ignored",
        ),
        (
            [Column("l", array_of(struct_of(Column("x"), Column("X"))))],
            "2 fields of a struct have the same name 'x', if case is ignored",
        ),
        ([Column("a", "int128")], "a column has type 'int128', which Delta does not define"),
        ([Column("l", array_of("decimal(99,2)"))], "a column has type 'decimal(99,2)'"),
    ],
)
def test_columns_that_are_wrong(columns: list[Column], problem: str) -> None:
    (found,) = schema_problems(new_table(*columns))
    assert found.startswith(problem)


@pytest.mark.parametrize(
    "kind", ["interval year to month", "interval day to second", "varchar(10)", "char(2)"]
)
def test_types_of_spark_are_no_finding(kind: str) -> None:
    assert schema_problems(new_table(Column("a", kind))) == []


def test_types_that_an_unknown_feature_may_have_brought_are_no_finding() -> None:
    builder = new_table(Column("a", "int128"), features=["notYetInvented"])
    assert schema_problems(builder) == []
    edit_action(builder, 0, "protocol", minReaderVersion=3, minWriterVersion=7, readerFeatures=[
        "timestampNanos"], writerFeatures=["timestampNanos"])  # fmt: skip
    assert schema_problems(builder) == []


def test_partition_columns_that_cannot_be() -> None:
    builder = new_table(
        Column("p"), Column("s", struct_of(Column("x"))), Column("l", array_of("long"))
    )
    edit_action(builder, 0, "metaData", partitionColumns=["p", "s", "l", "p"])
    assert sorted(schema_problems(builder)) == [
        "the partition column 'l' has type array<long>, which is not allowed",
        "the partition column 'p' is listed 2 times",
        "the partition column 's' has type struct<x:long>, which is not allowed",
    ]


@pytest.mark.parametrize(
    ("edit", "depth"),
    [
        (lambda fields: fields[0]["metadata"].update({"delta.columnMapping.id": 9}), Depth.DATA),
        (lambda fields: fields[0]["metadata"].update(fields[1]["metadata"]), Depth.SIZES),
    ],
)
def test_a_wrong_schema_hides_no_missing_file(
    edit: Callable[[list[dict[str, Any]]], Any], depth: Depth
) -> None:
    builder = mapped(edit)
    builder.store.delete_many([add["path"] for add in builder.state.files.values()])
    report = check(builder.store, **DEEP)
    assert codes(report) == ["FILE_MISSING", "SCHEMA_INVALID"]
    assert report.options.depth is depth
    assert report.options.decodes_vectors
    note = "rows and statistics were not checked: the schema is invalid"
    assert (note in report.notes) == (depth is Depth.SIZES)
