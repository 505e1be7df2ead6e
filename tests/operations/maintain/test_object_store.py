"""A lake on MinIO: requests are predicted, measured, and held within their budget."""

from datetime import timedelta
from pathlib import Path

import pytest

from deltactl.log.delta_log import DeltaLog
from deltactl.operations.maintain.actions import Effect
from deltactl.operations.maintain.options import Budget, MaintainOptions
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.maintain.report import MaintainReport
from deltactl.operations.maintain.run import maintain_tables
from deltactl.operations.run_context import RunContext
from deltactl.operations.scan import scan_snapshot
from deltactl.storage.open import open_store
from tests.support.lake import build_lake, digest_rows
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import choose_servers


@pytest.mark.parametrize("server", choose_servers("minio"), indirect=True)
def test_a_lake_on_an_object_store(server: ObjectServer, root: str, tmp_path: Path) -> None:
    tables = [table for table in build_lake(tmp_path, 7, seed=4) if table.kind != "broken"]
    addresses = []
    for table in tables:
        store = open_store(f"{root}/{table.name}", server.options)
        addresses.append(f"{root}/{table.name}")
        for path in sorted((tmp_path / table.name).rglob("*")):
            if path.is_file():
                store.put(str(path.relative_to(tmp_path / table.name)), path.read_bytes())
    context = RunContext(warn=lambda _: None, storage_options=server.options)

    def run(requests: int | None, *, dry_run: bool = False) -> MaintainReport:
        return maintain_tables(
            addresses,
            lambda _: MaintainPolicy(skip_hot=timedelta()),
            MaintainOptions(budget=Budget(requests=requests)),
            context,
            dry_run=dry_run,
        )

    planned = run(None, dry_run=True)
    assert all(table.facts.requests <= 8 + 2 * table.facts.tail_commits for table in planned.tables)
    whole = planned.predicted.requests
    assert whole
    first = run(whole // 2)
    spent = [o.measured for table in first.tables for o in table.outcomes if o.measured]
    assert spent
    largest = max((effect.requests or 0) for effect in spent)
    assert sum((effect.requests or 0) for effect in spent) <= whole // 2 + largest
    assert all("over the budget" in str(a.why_left) for t in first.tables for a in t.left)
    rest = run(None)
    assert not rest.errors
    assert not run(None, dry_run=True).is_due
    _ensure_predicted(first, rest)
    for table, address in zip(tables, addresses, strict=True):
        snapshot = DeltaLog(open_store(address, server.options), lambda _: None).snapshot()
        assert digest_rows(scan_snapshot(snapshot).read_all().to_pylist()) == table.digest


def _ensure_predicted(*reports: MaintainReport) -> None:
    predicted, measured = Effect(), Effect()
    for report in reports:
        predicted, measured = predicted + report.predicted, measured + report.measured
    assert measured.files_removed == pytest.approx(predicted.files_removed, rel=0.2)
    assert measured.bytes_read == pytest.approx(predicted.bytes_read, rel=0.2)
    assert predicted.requests is not None
    assert measured.requests is not None
    print(predicted, measured)
    assert 0.5 < measured.requests / predicted.requests < 2
