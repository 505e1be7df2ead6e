"""Rows and files of commits, counted from their actions."""

from __future__ import annotations

import json

import pytest

from deltactl.log.commits.changes import count_changes
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.scan import parse_commits
from tests.support.table_builder import commit_path


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ("0", 0),
        ("4611686018427387904", 2**62),
        ("-1", None),
        ("9223372036854775808", None),
        ("5.0", None),
        ('"5"', None),
        ("true", None),
        ("null", None),
    ],
)
def test_rows_of_a_commit_are_counted_by_the_rule_of_num_records(
    value: str, rows: int | None
) -> None:
    stats = f'{{"numRecords":{value}}}'
    add = {
        "path": "a.parquet",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
        "stats": stats,
    }
    commit = CommitBytes(commit_path(0), json.dumps({"add": add}).encode() + b"\n")
    (parsed,) = parse_commits([commit])
    assert count_changes(parsed)[0].added.num_rows == rows
