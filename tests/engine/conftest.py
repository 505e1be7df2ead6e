"""Engines to test: in the process, on classic Spark, and on a cluster through Spark Connect."""

from typing import TYPE_CHECKING

import pytest

from deltactl.engine.base import Engine
from deltactl.engine.local import LocalEngine
from deltactl.engine.spark.engine import SparkEngine
from tests.support.spark_cluster import ON_CLUSTER, ON_SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(
    params=[
        "local",
        pytest.param("spark", marks=ON_SPARK),
        # It runs the same jobs; tests/engine/spark has those of its own faults and shuffles.
        pytest.param("connect", marks=ON_CLUSTER),
    ]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine that has the same promises to keep."""
    if request.param == "local":
        return LocalEngine(workers=2)
    fixture = {"spark": "delta_spark", "connect": "cluster"}[request.param]
    session: SparkSession = request.getfixturevalue(fixture)
    return SparkEngine(session)
