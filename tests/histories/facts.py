"""What other engines say of a table besides its rows; none of it may change by our steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tests.support.spark_matrix import table_name

if TYPE_CHECKING:
    from pathlib import Path

    from deltalake.table import ProtocolVersions
    from pyspark.sql import SparkSession

APPLICATIONS: Final = ("app", 'ä"pp')
"""The applications that append with a number of a transaction, so that none is done twice."""


def facts_by_delta_rs(path: Path) -> tuple[str, ...]:
    """Protocol, metadata and transactions."""
    from deltalake import DeltaTable

    table = DeltaTable(str(path))
    metadata = table.metadata()
    return (
        *_describe_protocol(table.protocol()),
        json.dumps(json.loads(table.schema().to_json()), sort_keys=True),
        str(sorted(metadata.configuration.items())),
        f"{metadata.id} {metadata.name} {metadata.partition_columns} {metadata.created_time}",
        *(f"{name}: {table.transaction_version(name)}" for name in APPLICATIONS),
    )


def _describe_protocol(protocol: ProtocolVersions) -> tuple[str, ...]:
    """Versions and features; delta-rs lists the features in an order of its own each time."""
    features = (protocol.reader_features or [], protocol.writer_features or [])
    versions = f"{protocol.min_reader_version} {protocol.min_writer_version}"
    return (versions, *(str(sorted(names)) for names in features))


def facts_by_spark(spark: SparkSession, path: Path) -> tuple[str, ...]:
    """Properties, those of the protocol among them."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {table_name(path)}").collect()
    return tuple(sorted(f"{row.key} = {row.value}" for row in rows))


def count_changes(
    path: Path, first: int, last: int, spark: SparkSession | None
) -> Iterator[tuple[str, int]]:
    """The rows of the change data feed of these versions, by reader; raises what readers raise."""
    if spark is not None:
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        feed = feed.option("startingVersion", first).option("endingVersion", last)
        yield "Spark", feed.load(str(path)).count()
    yield "delta-rs", _count_changes_by_delta_rs(path, first, last)


def _count_changes_by_delta_rs(path: Path, first: int, last: int) -> int:
    from deltalake import DeltaTable

    feed: Any = DeltaTable(str(path)).load_cdf(starting_version=first, ending_version=last)
    return int(pa.table(feed.read_all()).num_rows)
