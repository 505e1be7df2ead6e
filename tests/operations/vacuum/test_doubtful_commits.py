"""A commit lost its add actions and is still valid JSON: files that its table needs look unneeded.

Delta on Spark updates a deletion vector with a remove action and an add action of the same file, so
the loss of the add action leaves a file that a commit removed.
"""

import json
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import Table, maintain
from deltactl.errors import SafetyError
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.report import VacuumReport
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.local.store import LocalStore
from tests.operations.vacuum.test_local import age
from tests.support.damage import check, codes
from tests.support.run import run_on
from tests.support.table_builder import Column, TableBuilder, commit_path

pytestmark = pytest.mark.usefixtures("trusted_clock")

PROBLEM = "it has 0 of the 1 add action"
DOUBTFUL = "not in the log, and a commit may be damaged"
CHOSEN = VacuumOptions(mode="full", max_orphan_fraction=1.0, retain_ms=0, force_retention=True)


def lose_adds(root: Path, version: int) -> None:
    """Truncate a commit before its first add action."""
    path = root / commit_path(version)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"add":')))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table that delta-rs wrote: version 1 lost its file, version 3 deleted another one."""
    root = tmp_path / "t"
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    for number in range(3):
        rows = pa.table({"id": [number]})
        write_deltalake(root, rows, mode="append", configuration=properties)
    DeltaTable(root).delete("id = 2")
    lose_adds(root, 1)
    age(root)
    return root


def vacuum(root: Path, orphans: Orphans, asked: list[VacuumPlan] | None = None) -> VacuumReport:
    def confirm(plan: VacuumPlan) -> bool:
        assert asked is not None
        asked.append(plan)
        return True

    run = partial(vacuum_table, orphans=orphans, confirm=None if asked is None else confirm)
    return run_on(LocalStore(str(root)), run, CHOSEN, warn=lambda _: None)


@pytest.mark.parametrize("orphans", ["keep", "all"])
def test_nobody_is_asked(root: Path, orphans: Orphans) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(SafetyError, match=f"1.json may be damaged: {PROBLEM}") as caught:
        vacuum(root, orphans)
    assert "whether to restore the commit from a backup" in str(caught.value.hint)
    assert sorted(root.rglob("*")) == before


def test_a_person_is_asked_about_files_that_a_commit_removed(root: Path) -> None:
    asked: list[VacuumPlan] = []
    report = vacuum(root, "named", asked)
    assert PROBLEM in str(asked[0].doubt)
    assert (report.files_removed, report.plan.kept) == (1, {DOUBTFUL: 1})
    assert len([*root.glob("*.parquet")]) == 2


def test_a_file_that_only_a_compacted_file_adds(tmp_path: Path) -> None:
    """Delta on Spark reads it there. The commit states no metrics that would show the loss."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    lines = [
        line
        for version in (1, 2)
        for line in (tmp_path / commit_path(version)).read_text().splitlines()
        if line.startswith('{"add":')
    ]
    compacted = tmp_path / "_delta_log" / f"{1:020d}.{2:020d}.compacted.json"
    compacted.write_text("\n".join(lines) + "\n")
    (tmp_path / commit_path(1)).write_text('{"commitInfo":{"operation":"WRITE"}}\n')
    age(tmp_path)
    asked: list[VacuumPlan] = []
    report = vacuum(tmp_path, "named", asked)
    assert (report.files_removed, report.plan.kept) == (0, {DOUBTFUL: 1})


def test_a_file_whose_deletion_vector_was_lost(tmp_path: Path) -> None:
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")], features={"deletionVectors"})
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    version = builder.delete_rows(path, [0])
    commit = tmp_path / commit_path(version)
    info, *actions = commit.read_text().splitlines()
    body = json.loads(info)["commitInfo"]
    body["operationMetrics"] = {"numDeletionVectorsAdded": "1"}
    commit.write_text("\n".join([json.dumps({"commitInfo": body}), *actions]) + "\n")
    age(tmp_path)
    assert "COMMIT_DOUBTFUL" not in codes(check(LocalStore(str(tmp_path))))
    lose_adds(tmp_path, version)
    with pytest.raises(SafetyError, match=PROBLEM):
        Table(tmp_path).vacuum(retain="0s", force_retention=True)
    assert (tmp_path / path).exists()


def test_maintain_warns_and_does_not_vacuum(root: Path) -> None:
    warnings: list[str] = []
    policy = MaintainPolicy(list_files="always", skip_hot=timedelta())
    [table] = maintain([str(root)], policy, warn=warnings.append).tables
    problems = table.facts.problems
    assert {name: error.code for name, error in problems.items()} == {
        "optimize": "SAFETY",
        "vacuum": "SAFETY",
    }
    assert any("Run `deltactl check" in text for text in warnings if PROBLEM in text)
    assert len([*root.glob("*.parquet")]) == 3


def test_a_commit_that_was_moved_away_may_have_added_them(tmp_path: Path) -> None:
    """The checkpoint after it, which was written when it was empty already, lacks its file."""
    root = tmp_path / "t"
    for number in range(4):
        write_deltalake(root, pa.table({"id": [number]}), mode="append")
    (root / commit_path(2)).write_bytes(b"")
    DeltaTable(root).create_checkpoint()
    write_deltalake(root, pa.table({"id": [4]}), mode="append")
    (root / commit_path(2)).rename(tmp_path / "kept")
    age(root)
    asked: list[VacuumPlan] = []
    report = vacuum(root, "named", asked)
    missing = "not in the log, and commits are missing in it"
    assert (report.files_removed, report.plan.kept) == (0, {missing: 1})
    assert codes(check(LocalStore(str(root)))) == ["HISTORY_GAP"]
    assert vacuum(root, "all").files_removed == 1  # --include-unknown
