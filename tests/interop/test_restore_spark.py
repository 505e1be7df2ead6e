"""A restore writes the commit that Delta on Spark writes, and Spark goes on from it.

What Spark wrote is stored (``restored.py``); `make explore-slow` compares with Spark itself.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import Table
from tests.interop.judges import rows_with_duckdb
from tests.interop.restored import SCENES, Scene, build, expected_rows, read_all, unpack
from tests.support.delta_spark import DELTA_VERSION
from tests.support.table_builder import commit_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    assert [name for name, _, _ in found].index("commitInfo") == 0
    return sorted(found, key=lambda it: (it[0], it[1], str(it[2])))  # the order means nothing


def restore_copy(theirs: Path, ours: Path, scene: Scene) -> int:
    """Copy a table that Spark restored, without that commit, and restore the copy.

    Return the version of the restore.
    """
    shutil.copytree(theirs, ours)
    version = Table(str(ours)).snapshot().version
    for file in (ours / "_delta_log").glob(f"{version:020}.*"):
        file.unlink()
    assert Table(str(ours)).restore(version=scene.target).version_after == version
    return version


def ensure_same_commit(theirs: Path, ours: Path, scene: Scene) -> None:
    """Restore a copy as Spark did, and compare the commits."""
    version = restore_copy(theirs, ours, scene)
    assert commit_of(ours, version) == commit_of(theirs, version)
    assert Table(str(ours)).check().findings.num_rows == 0


@pytest.mark.parametrize("name", SCENES)
def test_a_restore_commits_the_same_actions_as_spark(tmp_path: Path, name: str) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    unpack(name, theirs)
    info = json.loads((theirs / commit_path(0)).read_text("utf-8").splitlines()[0])["commitInfo"]
    assert info["engineInfo"].endswith(f"Delta-Lake/{DELTA_VERSION}"), (
        "python -m " + build.__module__
    )
    ensure_same_commit(theirs, ours, SCENES[name])
    assert len(rows_with_duckdb(ours)) == len(expected_rows()[name])


# All commits are those that Spark writes, as the test above shows. So a few, which have most
# features, are enough here.
GOES_ON = ("row tracking", "column mapping")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("names", [GOES_ON, pytest.param(tuple(SCENES), marks=pytest.mark.slow)])
def test_spark_reads_our_restores_and_goes_on(
    delta_spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    roots, versions = {name: tmp_path / name / "ours" for name in names}, {}
    for name in names:
        unpack(name, tmp_path / name / "theirs")
        versions[name] = restore_copy(tmp_path / name / "theirs", roots[name], SCENES[name])
    expected = expected_rows()
    assert read_all(delta_spark, roots) == {name: expected[name] for name in names}
    for name, root in roots.items():
        before = versions[name] - 1
        delta_spark.sql(f"RESTORE TABLE delta.`{root}` TO VERSION AS OF {before}")
        assert Table(str(root)).snapshot().version == versions[name] + 1, name
        assert Table(str(root)).check().findings.num_rows == 0, name


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("name", SCENES)
def test_the_commit_that_spark_writes_today(
    delta_spark: SparkSession, tmp_path: Path, name: str
) -> None:
    build(delta_spark, tmp_path / "theirs", SCENES[name])
    ensure_same_commit(tmp_path / "theirs", tmp_path / "ours", SCENES[name])
    both = read_all(delta_spark, {side: tmp_path / side for side in ("theirs", "ours")})
    assert both["ours"] == both["theirs"] == expected_rows()[name]
