"""Clones of tables by Delta on Spark: Spark reads them, and writes the same shallow ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import CloneOptions, Table
from tests.interop.judges import rows_with_duckdb
from tests.support.table_builder import commit_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

_SOURCE = [
    "CREATE TABLE {} (id INT, p STRING) USING DELTA PARTITIONED BY (p) TBLPROPERTIES("
    "'delta.enableDeletionVectors'='true', 'delta.enableRowTracking'='true')",
    "INSERT INTO {} SELECT /*+ REPARTITION(1) */ cast(id as int), 'a b%' FROM range(5)",
    "DELETE FROM {} WHERE id = 1",
    "INSERT INTO {} VALUES (9, 'é')",
]


@pytest.fixture(scope="module")
def written(delta_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    for statement in _SOURCE:
        delta_spark.sql(statement.format(f"delta.`{root}`"))
    return root


@pytest.fixture
def source(written: Path, tmp_path: Path) -> Path:
    """Return a copy of the table that Spark wrote once."""
    return Path(shutil.copytree(written, tmp_path / "sou rce"))


def rows(delta_spark: SparkSession, *roots: Path) -> list[list[tuple[int, str, int]]]:
    """The rows of each table, each with its row id, read by one query."""
    query = " UNION ALL ".join(
        f"SELECT {n} AS place, id, p, _metadata.row_id AS n FROM delta.`{root}`"
        for n, root in enumerate(roots)
    )
    found = sorted(tuple(row) for row in delta_spark.sql(query).collect())
    return [[row[1:] for row in found if row[0] == n] for n in range(len(roots))]


def actions(root: Path, *names: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (root / commit_path(0)).read_text("utf-8").splitlines())
    return [line for line in lines if next(iter(line)) in names]


def test_spark_reads_and_goes_on_from_clones(
    delta_spark: SparkSession, written: Path, source: Path, tmp_path: Path
) -> None:
    deep, shallow = tmp_path / "deep", tmp_path / "shallow"
    Table(source, warn=lambda _: None).clone(deep, CloneOptions(deep=True))
    source.rename(tmp_path / "gone")  # a deep clone needs it no more
    Table(written, warn=lambda _: None).clone(shallow, CloneOptions(deep=False))
    before, *found = rows(delta_spark, written, deep, shallow)
    assert [row[:2] for row in before] == [
        (0, "a b%"), (2, "a b%"), (3, "a b%"), (4, "a b%"), (9, "é"),
    ]  # fmt: skip
    assert found == [before, before]
    with_duckdb = rows_with_duckdb(deep)
    assert sorted((row["id"], row["p"]) for row in with_duckdb) == [row[:2] for row in before]
    for root in (deep, shallow):
        delta_spark.sql(f"DELETE FROM delta.`{root}` WHERE id = 3")
        found_ids = sorted(Table(root).scan().read_all()["id"].to_pylist())
        assert found_ids == [row[0] for row in before if row[0] != 3]


def test_a_shallow_clone_is_that_of_spark(
    delta_spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    Table(source, warn=lambda _: None).clone(ours, CloneOptions(deep=False))
    delta_spark.sql(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE delta.`{source}`")
    mine, spark_s = ([*actions(root, "add")] for root in (ours, theirs))
    for add in (*mine, *spark_s):
        # Spark gives files new row ids, which may meet those that rows have in the files.
        add["add"].pop("baseRowId")
    by_path = sorted(mine, key=lambda it: it["add"]["path"])
    assert by_path == sorted(spark_s, key=lambda it: it["add"]["path"])
    for name in ("metaData", "protocol"):
        (one,), (other,) = (actions(root, name) for root in (ours, theirs))
        for body in (one[name], other[name]):
            body.pop("id", None)
            # Spark also gives the columns with ids in files new names, so old ids are not read.
            for key in [*body.get("configuration", {})]:
                if key.startswith("delta.rowTracking.materialized"):
                    del body["configuration"][key]
        for key in ("readerFeatures", "writerFeatures"):
            for body in (one[name], other[name]):
                if key in body:
                    body[key] = sorted(body[key])
        assert one == other
    infos = [actions(root, "commitInfo")[0]["commitInfo"] for root in (ours, theirs)]
    for key in ("operation", "operationParameters", "operationMetrics"):
        assert infos[0][key] == infos[1][key], key
