"""Delta on Spark reads what we checkpointed, and goes on from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl import CheckpointOptions, Table
from deltactl.log.listing import list_log
from deltactl.storage.local.store import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_CREATE = (
    "CREATE TABLE delta.`{}` (id INT, s STRING, ts TIMESTAMP, p DATE) USING DELTA PARTITIONED BY"
    " (p) TBLPROPERTIES ('delta.checkpointInterval'='100', 'delta.enableDeletionVectors'='true'{})"
)
_INSERT = (
    "INSERT INTO delta.`{}` VALUES (1, 'a', TIMESTAMP'2024-01-01 00:00:00.123', DATE'2024-01-01'),"
    " (2, 'b c', null, null), (3, null, null, DATE'2024-01-01')"
)


def test_spark_reads_and_continues_from_each_kind(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    """The commits below are gone: there is nothing else to read from."""
    kinds: dict[str, CheckpointOptions] = {
        "classic": CheckpointOptions(kind="classic", compat="spark"),
        "v2": CheckpointOptions(kind="v2", sidecar_rows=1),
    }
    written = tmp_path / "written"
    delta_spark.sql(_CREATE.format(written, ", 'delta.feature.v2Checkpoint'='supported'"))
    delta_spark.sql(_INSERT.format(written))
    delta_spark.sql(f"DELETE FROM delta.`{written}` WHERE id = 3")
    expected = sorted(map(str, delta_spark.read.format("delta").load(str(written)).collect()))
    for kind, options in kinds.items():
        path = tmp_path / kind
        shutil.copytree(written, path)
        report = Table(str(path)).checkpoint(options)
        assert report.written is not None
        assert report.written.kind == kind
        version = report.plan.version
        store = LocalStore(str(path))
        commits = list_log(store).commits
        store.delete_many([info.name for v, info in commits.items() if v < version])
        delta_spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        found = delta_spark.read.format("delta").load(str(path))
        assert sorted(map(str, found.collect())) == expected, kind
        delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (9, 'z', null, null)")
        assert Table(str(path)).snapshot().version == version + 1
        rows = delta_spark.read.format("delta").load(str(path)).count()
        assert rows == len(expected) + 1, kind


@pytest.mark.parametrize("has_tombstones", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_spark_reads_a_v2_checkpoint_of_a_table_without_files(
    delta_spark: SparkSession, tmp_path: Path, has_tombstones: bool
) -> None:
    """Found by random histories: Spark then looks for the column ``add`` in the top-level file."""
    path = tmp_path / "empty"
    delta_spark.sql(_CREATE.format(path, ", 'delta.feature.v2Checkpoint'='supported'"))
    if has_tombstones:
        delta_spark.sql(f"INSERT INTO delta.`{path}` (id) VALUES (1)")
        delta_spark.sql(f"DELETE FROM delta.`{path}`")
    Table(str(path)).checkpoint(CheckpointOptions(kind="v2", top_format="parquet", compat="plain"))
    delta_spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    assert delta_spark.read.format("delta").load(str(path)).count() == 0
