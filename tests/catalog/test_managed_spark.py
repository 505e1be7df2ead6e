"""Delta on Spark reads managed tables after a run of deltactl that was killed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.catalog.server_scene import ServerScene
from tests.support.catalog_servers import UnityServer
from tests.support.delta_spark import SHARED_SESSION
from tests.support.fault_proxy import FaultProxy
from tests.support.unity_spark import with_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SHARED_SESSION


# Spark reads no version whose files a vacuum may have removed.
_KEPT = {"delta.deletedFileRetentionDuration": "interval 9999 days"}


@pytest.mark.slow
def test_spark_reads_every_version_after_a_kill_at_each_call(
    delta_spark: SparkSession, unity: UnityServer, proxy: FaultProxy
) -> None:
    spark = with_catalog(delta_spark, "main", unity.address)
    for calls in count():
        scene = ServerScene(unity, proxy, properties=_KEPT)
        first = 0 if calls == 0 else scene.latest()  # what is below is the same for all
        if scene.optimize_until_killed(calls):
            break
        _ensure_spark_reads(spark, scene, first)
        scene.finish()
        _ensure_spark_reads(spark, scene, first)
    assert calls > 10


def _ensure_spark_reads(spark: SparkSession, scene: ServerScene, first: int) -> None:
    for version in range(first, scene.latest() + 1):
        found = spark.sql(f"SELECT id FROM {scene.managed.name} VERSION AS OF {version}").collect()
        assert sorted(row["id"] for row in found) == scene.ids(version)
    assert sorted(row["id"] for row in spark.table(scene.managed.name).collect()) == scene.ids()
