"""Tables that Delta on Spark wrote: read by us, optimized by us, and used by Spark again.

By default one table, with column mapping over a log that was cleaned up. The whole matrix
when ``DELTACTL_FULL_MATRIX`` is set.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import DeltactlError, OptimizeOptions, SparkEngine, Table
from tests.conftest import REPOSITORY
from tests.interop.canonical import arrow_rows, comparable, json_rows, spark_type
from tests.interop.differential import compare_commits, latest_version
from tests.interop.judges import READERS, try_count
from tests.support.delta_spark import SHARED_SESSION
from tests.support.spark_matrix import (
    Matrix,
    MatrixTable,
    all_names,
    find_feature,
    later_insert,
    read_row_ids,
    read_rows,
    table_name,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = SHARED_SESSION

SLICE = ["mapping_name-cleaned"]
NAMES = all_names() if os.environ.get("DELTACTL_FULL_MATRIX") else SLICE

APPEND_ONLY = {"append_only"}
NO_WORK = {"emptied"}
# Their rows are placed, by us and by Spark in another way: these options rewrite all files.
LAID_OUT: dict[str, dict[str, Any]] = {
    "clustered": {"full": True},
    "clustered_done": {"full": True},
    "zordered": {"cluster_by": "id", "full": True},
}


@pytest.mark.parametrize("name", NAMES)
def test_scan_equals_what_spark_reads_at_every_version(matrix: Matrix, name: str) -> None:
    table = matrix.build(name)
    readable = readable_versions(table.path)
    assert table.expected.version in readable
    problems = [
        f"version {version}: {problem}"
        for version in readable
        for problem in compare_scan(
            table.path,
            table.expected.versions[version],
            table.expected.schemas[version],
            version,
        )
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_optimize_keeps_all_that_spark_sees(
    matrix: Matrix, delta_spark: SparkSession, tmp_path: Path, name: str
) -> None:
    table = matrix.build(name)
    path = tmp_path / "ours"
    shutil.copytree(table.path, path)
    properties = show_properties(delta_spark, path)

    laid_out = LAID_OUT.get(table.features[0], {})
    report = run_optimize(path, name, *(["--full"] if laid_out else []))

    assert report["exit"] == 0, report
    problems = [
        *compare_content(delta_spark, table, path),
        *compare_readers(table, path),
        *compare_with_spark(delta_spark, table, path, tmp_path / "theirs"),
        *compare_history(delta_spark, table, path),
    ]
    if show_properties(delta_spark, path) != properties:
        problems.append("SHOW TBLPROPERTIES changed")
    check = run_optimize(path, name, "--check")
    if check["exit"]:
        problems.append(f"--check after optimize ends with {check}")
    problems += go_on_with_spark(delta_spark, table, path)
    problems += optimize_on_spark(delta_spark, table, path)
    assert not problems, "\n".join(problems)


def readable_versions(path: Path) -> list[int]:
    """The versions that commits and checkpoints still lead to."""
    files = [file.name for file in (path / "_delta_log").iterdir()]
    commits = {int(name[:20]) for name in files if re.fullmatch(r"\d{20}\.json", name)}
    checkpoints = {int(name[:20]) for name in files if re.match(r"\d{20}\.checkpoint\.", name)}
    first = 0 if 0 in commits else min(checkpoints)
    return sorted(version for version in commits if version >= first)


def compare_scan(path: Path, texts: list[str], schema: str, version: int) -> Iterator[str]:
    """Our reader's rows and types against Spark's, at a version."""
    try:
        found = Table(str(path)).scan(version=version).read_all()
    except DeltactlError as error:
        yield f"scan: {type(error).__name__}: {error}"
        return
    if spark_type_of(found.schema) != schema:
        yield f"scan: schema is {spark_type_of(found.schema)}, Spark's {schema}"
        return
    columns = comparable(found.schema)
    yield from (
        f"scan: {problem}"
        for problem in compare_rows(
            arrow_rows(found.select(columns.names)), json_rows(texts, columns)
        )
    )


def spark_type_of(schema: Any) -> str:
    """An Arrow schema as Spark names it."""
    return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in schema)}>"


def compare_rows(found: list[str], expected: list[str]) -> Iterator[str]:
    """One text about two lists of rows that are not the same."""
    if found == expected:
        return
    lacking = sorted(set(expected) - set(found))[:2]
    extra = sorted(set(found) - set(expected))[:2]
    yield f"{len(found)} rows for {len(expected)}; lacking {lacking}; too many {extra}"


def run_optimize(path: Path, name: str, *options: str) -> dict[str, Any]:
    """Run the command; its report, with the exit status as ``exit``."""
    by = LAID_OUT.get(find_feature(name).name, {}).get("cluster_by")
    # Copied or encoded, by the shape of the log: each feature has a "json" one and others.
    copies = name.endswith("-json") and find_feature(name).name not in LAID_OUT
    more = ["--rewrite", "copy" if copies else "encode", *(["--cluster-by", by] if by else [])]
    done = subprocess.run(
        [sys.executable, "-m", "deltactl", "optimize", str(path), "-o", "json", *more, *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def compare_content(spark: SparkSession, table: MatrixTable, path: Path) -> Iterator[str]:
    """Rows, ids and old versions after our commit, read by Spark and by us."""
    expected = table.expected
    version = latest_version(path)
    if version == expected.version and table.features[0] not in NO_WORK:
        yield "optimize committed nothing"
    for problem in compare_rows(read_rows(spark, path), expected.rows):
        yield f"Spark reads {problem}"
    if expected.row_ids is not None:
        for problem in compare_rows(read_row_ids(spark, path), expected.row_ids):
            yield f"row ids: {problem}"
    for problem in compare_rows(read_rows(spark, path, expected.version), expected.rows):
        yield f"Spark reads, at the version before: {problem}"
    yield from compare_scan(path, expected.rows, expected.schema, version)


def compare_readers(table: MatrixTable, path: Path) -> Iterator[str]:
    """Other readers see all rows afterwards, if they did before."""
    for reader in READERS:
        before, _ = try_count(reader, table.path)
        if before == len(table.expected.rows):
            after, why = try_count(reader, path)
            if after != before:
                yield f"{reader} reads {after} rows for {before}; {why}"


def compare_with_spark(
    spark: SparkSession, table: MatrixTable, path: Path, theirs: Path
) -> Iterator[str]:
    """Our commit against the one that Spark's own OPTIMIZE makes of the same table."""
    shutil.copytree(table.path, theirs)
    spark.sql(f"OPTIMIZE {table_name(theirs)}")
    if table.features[0] in LAID_OUT:
        return
    version = table.expected.version + 1
    if latest_version(path) == latest_version(theirs) == version:
        yield from compare_commits(path, theirs, version)


def compare_history(spark: SparkSession, table: MatrixTable, path: Path) -> Iterator[str]:
    """Spark's DESCRIBE HISTORY shows our commit."""
    if latest_version(path) == table.expected.version:
        return
    newest = spark.sql(f"DESCRIBE HISTORY {table_name(path)}").first()
    assert newest is not None
    if newest.operation != "OPTIMIZE":
        yield f"DESCRIBE HISTORY: operation {newest.operation}"
    if not (newest.operationMetrics or {}).get("numRemovedFiles"):
        yield f"DESCRIBE HISTORY: operationMetrics {newest.operationMetrics}"


def show_properties(spark: SparkSession, path: Path) -> list[tuple[str, str]]:
    """All properties of a table."""
    found = spark.sql(f"SHOW TBLPROPERTIES {table_name(path)}").collect()
    return sorted((row.key, row.value) for row in found)


def go_on_with_spark(spark: SparkSession, table: MatrixTable, path: Path) -> Iterator[str]:
    """Spark changes the table that we optimized, as it pleases."""
    name = table_name(path)
    statement = later_insert(find_feature(table.name), NEW, NEW + 3)
    spark.sql(statement.replace("{t}", name))
    kept: Callable[[int], bool] = lambda key: True  # noqa: E731
    if table.features[0] not in APPEND_ONLY:
        spark.sql(f"DELETE FROM {name} WHERE id % 7 = 3 AND id < {NEW}")
        yield from compare_kept(spark, table, path, "DELETE", lambda key: key % 7 != 3)
        spark.sql(MERGE.replace("{t}", name))
        kept = lambda key: key % 7 != 3 and not (key < 20 and key % 2 == 0)  # noqa: E731
    spark.sql(f"OPTIMIZE {name}")
    yield from compare_kept(spark, table, path, "all", kept)
    yield from vacuum_nothing_live(spark, path)


def optimize_on_spark(spark: SparkSession, table: MatrixTable, path: Path) -> Iterator[str]:
    """We again, with Spark's session as the engine, after Spark has had its way."""
    # Into the same partitions, as values go round by sevens, so that merging is worth it there.
    for start in range(NEW + 10, NEW + 38, 7):
        statement = later_insert(find_feature(table.name), start, start + 3)
        spark.sql(statement.replace("{t}", table_name(path)))
    rows, version = read_rows(spark, path), latest_version(path)
    chosen = LAID_OUT.get(table.features[0], {"rewrite": "copy"})
    options = OptimizeOptions(max_deleted_rows_ratio=0, verify="full", **chosen)
    report = Table(str(path)).optimize(options, engine=SparkEngine(spark))
    if latest_version(path) == version or report.engine != "spark":
        yield f"optimize on Spark committed nothing: {report.plan.left_alone}"
    for problem in compare_rows(read_rows(spark, path), rows):
        yield f"after optimize on Spark: {problem}"
    yield from vacuum_nothing_live(spark, path)


NEW = 1000
"""Rows with ids from here on came after the matrix."""

# Some rows go, some are written again as they are.
MERGE = (
    "MERGE INTO {t} t USING (SELECT id AS k FROM range(0, 20)) s ON t.id = s.k "
    "WHEN MATCHED AND s.k % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET id = s.k"
)


def compare_kept(
    spark: SparkSession,
    table: MatrixTable,
    path: Path,
    after: str,
    kept: Callable[[int], bool],
) -> Iterator[str]:
    """The old rows that must be there, with the ids they always had, and three new ones."""
    ids = table.expected.row_ids
    if ids is None:
        expected, found = table.expected.rows, read_rows(spark, path)
    else:
        # A row written again has a new commit version; its id stays.
        expected = [without_version(row) for row in ids]
        found = [without_version(row) for row in read_row_ids(spark, path)]
    old = sorted(row for row in found if key_of(row) < NEW)
    for problem in compare_rows(old, sorted(row for row in expected if kept(key_of(row)))):
        yield f"after {after} by Spark: {problem}"
    if len(found) - len(old) != 3:
        yield f"after {after} by Spark: {len(found) - len(old)} of 3 inserted rows"


def without_version(row: str) -> str:
    """A row with its id, without the version that wrote it."""
    return re.sub(r',"v":\d+\}$', "}", row)


def key_of(row: str) -> int:
    """The id of a row."""
    return int(json.loads(row)["id"])


def vacuum_nothing_live(spark: SparkSession, path: Path) -> Iterator[str]:
    """A VACUUM that keeps no history would take no live file."""
    listed = spark.sql(f"VACUUM {table_name(path)} RETAIN 0 HOURS DRY RUN").collect()
    live = spark.read.format("delta").load(str(path)).inputFiles()
    doomed = {Path(row[0].removeprefix("file:")).name for row in listed}
    both = doomed & {Path(file).name for file in live}
    if both:
        yield f"VACUUM would delete live files: {sorted(both)[:3]}"
