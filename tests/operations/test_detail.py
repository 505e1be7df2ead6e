import json
from pathlib import Path
from typing import Any

import pytest

from deltactl.errors import ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.detail import DetailReport, load_detail
from deltactl.protocol.features import Operation
from deltactl.storage.open import open_store
from tests.support.history_logs import (
    PROTOCOL,
    START_MS,
    Action,
    ict_properties,
    info,
    metadata,
    write_commit,
)
from tests.support.table_builder import Column, struct_of


def load(root: Path, version: int | None = None) -> DetailReport:
    return load_detail(DeltaLog(open_store(str(root)), pytest.fail), version)


def test_last_modified_is_the_file_time_whatever_the_commit_says(tmp_path: Path) -> None:
    write_commit(
        tmp_path, 0, info(inCommitTimestamp=START_MS + 5), PROTOCOL, metadata(**ict_properties())
    )
    report = load(tmp_path)
    assert report.row["lastModified"] == START_MS
    assert report.timestamp_ms == START_MS + 5


def test_an_in_commit_timestamp_that_is_lacking_is_a_warning(tmp_path: Path) -> None:
    write_commit(tmp_path, 0, info(), PROTOCOL, metadata(**ict_properties()))
    warnings: list[str] = []
    report = load_detail(DeltaLog(open_store(str(tmp_path)), warnings.append))
    assert report.timestamp_ms == START_MS
    assert "no inCommitTimestamp" in warnings[0]


def clustered(columns: Any) -> Action:
    text = columns if isinstance(columns, str) else json.dumps({"clusteringColumns": columns})
    return {
        "domainMetadata": {"domain": "delta.clustering", "configuration": text, "removed": False}
    }


def named(name: str) -> dict[str, str]:
    return {"delta.columnMapping.physicalName": name}


MEMBER = Column("x", metadata=named("col-x"))
NESTED = json.dumps(struct_of(Column("st", struct_of(MEMBER), False, named("col-st")), Column("a")))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([["a"], ["col-st", "col-x"]], ["a", "st.x"]),
        (["a"], ["a"]),
        ([], []),
        ([["col-st", "gone"]], ["st.gone"]),
        ([["gone", "too"]], ["gone.too"]),
        ("not json", []),
        ('{"clusteringColumns":5}', []),
        ("{}", []),
        ("[]", []),
    ],
)
def test_clustering_columns(tmp_path: Path, columns: Any, expected: list[str]) -> None:
    mode = {"delta.columnMapping.mode": "name"}
    changes = {"schemaString": NESTED, "configuration": mode}
    action = {"metaData": {**metadata()["metaData"], **changes}}
    write_commit(tmp_path, 0, info(), PROTOCOL, action, clustered(columns))
    report = load(tmp_path)
    assert report.row["clusteringColumns"] == expected
    assert report.columns == [("st", "struct<x:long>", False), ("a", "long", True)]


def test_unknown_features_and_types(tmp_path: Path) -> None:
    schema = json.dumps(struct_of(Column("g", "hologram(3)")))
    action = {"metaData": {**metadata()["metaData"], "schemaString": schema}}
    features = {"readerFeatures": ["zeta", "deletionVectors"], "writerFeatures": ["zeta", "alpha"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    write_commit(tmp_path, 0, info(), protocol, action)
    report = load(tmp_path)
    assert report.row["tableFeatures"] == ["alpha", "deletionVectors", "zeta"]
    assert report.columns == [("g", "hologram(3)", True)]
    assert "zeta" in report.refusals[Operation.READ]
    assert "alpha" in report.refusals[Operation.REWRITE]


def test_a_schema_that_cannot_be_read(tmp_path: Path) -> None:
    action = {"metaData": {**metadata()["metaData"], "schemaString": "not json"}}
    write_commit(tmp_path, 0, info(), PROTOCOL, action)
    assert load(tmp_path).columns is None


@pytest.mark.corpus
def test_tables_of_other_writers(corpus: Path) -> None:
    for entry in json.loads((corpus / "manifest.json").read_text()):
        expected = entry["expect"]
        if expected["outcome"] == "error":
            continue
        report = load_detail(
            DeltaLog(
                open_store(str(corpus / "tables" / entry["name"])),
                ignore_warning,
                published_only=True,
            )
        )
        assert report.version == expected["version"], entry["name"]
        assert report.row["numFiles"] == expected["num_files"], entry["name"]
        assert report.row["sizeInBytes"] == expected["total_bytes"], entry["name"]
