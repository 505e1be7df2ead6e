"""Tables of the benchmarks have the form of what delta-rs and Delta on Spark write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks.log_tables import write_checkpoint_table, write_json_table
from benchmarks.shapes import WIDE_COLUMNS, Shape, type_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = {
    "long": 1,
    "double": 1.5,
    "string": "a",
    "decimal(12,2)": 1.25,
    "date": "2024-01-01",
    "timestamp": "2024-01-01T00:00:00.000Z",
}


def read_outline(table: Path) -> list[Any]:
    """Members and types of version 1; a file has no bounds of a column of nulls."""
    text = (table / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    info, *adds = map(json.loads, text)
    members, stats = set(), set()
    for line in adds:
        add = line["add"]
        members.add(tuple(name for name in add if name not in {"tags", "deletionVector"}))
        stats |= set(leaves(json.loads(add["stats"])))
    return [sorted(leaves(info)), members, sorted(stats)]


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if not isinstance(node, dict):
        yield path, type(node).__name__
        return
    for name, each in node.items():
        yield from leaves(each, f"{path}.{name}")


def test_commits_of_delta_rs(tmp_path: Path) -> None:
    day = pa.array([1], pa.date32())
    time = pa.array([1], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1], "ts": time, "name": ["a"], "value": [1.5], "date": day})
    for _ in range(2):
        write_deltalake(tmp_path / "real", rows, mode="append", partition_by=["date"])
    write_json_table(tmp_path / "ours", 2, 2, shape=Shape.DELTA_RS)
    assert read_outline(tmp_path / "ours") == read_outline(tmp_path / "real")
    assert DeltaTable(tmp_path / "ours").get_add_actions().num_rows == 4


def sample(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: sample(each) for name, each in kind.items()}
    return VALUES[kind]


def parsed_leaves(table: Path) -> set[tuple[str, str]]:
    checkpoint = max((table / "_delta_log").glob("*.checkpoint.parquet"))
    columns = list(pq.ParquetFile(checkpoint).schema)
    return {(c.path, c.physical_type) for c in columns if "_parsed." in c.path}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_commits_and_checkpoints_of_spark(delta_spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    kind = StructType.fromJson(type_of(WIDE_COLUMNS)).simpleString()
    text = json.dumps(sample(WIDE_COLUMNS))
    row = delta_spark.range(1).selectExpr(f"from_json('{text}', '{kind}') AS r").select("r.*")
    real = tmp_path / "real"
    for _ in range(2):
        writer = row.write.format("delta").mode("append").partitionBy("date")
        writer.option("delta.enableDeletionVectors", "true")
        writer.option("delta.checkpointInterval", "1").save(str(real))
    write_json_table(tmp_path / "ours", 2, 100, shape=Shape.SPARK)
    assert read_outline(tmp_path / "ours") == read_outline(real)
    write_checkpoint_table(tmp_path / "checkpoint", 2, shape=Shape.SPARK)
    assert parsed_leaves(tmp_path / "checkpoint") == parsed_leaves(real)
