"""What other readers do with a ``metaData`` without a schema, and with an empty commit.

Measured with Delta on Spark 4.4.0, and the delta-rs and DuckDB that the tests install:

==================  =======================  ======================  ======================
schemaString        version that has it      Delta on Spark          delta-rs and DuckDB
==================  =======================  ======================  ======================
absent or null      an older one             reads, rewrites         fail, also on newer
                                                                     versions, unless a later
                                                                     checkpoint hides it
absent or null      the newest               history, vacuum and     fail
                                             checkpoint (null in
                                             it) work; queries and
                                             OPTIMIZE fail
empty, no JSON,     an older one             reads the newest;       read the newest; fail on
or no struct                                 fails on that one       that one
the same            the newest               fails                   fail
no fields           the newest               as for null             fail
==================  =======================  ======================  ======================

Where a partition column is not in the schema, Delta on Spark shows the history and fails otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl.table import Table
from tests.interop.judges import READERS, try_count
from tests.support.schemaless import ABSENT, NUM_FILES, make_schemaless
from tests.support.table_builder import commit_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_table(path: Path) -> Table:
    return Table(str(path), warn=lambda message: None)


def count_with_spark(spark: SparkSession, path: Path) -> int:
    return len(spark.read.format("delta").load(str(path)).collect())


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(("schema", "partition_by"), [(ABSENT, ("p",)), ("", ())])
def test_spark_reads_what_we_rewrote(
    delta_spark: SparkSession, tmp_path: Path, schema: Any, partition_by: tuple[str, ...]
) -> None:
    make_schemaless(tmp_path, schema, partition_by, later=True)
    assert count_with_spark(delta_spark, tmp_path) == NUM_FILES
    assert open_table(tmp_path).optimize().files_removed == NUM_FILES
    open_table(tmp_path).checkpoint()
    assert count_with_spark(delta_spark, tmp_path) == NUM_FILES


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_takes_our_checkpoint_without_a_schema(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    make_schemaless(tmp_path, ABSENT, (), later=False)
    open_table(tmp_path).checkpoint()
    assert delta_spark._jvm is not None
    delta_spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert delta_spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path}`").count() == 3
    with pytest.raises(Exception, match="DELTA_READ_TABLE_WITHOUT_COLUMNS"):
        count_with_spark(delta_spark, tmp_path)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_reads_mapped_partition_columns_from_our_checkpoint(
    delta_spark: SparkSession, tmp_path: Path
) -> None:
    builder = make_schemaless(tmp_path, ABSENT, ("p",), later=False, mapping="name")
    open_table(tmp_path).checkpoint()
    builder.change_metadata()
    for version in range(3):
        (tmp_path / commit_path(version)).unlink()
    rows = delta_spark.read.format("delta").load(str(tmp_path)).collect()
    assert sorted((row["id"], row["p"]) for row in rows) == [(i, "x") for i in range(NUM_FILES)]


@pytest.mark.parametrize("reader", sorted(READERS))
@pytest.mark.parametrize("schema", [ABSENT, None])
def test_others_read_from_our_checkpoint(tmp_path: Path, reader: str, schema: Any) -> None:
    make_schemaless(tmp_path, schema, (), later=True)
    count, problem = try_count(reader, tmp_path)
    assert count is None
    assert "schemaString" in problem
    open_table(tmp_path).checkpoint()
    assert try_count(reader, tmp_path) == (NUM_FILES, "")


@pytest.mark.parametrize("reader", sorted(READERS))
@pytest.mark.parametrize("content", [b"", b"\n"])
@pytest.mark.parametrize("version", [2, 3])
def test_others_read_on_after_an_empty_commit(
    tmp_path: Path, reader: str, content: bytes, version: int
) -> None:
    make_schemaless(tmp_path, "", (), later=True)
    empty_commit(tmp_path, version, content)
    assert try_count(reader, tmp_path) == (rows_left(version), "")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(("version", "content"), [(2, b""), (3, b"\n")])
def test_spark_reads_on_after_an_empty_commit(
    delta_spark: SparkSession, tmp_path: Path, content: bytes, version: int
) -> None:
    make_schemaless(tmp_path, "", (), later=True)
    empty_commit(tmp_path, version, content)
    assert count_with_spark(delta_spark, tmp_path) == rows_left(version)
    delta_spark.sql(f"VACUUM delta.`{tmp_path}` RETAIN 0 HOURS")
    assert len(list(tmp_path.glob("f0*.parquet"))) == rows_left(version)


def rows_left(version: int) -> int:
    return NUM_FILES - 1 if version == 2 else 1


def empty_commit(path: Path, version: int, content: bytes) -> None:
    (path / "_delta_log" / f"{version:020}.json").write_bytes(content)
