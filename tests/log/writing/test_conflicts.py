from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from deltactl.log.writing.conflicts import decide
from deltactl.protocol.actions import Metadata

BEFORE = Metadata("id", "{}", ("p",), {"a": "b"})


def touched(*paths: str) -> pa.ChunkedArray:
    return pa.chunked_array([list(paths)], pa.string())


def test_nobody_else_wrote() -> None:
    verdict = decide([["a", "b"], ["c"]], touched(), BEFORE, None)
    assert (verdict.survives, verdict.reason) == ((True, True), None)


def test_no_groups() -> None:
    assert decide([], touched("a"), BEFORE, None).survives == ()


def test_groups_fall_alone() -> None:
    verdict = decide([["a", "b"], ["c"], [], ["d", "e"]], touched("b", "x", "d"), BEFORE, None)
    assert verdict.survives == (False, True, True, False)
    assert verdict.reason is not None


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other", "description": "other", "created_time_ms": 7},
        {"schema_string": '{"type":"struct","fields":[]}'},
        {"configuration": {"delta.appendOnly": "true", "delta.enableDeletionVectors": "true"}},
    ],
)
def test_metadata_under_which_files_stay_valid(change: dict[str, Any]) -> None:
    assert decide([["a"]], touched(), BEFORE, replace(BEFORE, **change)).survives == (True,)


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
    verdict = decide([["a"], ["b"]], touched(), BEFORE, replace(BEFORE, **change))
    assert verdict.survives == (False, False)
    assert verdict.reason is not None
    assert word in verdict.reason


def test_features_that_files_would_lack() -> None:
    lacking = {"materializePartitionColumns", "other"}
    verdict = decide([["a"]], touched(), BEFORE, None, lacking)
    assert verdict.survives == (False,)
    assert decide([["a"]], touched(), BEFORE, None, {"rowTracking"}).survives == (True,)
