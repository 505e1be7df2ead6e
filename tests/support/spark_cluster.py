"""Where tests of the Spark engine run, and the cluster that those of faults share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.spark_servers import connect_server, connect_session, standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEAVES_SOCKETS: Final = (
    # Py4J and gRPC leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)
ON_SPARK: Final = (pytest.mark.spark, pytest.mark.xdist_group("spark"), *_LEAVES_SOCKETS)
"""For tests with the classic session ``delta_spark``."""

ON_CLUSTER: Final = (pytest.mark.spark, pytest.mark.xdist_group("cluster"), *_LEAVES_SOCKETS)
"""For tests with ``cluster``: another group, so that it lives in a process of its own."""

_SETTINGS: Final = {
    "spark.executor.memory": "640m",
    # One retry by Spark itself; all further ones are the engine's.
    "spark.task.maxFailures": "2",
    # What takes three seconds is run once more on the other worker.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "3s",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark Connect session on a standalone cluster of two workers with one core each."""
    scratch = tmp_path_factory.mktemp("cluster")
    with (
        standalone_cluster(scratch) as master,
        connect_server(scratch, master, _SETTINGS) as address,
        connect_session(address) as session,
    ):
        yield session
