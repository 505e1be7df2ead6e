"""Rows and files of commits, counted from their actions."""

import json

import pyarrow as pa
import pytest

from deltactl.log.commits.changes import SelectedChanges, count_changes, read_changes
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.scan import parse_commits
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ("4611686018427387904", 2**62),
        ("5.0", None),
        ("true", None),
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
    counted = count_changes(parsed.adds, parsed.removes, parsed.versions)
    assert counted[0].added.num_rows == rows


@pytest.mark.parametrize("together", [True, False])
def test_removed_files_have_the_rows_of_adds_that_are_read_with_them(together: bool) -> None:
    builder = TableBuilder(fresh_store(), [Column("id")], features=["deletionVectors"])
    [first] = builder.append([{"id": 1}, {"id": 2}])
    [other] = builder.append([{"id": 3}])
    builder.delete_rows(first, [0])
    builder.remove(first, other)
    commits = [
        CommitBytes(commit_path(v), builder.store.read(commit_path(v))) for v in range(4, -1, -1)
    ]
    changes = SelectedChanges(lambda values: pa.chunked_array([pa.repeat(True, len(values))]))
    for part in [commits] if together else [[commit] for commit in commits]:
        for parsed in parse_commits(part):
            changes.visit(parsed)
    removed = {version: change.removed.num_rows for version, change in changes.found.items()}
    assert removed == {4: 2, 3: 2, 2: 0, 1: 0}
    assert [it.removed.num_rows for it in read_changes(commits[1])[0]] == [2]
    assert [it.removed.num_rows for it in read_changes(commits[0])[0]] == [None]
