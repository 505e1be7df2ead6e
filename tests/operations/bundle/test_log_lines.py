"""Commits of a bundle: no text of the table is left, and what an incident needs is."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.operations.bundle.log_lines import redact_commit
from deltactl.operations.bundle.pseudonyms import Pseudonyms

MARK = "Pl4nt3d"
FIELDS = (
    "commitInfo", "add", "remove", "cdc", "metaData", "protocol", "txn", "domainMetadata",
    "sidecar", "checkpointMetadata", "path", "partitionValues", "size", "stats", "numRecords",
    "minValues", "maxValues", "nullCount", "tags", "deletionVector", "pathOrInlineDv",
    "storageType",
    "operation", "operationParameters", "operationMetrics", "predicate", "mode", "partitionBy",
    "userMetadata", "engineInfo", "schemaString", "fields", "name", "type", "metadata",
    "comment",
    "configuration", "domain", "readerFeatures", "id", "description", "format", "options", "job",
    "delta.columnMapping.physicalName", "delta.appendOnly", "delta.constraints.x", "version",
)  # fmt: skip


def redact(*actions: dict[str, Any], keep_names: bool = False) -> list[dict[str, Any]]:
    data = b"\n".join(json.dumps(action).encode() for action in actions)
    lines = redact_commit(Pseudonyms(b"key", keep_names=keep_names), data).splitlines()
    return [json.loads(line) for line in lines]


TEXTS = st.builds(lambda before, after: f"{before}{MARK}{after}", *[st.text(max_size=3)] * 2)
LEAVES = TEXTS | st.integers() | st.booleans() | st.none()
NODES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | TEXTS, inner, max_size=4)
        | st.builds(json.dumps, inner)  # JSON in a text
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(FIELDS[:10]) | TEXTS, NODES, min_size=1, max_size=2))
@settings(max_examples=150, deadline=None)
def test_no_planted_text_is_left(action: dict[str, Any]) -> None:
    said = json.dumps(redact(action))
    assert MARK not in said


def make_hiding_places() -> list[dict[str, Any]]:
    """Actions as writers make them, with a text of a user wherever one can be."""
    field = {
        "name": f"{MARK}_column",
        "type": {"type": "map", "keyType": "string", "valueType": f"{MARK}type"},
        "metadata": {
            "comment": MARK,
            "delta.generationExpression": f"concat('{MARK}', id)",
            "delta.invariants": f"x <> '{MARK}'",
            "CURRENT_DEFAULT": f"'{MARK}'",
            MARK: {MARK: [MARK]},
        },
    }
    value = f"{MARK} ä/b"
    return [
        {
            "commitInfo": {
                "operation": f"WRITE {MARK}",
                "engineInfo": f"Apache-Spark/3.5.0-{MARK}",
                "userMetadata": MARK,
                "clientVersion": f"delta-rs.{MARK}",
                "operationParameters": {
                    "mode": MARK,
                    "batchId": MARK,
                    "partitionBy": f'["{MARK}"]',
                },
                "operationMetrics": {MARK: "1", "numFiles": MARK, f"{MARK}_time_ms": 1},
                "notebook": {"notebookId": MARK, MARK: 1},
                "tags": {MARK: MARK},
                "version": MARK,
            }
        },
        {
            "metaData": {
                "id": MARK,
                "format": {"provider": MARK, "options": {MARK: MARK}},
                "schemaString": json.dumps({"type": "struct", "fields": [field]}),
                "partitionColumns": [MARK],
                "configuration": {
                    f"delta.constraints.{MARK}": f"x <> '{MARK}'",
                    "delta.logRetentionDuration": f"interval 5 {MARK}",
                    "delta.dataSkippingStatsColumns": MARK,
                    "delta.columnMapping.mode": MARK,
                },
            }
        },
        {
            "add": {
                "path": f"p={quote(quote(value, safe=''))}/{MARK}.parquet",
                "partitionValues": {"p": value},
                "size": MARK,
                "stats": json.dumps({"minValues": {MARK: [{MARK: MARK}]}, "numRecords": MARK}),
                "stats_parsed": {"minValues": {MARK: MARK}},
                "partitionValues_parsed": {MARK: MARK},
                "tags": {"ZCUBE_ID": MARK, "INSERTION_TIME": MARK},
                "deletionVector": {
                    "storageType": "i",
                    "pathOrInlineDv": base64.b85encode(MARK.encode()).decode(),
                },
                "clusteringProvider": MARK,
            }
        },
        {"remove": {"path": f"abfss://{MARK}@{MARK}.dfs.core.windows.net/{quote(value)}"}},
        {"cdc": {"path": f"_change_data/{MARK}:x/{MARK}", "partitionValues": {MARK: MARK}}},
        {"txn": {"appId": MARK, "version": 1}},
        {"domainMetadata": {"domain": MARK, "configuration": MARK}},
        {
            "domainMetadata": {
                "domain": "delta.clustering",
                "configuration": json.dumps({"clusteringColumns": [[MARK]], MARK: MARK}),
            }
        },
        {"sidecar": {"path": MARK, "tags": {MARK: MARK}}},
        {"checkpointMetadata": {"version": MARK, "tags": {MARK: MARK}}},
        {MARK: {MARK: MARK}},
    ]


def test_places_where_texts_hide() -> None:
    said = json.dumps(redact(*make_hiding_places()))
    encoded = [
        base64.b64encode(MARK.encode()).decode()[:8],
        base64.b85encode(MARK.encode()).decode(),
    ]
    for text in (MARK, MARK.lower(), quote("ä"), "dfs.core", *encoded):
        assert text not in said


def test_names_that_are_kept_are_names_only() -> None:
    said = json.dumps(redact(*make_hiding_places(), keep_names=True)).replace(f'"{MARK}"', "")
    for text in (f"{MARK} ", f"'{MARK}'", f"={MARK}", f"/{MARK}", f"-{MARK}", f"{MARK}type"):
        assert text not in said


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": 1} x', b'"Pl4nt3d"'])
def test_lines_that_do_not_parse(line: bytes) -> None:
    said = redact_commit(Pseudonyms(b"key"), b"\n".join([line, b"", line, line + b" "]))
    first, empty, second, other = said.split(b"\n")
    assert empty == b""
    assert first == second != other
    assert json.loads(first)["unparsed"]["length"] == len(line)


def test_what_an_incident_needs_is_kept() -> None:
    add = {
        "path": "day=2024-01-01/smith.parquet",
        "partitionValues": {"day": "2024-01-01", "region": None, "empty": ""},
        "size": 7,
        "modificationTime": 9,
        "dataChange": False,
        "stats": json.dumps({"numRecords": 2, "minValues": {"n": 1.50}, "nullCount": {"n": 0}}),
        "deletionVector": {
            "storageType": "u",
            "pathOrInlineDv": "x",
            "offset": 1,
            "cardinality": 3,
        },
    }
    info = {
        "operation": "MERGE",
        "engineInfo": "Apache-Spark/4.2.0 Delta-Lake/4.4.0",
        "operationMetrics": {"numOutputRows": "5", "of smith": "5", "scanTimeMs": "smith"},
        "operationParameters": {"mode": "Append", "predicate": "[]", "partitionBy": '["day"]'},
    }
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["novelFeature"]}
    first, second, third = redact({"add": add}, {"commitInfo": info}, {"protocol": protocol})
    names = Pseudonyms(b"key")
    day, value = names.hide("day"), names.hide("2024-01-01")
    assert first["add"]["path"] == f"{day}={value}/{names.hide('smith')}.parquet"
    assert first["add"]["partitionValues"] == {
        day: value,
        names.hide("region"): None,
        names.hide("empty"): "",
    }
    assert json.loads(first["add"]["stats"]) == {
        "numRecords": 2,
        "minValues": {names.hide("n"): names.hide("1.5")},
        "nullCount": {names.hide("n"): 0},
    }
    assert (first["add"]["size"], first["add"]["dataChange"]) == (7, False)
    assert first["add"]["deletionVector"]["cardinality"] == 3
    assert second["commitInfo"]["operation"] == "MERGE"
    assert second["commitInfo"]["engineInfo"] == info["engineInfo"]
    assert second["commitInfo"]["operationMetrics"]["numOutputRows"] == "5"
    assert second["commitInfo"]["operationParameters"]["mode"] == "Append"
    assert json.loads(second["commitInfo"]["operationParameters"]["partitionBy"]) == [day]
    assert "smith" not in json.dumps([first, second])
    assert third == {"protocol": protocol}


@pytest.mark.parametrize(
    ("engine", "is_kept"),
    [
        ("Apache-Spark/4.2.0 Delta-Lake/4.4.0", True),
        ("Apache-Spark/3.5.3 Delta-Lake/3.4.0-SNAPSHOT", True),
        ("Databricks-Runtime/16.0.x-photon-scala2.12", True),
        ("Apache-Spark/3.5.0-amzn-1 Delta-Lake/3.0.0", True),
        ("delta-rs:py-1.6.6", True),
        ("deltactl/0.1.0", True),
        ("Apache-Spark/3.5.0-smith", False),
        ("Apache-Spark/3.5.0smith", False),
        ("Apache-Spark/3.5.0 smith/1.0", False),
        ("delta-rs:smith-1.6.6", False),
        ("Kernel-3.4.0/smith", False),
    ],
)
def test_only_known_engines_keep_their_names(engine: str, is_kept: bool) -> None:
    (said,) = redact({"commitInfo": {"engineInfo": engine}})
    assert (said["commitInfo"]["engineInfo"] == engine) is is_kept
    assert "smith" not in json.dumps(said)


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("interval 30 days", True),
        ("interval 1 week", True),
        ("128mb", True),
        ("1048576", True),
        ("0.5", True),
        ("true", True),
        ("interval 30 smith", False),
        ("7hunters", False),
        ("1 2", False),
    ],
)
def test_values_of_known_properties(value: str, is_kept: bool) -> None:
    action = {"metaData": {"configuration": {"delta.logRetentionDuration": value}}}
    (said,) = redact(action)
    assert (said == action) is is_kept


def test_metrics_of_writers() -> None:
    kept = {"numOutputRows": "5", "num_added_files": 1, "execution_time_ms": 7, "scanTimeMs": "1"}
    (said,) = redact({"commitInfo": {"operationMetrics": {**kept, "smith_time_ms": 1}}})
    metrics = said["commitInfo"]["operationMetrics"]
    assert {key: metrics.get(key) for key in kept} == kept
    assert len(metrics) == 5
    assert "smith" not in json.dumps(said)


def test_names_of_columns_may_be_kept() -> None:
    schema = {
        "type": "struct",
        "fields": [
            {"name": "day", "type": "date", "nullable": True, "metadata": {"comment": "secret"}}
        ],
    }
    action = {"metaData": {"schemaString": json.dumps(schema), "partitionColumns": ["day"]}}
    (kept,) = redact(action, keep_names=True)
    field = json.loads(kept["metaData"]["schemaString"])["fields"][0]
    assert (field["name"], field["type"]) == ("day", "date")
    assert "secret" not in json.dumps(kept)
    assert kept["metaData"]["partitionColumns"] == ["day"]
    (hidden,) = redact(action)
    assert "day" not in json.dumps(hidden).replace('"date', "")
