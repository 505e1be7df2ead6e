"""Queries of Delta on Spark on floats find in our files what they find in its own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.judges import count_each
from tests.parquet.test_judges import build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [-0.0, -0.0, 0.0, 1.0, math.nan, math.inf, None]
PREDICATES = {
    "x = 0": 3,
    "x <= 0": 3,
    "x > 5": 2,
    "x >= 0": 6,
    "x = double('NaN')": 1,
    "x < double('NaN')": 5,
    "x = double('Infinity')": 1,
    "x IS NULL": 1,
}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("type_", ["double", "float"])
def test_queries_find_all_floats(delta_spark: SparkSession, tmp_path: Path, type_: str) -> None:
    build(tmp_path, {"x": type_}, [{"x": value} for value in ROWS * 300], "timestampNtz")
    table = delta_spark.read.format("delta").load(str(tmp_path))
    assert count_each(table, *PREDICATES) == [300 * count for count in PREDICATES.values()]
