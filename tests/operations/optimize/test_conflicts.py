from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deltactl.operations.optimize.conflicts import find_conflict
from deltactl.protocol.actions import Metadata

BEFORE = Metadata("id", "{}", ("p",), {"a": "b"})


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other", "description": "other", "created_time_ms": 7},
        {"schema_string": '{"type":"struct","fields":[]}'},
        {"configuration": {"delta.appendOnly": "true", "delta.enableDeletionVectors": "true"}},
    ],
)
def test_metadata_under_which_files_stay_valid(change: dict[str, Any]) -> None:
    assert find_conflict(BEFORE, replace(BEFORE, **change)) is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"id": "other"}, "replaced"),
        ({"partition_columns": ()}, "partition"),
        ({"partition_columns": ("q",)}, "partition"),
        ({"configuration": {"delta.enableRowTracking": "true"}}, "delta.enableRowTracking"),
        ({"configuration": {"delta.rowTrackingSuspended": "true"}}, "Suspended"),
        ({"configuration": {"delta.columnMapping.mode": "id"}}, "mapping"),
    ],
)
def test_metadata_under_which_they_do_not(change: dict[str, Any], word: str) -> None:
    reason = find_conflict(BEFORE, replace(BEFORE, **change))
    assert reason is not None
    assert word in reason


def test_features_that_files_would_lack() -> None:
    lacking = {"materializePartitionColumns", "other"}
    assert find_conflict(BEFORE, None, lacking) is not None
    assert find_conflict(BEFORE, None, {"rowTracking"}) is None
