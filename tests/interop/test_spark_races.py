"""Optimize beside Delta on Spark, which deletes and updates rows: nothing is lost, nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop import race_rounds
from tests.interop.race_rounds import ManagedSide, SparkSide, race_often
from tests.support.catalog_servers import unity_server
from tests.support.delta_spark import SHARED_SESSION
from tests.support.fault_proxy import fault_proxy
from tests.support.object_servers import ServerMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SHARED_SESSION


@pytest.fixture(autouse=True)
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """``make races`` appends 24 a round."""
    monkeypatch.setattr(race_rounds, "FILES", 6)


@pytest.mark.slow
def test_rows_that_spark_changes_beside_an_optimize(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    """Round 1, where Spark commits twice before us. ``make races`` goes on with the table."""
    assert race_often(SparkSide(delta_spark, str(tmp_path / "table")), range(1, 2)) > 0


def test_rows_that_spark_changes_through_a_catalog(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    try:
        with unity_server(tmp_path) as server, fault_proxy(server.address) as proxy:
            server.add_catalog("main", "default")
            side = ManagedSide(delta_spark, server, proxy)
            assert race_often(side, range(1, 2)) > 0
            assert side.lost, "Spark committed first"
    except ServerMissingError as error:
        pytest.skip(str(error))
