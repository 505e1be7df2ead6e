"""A simulated fleet: what maintain removes for its budget, how well it predicts, what is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import pytest

from deltactl.errors import DeltactlError
from deltactl.log.snapshot import load_snapshot
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.run import check_table
from deltactl.operations.maintain.budget import Budget
from deltactl.operations.maintain.options import MaintainOptions
from deltactl.operations.maintain.report import MaintainReport
from deltactl.operations.maintain.run import maintain
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.run import optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.scan import scan_snapshot
from deltactl.storage.local.store import LocalStore
from tests.support.lake import TARGET, LakeTable, build_lake, digest_rows

BROKEN = {"LOG_GAP"}


def context() -> RunContext:
    return RunContext.of(lambda _: None)


def optimize_in_name_order(root: Path, tables: list[LakeTable], budget: int) -> int:
    """Optimize table after table until the bytes are used up; return how many files went."""
    gone = 0
    for table in tables:
        store = LocalStore(str(root / table.name))
        try:
            report = optimize_table(store, OptimizeOptions(max_bytes=budget), context())
        except DeltactlError:
            assert table.kind == "broken"
            continue
        budget -= report.bytes_removed
        gone += report.files_removed - report.files_added
    return gone


def run(root: Path, tables: list[LakeTable], budget: Budget) -> MaintainReport:
    addresses = [str(root / table.name) for table in tables]
    return maintain(addresses, options=MaintainOptions(budget=budget), context=context())


def total_bytes_due(root: Path, tables: list[LakeTable]) -> int:
    report = maintain([str(root / t.name) for t in tables], context=context(), dry_run=True)
    return sum(
        a.predicted.bytes_read for t in report.tables for a in t.actions if a.name == "optimize"
    )


def ensure_whole(root: Path, table: LakeTable) -> None:
    """Its rows are those that were written, check finds nothing, and delta-rs reads as many."""
    address = root / table.name
    store = LocalStore(str(address))
    snapshot = load_snapshot(store, warn=lambda _: None)
    rows = scan_snapshot(snapshot).read_all().to_pylist()
    assert digest_rows(rows) == table.digest
    report = check_table(store, CheckOptions(depth=Depth.FOOTERS), context())
    assert report.findings.num_rows == 0, report.findings.to_pylist()
    if table.kind != "deletes":  # delta-rs reads deletion vectors only through its own SQL
        assert deltalake.DeltaTable(str(address)).to_pyarrow_table().num_rows == len(rows)


def prove(tmp_path: Path, number: int, seed: int) -> None:
    tables = build_lake(tmp_path / "lake", number, seed)
    shutil.copytree(tmp_path / "lake", tmp_path / "plain")
    root = tmp_path / "lake"
    budget = total_bytes_due(root, tables) // 6
    plain = optimize_in_name_order(tmp_path / "plain", tables, budget)
    report = run(root, tables, Budget(bytes=budget))
    assert {e.code for e in report.errors.values()} == BROKEN
    assert set(report.errors) == {str(root / t.name) for t in tables if t.kind == "broken"}
    optimized = [o for t in report.tables for o in t.outcomes if o.name == "optimize"]
    done = [o.measured for o in optimized if o.measured is not None]
    gone = sum(it.files_removed for it in done)
    assert gone >= 2 * plain, (gone, plain)
    assert sum(it.bytes_read for it in done) <= budget + TARGET
    for outcome in optimized:
        measured, predicted = outcome.measured, outcome.predicted
        assert measured is not None
        assert measured.files_removed == pytest.approx(predicted.files_removed, rel=0.2)
        assert measured.bytes_read == pytest.approx(predicted.bytes_read, rel=0.2)
        assert measured.bytes_written == pytest.approx(predicted.bytes_written, rel=0.2)
    by_name = {table.facts.table: table for table in report.tables}
    for table in tables:
        if table.kind == "broken":
            continue
        found = by_name[str(root / table.name)]
        assert not found.errors
        if table.kind == "hot":
            assert not [o for o in found.outcomes if o.name == "optimize"]
            assert "recently written" in str([a.why_left for a in found.left])
        for outcome in found.outcomes:
            if outcome.name == "vacuum" and outcome.measured is not None:
                assert outcome.measured.bytes_freed == outcome.predicted.bytes_freed
        ensure_whole(root, table)
    # Again until nothing is left: each run resumes where the one before ended.
    for _ in range(9):
        report = run(root, tables, Budget(bytes=budget))
        if not report.is_due:
            break
    assert not report.is_due
    for table in tables:
        if table.kind != "broken":
            ensure_whole(root, table)


@pytest.mark.thorough
def test_a_small_lake(tmp_path: Path) -> None:
    prove(tmp_path, 24, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_lake_of_300_tables(tmp_path: Path, seed: int) -> None:
    prove(tmp_path, 300, seed)
