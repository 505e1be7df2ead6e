"""The matrix of Spark's tables, built as the tests ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.spark_matrix import Matrix

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def matrix(delta_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """Tables by name, with what Spark reads from them at every version."""
    return Matrix(delta_spark, tmp_path_factory.mktemp("matrix"))
