"""A restore writes the commit that Delta on Spark writes, and Spark goes on from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import Table
from tests.interop.judges import rows_with_duckdb
from tests.support.table_builder import commit_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_VECTORS = "TBLPROPERTIES('delta.enableDeletionVectors'='true')"
_ROWS = "SELECT /*+ REPARTITION(1) */ cast(id as int) AS id FROM range(5)"
SCENES: dict[str, tuple[int, list[str]]] = {
    "deletion vectors": (
        1,
        [
            f"CREATE TABLE {{}} (id INT) USING DELTA {_VECTORS}",
            f"INSERT INTO {{}} {_ROWS}",
            "DELETE FROM {} WHERE id = 1",
            "INSERT INTO {} VALUES (9)",
            "ALTER TABLE {} ADD COLUMN b STRING",
        ],
    ),
    "clustering": (
        1,
        [
            "CREATE TABLE {} (id INT, b INT) USING DELTA CLUSTER BY (id)",
            "INSERT INTO {} VALUES (1, 1)",
            "ALTER TABLE {} CLUSTER BY (b)",
            "INSERT INTO {} VALUES (2, 2)",
        ],
    ),
    "clustered since": (
        1,
        [
            "CREATE TABLE {} (id INT, b INT) USING DELTA",
            "INSERT INTO {} VALUES (1, 1)",
            "ALTER TABLE {} CLUSTER BY (b)",
            "INSERT INTO {} VALUES (2, 2)",
        ],
    ),
    "timestamps since": (
        1,
        [
            "CREATE TABLE {} (id INT) USING DELTA",
            "INSERT INTO {} VALUES (1)",
            "ALTER TABLE {} SET TBLPROPERTIES('delta.enableInCommitTimestamps'='true')",
            "INSERT INTO {} VALUES (2)",
        ],
    ),
    "timestamps before": (
        3,
        [
            "CREATE TABLE {} (id INT) USING DELTA",
            "INSERT INTO {} VALUES (1)",
            "ALTER TABLE {} SET TBLPROPERTIES('delta.enableInCommitTimestamps'='true')",
            "INSERT INTO {} VALUES (2)",
            "DELETE FROM {} WHERE id = 1",
        ],
    ),
    "row tracking": (
        1,
        [
            "CREATE TABLE {} (id INT) USING DELTA TBLPROPERTIES('delta.enableRowTracking'='true')",
            f"INSERT INTO {{}} {_ROWS}",
            "DELETE FROM {} WHERE id = 1",
            "INSERT INTO {} VALUES (9)",
        ],
    ),
    "row tracking since": (
        1,
        [
            "CREATE TABLE {} (id INT) USING DELTA",
            f"INSERT INTO {{}} {_ROWS}",
            "DELETE FROM {} WHERE id = 1",
            "ALTER TABLE {} SET TBLPROPERTIES('delta.enableRowTracking'='true')",
            "INSERT INTO {} VALUES (9)",
        ],
    ),
    "column mapping": (
        1,
        [
            "CREATE TABLE {} (id INT, p STRING) USING DELTA PARTITIONED BY (p) "
            "TBLPROPERTIES('delta.columnMapping.mode'='name')",
            "INSERT INTO {} VALUES (1, 'a b'), (2, null)",
            "ALTER TABLE {} RENAME COLUMN id TO x",
            "INSERT INTO {} VALUES (3, 'ü%')",
        ],
    ),
    "partitions and change data": (
        1,
        [
            "CREATE TABLE {} (id INT, p STRING, d DATE) USING DELTA PARTITIONED BY (p, d) "
            "TBLPROPERTIES('delta.enableChangeDataFeed'='true')",
            "INSERT INTO {} SELECT /*+ REPARTITION(1) */ * FROM VALUES "
            "(1, 'a b', DATE'2024-01-01'), (4, 'a b', DATE'2024-01-01'), (2, null, null)",
            "DELETE FROM {} WHERE id = 1",  # rewrites a file: the removed row is change data
            "INSERT INTO {} VALUES (3, 'ü%', null)",
        ],
    ),
}
_OF_THE_WRITER = ("timestamp", "engineInfo", "txnId", "tags", "inCommitTimestamp")


def commit_of(path: Path, version: int) -> list[Any]:
    """The actions in their order, without what differs between two runs."""
    found: list[tuple[str, str, Any]] = []
    for text in (path / commit_path(version)).read_text("utf-8").splitlines():
        ((name, body),) = json.loads(text).items()
        if name == "commitInfo":
            body = {key: it for key, it in body.items() if key not in _OF_THE_WRITER}
        body.pop("deletionTimestamp", None)
        for key in ("stats", "configuration"):
            if isinstance(body.get(key), str):
                body[key] = json.loads(body[key])
        for key in ("readerFeatures", "writerFeatures"):
            if key in body:
                body[key] = sorted(body[key])
        if isinstance(body.get("configuration"), dict):
            body["configuration"].pop("domainName", None)
        if "partitionValues" in body:  # Spark writes no nulls
            values = body["partitionValues"].items()
            body["partitionValues"] = {key: it for key, it in values if it is not None}
        found.append((name, str(body.get("path")), body))
    names = list(dict.fromkeys(name for name, _, _ in found))
    return sorted(found, key=lambda it: (names.index(it[0]), it[1], str(it[2])))


@pytest.mark.parametrize("scene", SCENES)
def test_the_same_commit(delta_spark: SparkSession, tmp_path: Path, scene: str) -> None:
    target, statements = SCENES[scene]
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for statement in statements:
        delta_spark.sql(statement.format(f"delta.`{theirs}`"))
    shutil.copytree(theirs, ours)
    latest = Table(str(ours)).snapshot().version
    delta_spark.sql(f"RESTORE TABLE delta.`{theirs}` TO VERSION AS OF {target}")
    report = Table(str(ours)).restore(target)
    assert report.version_after == latest + 1
    assert commit_of(ours, latest + 1) == commit_of(theirs, latest + 1)
    both = (delta_spark.read.format("delta").load(str(path)) for path in (ours, theirs))
    read = [rows.selectExpr(f"{side} AS side", "*") for side, rows in enumerate(both)]
    found: dict[int, list[str]] = {0: [], 1: []}
    for side, *values in read[0].unionAll(read[1]).collect():
        found[side].append(str(values))
    assert sorted(found[0]) == sorted(found[1])
    assert len(rows_with_duckdb(ours)) == len(found[0])
    delta_spark.sql(f"RESTORE TABLE delta.`{ours}` TO VERSION AS OF {latest}")
    assert Table(str(ours)).snapshot().version == latest + 2
    assert Table(str(ours)).check().findings.num_rows == 0
