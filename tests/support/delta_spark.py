"""Delta on Spark for tests: its jars, a session, and a fixture that skips where it cannot run.

The jars come through Maven, once, into a cache outside the project. Spark itself comes with
PySpark; only Delta's own five jars are added to it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from deltactl.engine.spark.session import stop_session
from tests.support.maven import Artifact, UnreachableError, ensure_jars
from tests.support.spark_servers import JAVA_OPTIONS, worker_environ
from tests.support.unity_spark import find_unity_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_VERSION: Final = "4.4.0"
NO_SETTINGS: Final[Mapping[str, str]] = {}
SHARED_SESSION: Final = [
    pytest.mark.spark,
    # One session, and one set of tables, for all of them.
    pytest.mark.xdist_group("spark"),
    # Py4J leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""Marks of tests that use ``delta_spark``."""
UNREACHABLE: Final = "Delta on Spark is not reachable: no Java or no Maven artifacts"

_ARTIFACTS: Final = tuple(
    Artifact("io.delta", name, DELTA_VERSION)
    for name in (
        "delta-spark_2.13",
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
    )
)


def find_jars() -> list[Path]:
    """Delta's jars, fetched when they are not in the cache yet.

    Raises:
        UnreachableError: no Java, no Maven, no PySpark or no network.
    """
    if find_spec("pyspark") is None or shutil.which("java") is None:
        raise UnreachableError
    return ensure_jars(f"delta-spark-{DELTA_VERSION}", _ARTIFACTS)


def spark_settings(jars: Sequence[Path], scratch: Path) -> Mapping[str, str]:
    """The settings of a session that is quick with small tables and leaves nothing behind."""
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Each task compiles its projections anew, which takes longer than the rows do.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
        # Compiling the code of a query takes longer than the query does on a hundred rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        # One task reads many small files.
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": (
            f"-Duser.timezone=UTC -Dderby.system.home={scratch} {JAVA_OPTIONS}"
        ),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        # Tests vacuum at once what a day ago was live, on purpose.
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }


@contextmanager
def delta_session(
    scratch: Path, jars: Sequence[Path] = (), settings: Mapping[str, str] = NO_SETTINGS
) -> Iterator[SparkSession]:
    """A session on two cores, stopped with its Java process at the end.

    Args:
        scratch: a directory for its files
        jars: further jars beside those of Delta
        settings: further settings

    Raises:
        UnreachableError: this machine cannot run it.
    """
    all_settings = {**spark_settings([*find_jars(), *jars], scratch), **settings}
    from pyspark.sql import SparkSession

    os.environ.update(worker_environ())
    builder = SparkSession.builder.master("local[2]").appName("deltactl-tests")
    for key, value in all_settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        stop_session(spark)


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of Delta on Spark; the test is skipped where there can be none.

    ``with_catalog`` lets it find tables of a Unity Catalog, where there is a Java compiler.
    """
    try:
        jars = find_jars()
    except (UnreachableError, subprocess.TimeoutExpired):
        pytest.skip(UNREACHABLE)
    try:
        further = find_unity_jars(jars)
    except (UnreachableError, subprocess.TimeoutExpired):
        further = []
    with delta_session(tmp_path_factory.mktemp("spark"), further) as spark:
        yield spark
