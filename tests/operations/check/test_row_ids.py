"""`check` of row ids: where row tracking is enabled, and where it is only supported."""

from typing import Any

import pytest

from tests.support.checkpoints import new_table
from tests.support.damage import check, codes, edit_action
from tests.support.table_builder import Column, TableBuilder

LAST = "f00003.parquet"
ENABLED, SUPPORTED = "true", "false"


def tracked(enabled: str = ENABLED, **properties: str) -> TableBuilder:
    """Version 3: three files with the row ids 0 to 3, in a table that was old before it had any."""
    builder = new_table(Column("id"), features=["rowTracking"])
    builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    builder.append([{"id": 4}])
    builder.change_metadata(properties={"delta.enableRowTracking": enabled, **properties})
    return builder


@pytest.mark.parametrize("enabled", [ENABLED, SUPPORTED])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"defaultRowCommitVersion": None}, ["ROW_IDS_MISSING"]),
        ({"defaultRowCommitVersion": 4}, ["ROW_IDS_MISSING"]),
        ({"defaultRowCommitVersion": -1}, ["ROW_IDS_MISSING"]),
        ({"defaultRowCommitVersion": 3}, []),
        ({"baseRowId": -1}, ["ROW_IDS_MISSING"]),
        ({"baseRowId": 1}, ["ROW_IDS_OVERLAP"]),
    ],
)
def test_wrong_row_ids_of_a_file_are_found(
    changes: dict[str, Any], expected: list[str], enabled: str
) -> None:
    """Writers have to give ids where row tracking is only supported, too: the same is wrong."""
    builder = tracked(enabled)
    edit_action(builder, 2, "add", **changes)
    report = check(builder.store)
    assert codes(report) == expected
    assert report.findings["file"].to_pylist() == [LAST] * len(expected)


def test_a_file_without_an_id_in_a_table_that_never_changed() -> None:
    builder = new_table(Column("id"), features=["rowTracking"])
    builder.append([{"id": 1}], [{"id": 3}])
    builder.append([{"id": 4}])
    assert codes(check(builder.store)) == []
    edit_action(builder, 2, "add", baseRowId=None)
    assert codes(check(builder.store)) == ["ROW_IDS_MISSING"]


@pytest.mark.parametrize("mark", ['{"rowIdHighWaterMark":2}', "{}"])
def test_ids_above_the_mark(mark: str) -> None:
    for enabled in (ENABLED, SUPPORTED):
        builder = tracked(enabled)
        edit_action(builder, 2, "domainMetadata", configuration=mark)
        assert codes(check(builder.store)) == ["ROW_IDS_MARK"]


def test_files_may_be_older_than_the_feature() -> None:
    for enabled, expected in ((ENABLED, ["ROW_IDS_MISSING"]), (SUPPORTED, [])):
        builder = tracked(enabled)
        edit_action(builder, 2, "add", baseRowId=None, defaultRowCommitVersion=None)
        report = check(builder.store)
        assert codes(report) == expected
        assert report.notes == ()


def test_no_ids_are_assigned_while_that_is_suspended() -> None:
    builder = tracked(SUPPORTED, **{"delta.rowTrackingSuspended": "true"})
    edit_action(builder, 2, "add", baseRowId=1)
    assert codes(check(builder.store)) == []
