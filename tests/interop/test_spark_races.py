"""Optimize beside Delta on Spark, which deletes and updates rows: nothing is lost, nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.race_rounds import SparkSide, race_often

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    # Py4J leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_rows_that_spark_changes_beside_an_optimize(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    """Round 1, where Spark commits twice before us. ``make races`` goes on with the table."""
    assert race_often(SparkSide(delta_spark, str(tmp_path / "table")), range(1, 2)) > 0
