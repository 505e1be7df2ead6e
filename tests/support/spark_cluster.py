"""Where tests of the Spark engine run, and the cluster that those of faults share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.spark_servers import (
    connect_server,
    connect_session,
    find_free_port,
    standalone_cluster,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEAVES_SOCKETS: Final = (
    # Py4J and gRPC leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)
ON_SPARK: Final = (pytest.mark.spark, pytest.mark.xdist_group("spark"), *_LEAVES_SOCKETS)
"""For tests with the classic session ``delta_spark``."""

ON_CLUSTER: Final = (
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    *_LEAVES_SOCKETS,
)
"""For tests with ``cluster``: another group, so that it lives in a process of its own.

`make explore-spark` runs them.
"""

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
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cluster and its server keep logs, and Spark's records of plans and jobs."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "events").mkdir()
    return folder


@pytest.fixture(scope="session")
def cluster_ui() -> str:
    """The address of Spark's UI."""
    return f"http://127.0.0.1:{find_free_port()}"


@pytest.fixture(scope="session")
def cluster_address(cluster_folder: Path, cluster_ui: str) -> Iterator[str]:
    """A Spark Connect server on a standalone cluster of two workers with one core each."""
    records = {
        "spark.ui.enabled": "true",
        "spark.ui.port": cluster_ui.rpartition(":")[2],
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (cluster_folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
    }
    with (
        standalone_cluster(cluster_folder) as master,
        connect_server(cluster_folder, master, _SETTINGS | records) as address,
    ):
        yield address


@pytest.fixture(scope="session")
def cluster(cluster_address: str) -> Iterator[SparkSession]:
    """A session of that server."""
    with connect_session(cluster_address) as session:
        yield session
