"""Delta on Spark reads every table of a lake after maintain."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl import maintain
from deltactl.operations.maintain import candidates, upkeep
from deltactl.operations.maintain.policy import MaintainPolicy
from tests.support.lake import SUMS, build_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark reads what each of its actions leaves, in the tests of these.
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.slow]


@pytest.mark.usefixtures("trusted_clock")
def test_a_lake_read_by_spark(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_MIN_FILES_FEWER", 1)
    monkeypatch.setattr(upkeep, "is_due", lambda *_: True)
    tables = [table for table in build_lake(tmp_path, 7, seed=3) if table.kind != "broken"]
    policy = MaintainPolicy(skip_hot=timedelta())
    report = maintain([str(tmp_path / t.name) for t in tables], policy)
    assert not report.errors
    done = {outcome.name for table in report.tables for outcome in table.outcomes}
    assert {"optimize", "checkpoint", "vacuum"} <= done
    from pyspark.sql import DataFrame

    frames = (
        delta_spark.read.format("delta")
        .load(str(tmp_path / it.name))
        .selectExpr(f"'{it.name}'", *SUMS)
        for it in tables
    )
    found = {name: tuple(sums) for name, *sums in reduce(DataFrame.unionAll, frames).collect()}
    assert found == {table.name: table.sums for table in tables}
