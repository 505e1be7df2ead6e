"""Tables that Delta on Spark wrote: read and maintained by us, and used by Spark again.

Marked slow, with one table: column mapping over a log that was cleaned up. The whole matrix when
``DELTACTL_FULL_MATRIX`` is set.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from deltactl import DeltactlError, OptimizeOptions, SparkEngine, Table, VacuumOptions
from tests.interop.canonical import arrow_rows, comparable, json_rows, spark_type
from tests.interop.differential import compare_commits, latest_version
from tests.interop.judges import READERS, try_count
from tests.support.delta_spark import SHARED_SESSION
from tests.support.spark_matrix import (
    Expected,
    Matrix,
    MatrixTable,
    View,
    all_names,
    find_feature,
    later_insert,
    read_views,
    table_name,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IS_FULL = bool(os.environ.get("DELTACTL_FULL_MATRIX"))
SLICE = ["mapping_name-cleaned"]
NAMES = all_names() if IS_FULL else SLICE
pytestmark = [*SHARED_SESSION, pytest.mark.timeout(600), *([] if IS_FULL else [pytest.mark.slow])]

APPEND_ONLY = {"append_only", "all_append_only"}
NO_WORK = {"emptied"}
# Their rows are placed, by us and by Spark in another way: these options rewrite all files.
LAID_OUT: dict[str, dict[str, Any]] = {
    "clustered": {"full": True},
    "clustered_done": {"full": True},
    "all_clustered": {"full": True},
    "zordered": {"cluster_by": "id", "full": True},
}


@pytest.fixture(scope="module", params=NAMES)
def table(matrix: Matrix, request: pytest.FixtureRequest) -> MatrixTable:
    """A table of the matrix, for one test after the other."""
    return matrix.build(request.param)


def test_scan_equals_what_spark_reads_at_every_version(table: MatrixTable) -> None:
    readable = readable_versions(table.path)
    assert table.expected.version in readable
    problems = [
        f"version {version}: {problem}"
        for version in readable
        for problem in compare_scan(
            table.path, table.expected.versions[version], table.expected.schemas[version], version
        )
    ]
    assert not problems, "\n".join(problems)


def test_commands_keep_all_that_spark_sees(
    matrix: Matrix, delta_spark: SparkSession, tmp_path: Path, table: MatrixTable
) -> None:
    path = tmp_path / "ours"
    shutil.copytree(table.path, path)
    properties = show_properties(delta_spark, path)

    report = table_at(path).optimize(options_for(table))

    problems = [f"optimize failed: {it}" for it in report.failures]
    if latest_version(path) == table.expected.version and table.features[0] not in NO_WORK:
        problems.append("optimize committed nothing")
    if not table_at(path).optimize(options_for(table, full=False), dry_run=True).plan.is_empty:
        problems.append("optimize would rewrite more")
    clone, restored = restore_and_clone(table, path)
    # In all shapes of its log, a table has the same rows: what Spark does next is done to the
    # first one, which we copied, and to the second one, which we encoded.
    shape, shapes = table.features[1], find_feature(table.name).shapes[:2]
    is_first, is_last = (table.name in SLICE or shape == shapes[it] for it in (0, -1))
    problems += [
        *compare_content(delta_spark, table.expected, path, [clone] if is_first else []),
        *compare_scan(path, table.expected.rows, table.expected.schema, latest_version(path)),
        *compare_readers(table, [path, restored, clone]),
        *compare_with_spark(matrix, table, path),
        *compare_history(delta_spark, table, path),
    ]
    if show_properties(delta_spark, path) != properties:
        problems.append("SHOW TBLPROPERTIES changed")
    if is_first:
        problems += vacuum_nothing_live(delta_spark, path)
        problems += delete_with_spark(delta_spark, table, path)
    if is_last:
        problems += merge_with_spark(delta_spark, table, path, also_deleted=is_first)
    assert not problems, "\n".join(problems)


def table_at(path: Path) -> Table:
    """The table as the library has it, without warnings."""
    return Table(str(path), warn=lambda _: None)


def options_for(table: MatrixTable, **changed: Any) -> OptimizeOptions:
    """Copies or encodes, by the shape of the log: each feature has a "json" one and others."""
    feature, shape = table.features
    copies = shape == "json" and feature not in LAID_OUT
    chosen = {**LAID_OUT.get(feature, {}), **changed}
    return OptimizeOptions(rewrite="copy" if copies else "encode", **chosen)


def restore_and_clone(table: MatrixTable, path: Path) -> tuple[Path, Path]:
    """A copy that is restored to before, and vacuumed; and a clone of the copy, which is first."""
    restored, clone = path.with_name("restored"), path.with_name("clone")
    shutil.copytree(path, restored)
    if table.features[0] not in APPEND_ONLY:
        table_at(restored).restore(version=table.expected.version)
    table_at(restored).vacuum(FULL_VACUUM)
    table_at(restored).clone(str(clone), deep=True)
    return clone, restored


FULL_VACUUM = VacuumOptions(mode="full", retain_ms=0, force_retention=True, max_orphan_fraction=1.0)


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


def compare_content(
    spark: SparkSession, expected: Expected, path: Path, clones: list[Path]
) -> Iterator[str]:
    """Rows and ids that Spark reads after our commit, before it, and from clones."""
    ids = expected.row_ids is not None
    views = [View(it, row_ids=ids) for it in (path, *clones)]
    views.append(View(path, expected.version, row_ids=ids))
    rows = expected.row_ids or expected.rows
    for view, found in zip(views, read_views(spark, views), strict=True):
        # All rows of a clone are of its first version.
        form = without_version if view.path in clones else str
        for problem in compare_rows([*map(form, found)], [*map(form, rows)]):
            yield f"Spark reads from {view.path.name} at {view.version or 'its end'}: {problem}"


def compare_readers(table: MatrixTable, paths: list[Path]) -> Iterator[str]:
    """Other readers see all rows afterwards, if they did before."""
    for reader in READERS:
        before, _ = try_count(reader, table.path)
        if before == len(table.expected.rows):
            for path in paths:
                after, why = try_count(reader, path)
                if after != before:
                    yield f"{reader} reads {after} rows of {path.name} for {before}; {why}"


def compare_with_spark(matrix: Matrix, table: MatrixTable, path: Path) -> Iterator[str]:
    """Our commit against the one that Spark's own OPTIMIZE makes of the same table."""
    if table.features[0] in LAID_OUT:
        return
    theirs, version = matrix.optimized(table.name), table.expected.version + 1
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
    found = spark.sql(f"SHOW TBLPROPERTIES {table_name(path)}").collect()
    return sorted((row.key, row.value) for row in found)


def delete_with_spark(spark: SparkSession, table: MatrixTable, path: Path) -> Iterator[str]:
    """Spark adds to the table that we optimized, deletes rows from it, and optimizes it too."""
    name = table_name(path)
    spark.sql(later_insert(find_feature(table.name), NEW, NEW + 3).replace("{t}", name))
    if table.features[0] not in APPEND_ONLY:
        spark.sql(f"DELETE FROM {name} WHERE id % 7 = 3 AND id < {NEW}")
    spark.sql(f"OPTIMIZE {name}")
    (found,) = read_views(spark, [View(path, row_ids=table.expected.row_ids is not None)])
    yield from compare_kept(table, found, stays_after_delete, 3)


def merge_with_spark(
    spark: SparkSession, table: MatrixTable, path: Path, *, also_deleted: bool
) -> Iterator[str]:
    """Spark merges into the table; we optimize it again, with Spark's session as the engine."""
    if table.features[0] not in APPEND_ONLY:
        spark.sql(MERGE.replace("{t}", table_name(path)))
    # Into the same partitions, as values go round by sevens, so that merging is worth it there.
    statement = later_insert(find_feature(table.name), NEW + 10, NEW + 66, files=4)
    spark.sql(statement.replace("{t}", table_name(path)))
    version = latest_version(path)
    chosen = LAID_OUT.get(table.features[0], {"rewrite": "copy"})
    options = OptimizeOptions(max_deleted_rows_ratio=0, verify="full", **chosen)
    report = Table(str(path)).optimize(options, engine=SparkEngine(spark))
    if latest_version(path) == version or report.engine != "spark":
        yield f"optimize on Spark committed nothing: {report.plan.left_alone}"
    ids = table.expected.row_ids is not None
    before, after = read_views(spark, [View(path, v, row_ids=ids) for v in (version, None)])
    for problem in compare_rows(after, before):
        yield f"after optimize on Spark: {problem}"
    stays: Callable[[int], bool] = lambda key: (  # noqa: E731
        stays_after_merge(key) and (not also_deleted or stays_after_delete(key))
    )
    yield from compare_kept(table, before, stays, 56 + 3 * also_deleted)
    yield from vacuum_nothing_live(spark, path)


NEW = 1000
"""Rows with ids from here on came after the matrix."""

# Some rows go, some are written again as they are.
MERGE = (
    "MERGE INTO {t} t USING (SELECT id AS k FROM range(0, 20)) s ON t.id = s.k "
    "WHEN MATCHED AND s.k % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET id = s.k"
)


def stays_after_merge(key: int) -> bool:
    """Whether the row is there after ``MERGE``."""
    return key >= 20 or key % 2 != 0


def stays_after_delete(key: int) -> bool:
    """Whether the row is there after Spark's DELETE."""
    return key % 7 != 3


def compare_kept(
    table: MatrixTable, found: list[str], stays: Callable[[int], bool], new: int
) -> Iterator[str]:
    """The old rows that must be there, with the ids they always had, and so many new ones."""
    # A row written again has a new commit version; its id stays.
    found = [without_version(row) for row in found]
    expected = [without_version(row) for row in table.expected.row_ids or table.expected.rows]
    if table.features[0] not in APPEND_ONLY:
        expected = [row for row in expected if stays(key_of(row))]
    old = sorted(row for row in found if key_of(row) < NEW)
    for problem in compare_rows(old, sorted(expected)):
        yield f"after changes by Spark: {problem}"
    if len(found) - len(old) != new:
        yield f"after changes by Spark: {len(found) - len(old)} of {new} inserted rows"


def without_version(row: str) -> str:
    """A row with its id, without the version that wrote it."""
    return re.sub(r',"v":\d+\}$', "}", row)


def key_of(row: str) -> int:
    return int(json.loads(row)["id"])


def vacuum_nothing_live(spark: SparkSession, path: Path) -> Iterator[str]:
    """A VACUUM that keeps no history would take no live file."""
    listed = spark.sql(f"VACUUM {table_name(path)} RETAIN 0 HOURS DRY RUN").collect()
    live = table_at(path).snapshot().files["path"].to_pylist()
    doomed = {Path(row[0].removeprefix("file:")).name for row in listed}
    both = doomed & {Path(unquote(file)).name for file in live}
    if both:
        yield f"VACUUM would delete live files: {sorted(both)[:3]}"
