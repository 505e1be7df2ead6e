"""`check` of schemas, protocols and features."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.checkpoints import new_table
from tests.support.damage import DEEP, check, codes, edit_action
from tests.support.table_builder import Column, TableBuilder


def mapped(edit: Callable[[list[dict[str, Any]]], Any]) -> TableBuilder:
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
    ],
)
def test_invalid_protocols_are_found(protocol: dict[str, Any], problem: str) -> None:
    builder = new_table(Column("id"))
    edit_action(builder, 0, "protocol", **protocol)
    report = check(builder.store)
    assert set(codes(report)) == {"PROTOCOL_INVALID"}
    assert any(problem in text for text in report.findings["problem"].to_pylist())


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
