"""After an alter, old readers and Delta on Spark open the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import Table
from deltactl.storage.local.store import LocalStore
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.delta_spark import SHARED_SESSION
from tests.support.table_builder import Column, TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DROPPED = ("deletionVectors", "rowTracking", "typeWidening", "v2Checkpoint")
ALSO = (
    "checkConstraints", "columnMapping", "domainMetadata", "inCommitTimestamp",
    "materializePartitionColumns", "vacuumProtocolCheck",
)  # fmt: skip
ROWS = [{"id": 2}, {"id": 3}, {"id": 4}]


def build(path: Path, *features: str, **properties: str) -> Table:
    """A table of three rows, one of them deleted."""
    properties = {f"delta.{key}": value for key, value in properties.items()}
    names = ["appendOnly", "invariants", *features]
    store = LocalStore(str(path))
    columns = [Column("id", "integer" if "typeWidening" in features else "long")]
    builder = TableBuilder(store, columns, features=names, properties=properties)
    first, _ = builder.append([{"id": 1}, {"id": 2}], [{"id": 3}, {"id": 4}])
    if "typeWidening" in features:
        change = {"fromType": "integer", "toType": "long"}
        builder.change_metadata(columns=[Column("id", metadata={"delta.typeChanges": [change]})])
    if "deletionVectors" in features:
        builder.delete_rows(first, [0])
    else:
        builder.remove(first)
        builder.append([{"id": 2}])
    if "v2Checkpoint" in features:
        builder.checkpoint(builder.version, "v2-json")
        builder.hint(builder.version)
    return Table(str(path))


def drop(path: Path, name: str) -> Table:
    properties = {
        "deletionVectors": {"enableDeletionVectors": "true"},
        "typeWidening": {"enableTypeWidening": "true"},
        "v2Checkpoint": {"checkpointPolicy": "v2"},
    }
    table = build(path, name, **properties.get(name, {}))
    table.alter(drop_feature=name)
    return table


def by_id(rows: Any) -> list[dict[str, Any]]:
    return sorted(({"id": row["id"]} for row in rows), key=lambda row: row["id"])


@pytest.mark.parametrize(
    "name", [*DROPPED, *(pytest.param(name, marks=pytest.mark.slow) for name in ALSO)]
)
def test_old_readers_read_a_table_without_the_feature(tmp_path: Path, name: str) -> None:
    table = drop(tmp_path / "t", name)
    assert table.snapshot().protocol.min_reader_version == 1
    assert by_id(rows_with_duckdb(tmp_path / "t")) == ROWS
    assert by_id(rows_with_delta_rs(tmp_path / "t")) == ROWS
    assert table.check().is_sound


class TestWithSpark:
    pytestmark = SHARED_SESSION

    @pytest.mark.parametrize(
        "name",
        [
            "deletionVectors",
            pytest.param("rowTracking", marks=pytest.mark.slow),
            pytest.param("typeWidening", marks=pytest.mark.slow),
        ],
    )
    def test_spark_goes_on_from_a_dropped_feature(
        self, delta_spark: SparkSession, tmp_path: Path, name: str
    ) -> None:
        drop(tmp_path / "t", name)
        where = f"delta.`{tmp_path / 't'}`"
        delta_spark.sql(f"INSERT INTO {where} VALUES (9)")
        assert by_id(delta_spark.table(where).collect()) == [*ROWS, {"id": 9}]
        with pytest.raises(Exception, match="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"):
            delta_spark.sql(f"ALTER TABLE {where} DROP FEATURE {name}")
        assert Table(str(tmp_path / "t")).check().is_sound

    def test_spark_uses_what_was_turned_on(self, delta_spark: SparkSession, tmp_path: Path) -> None:
        table = build(tmp_path / "t")
        keys = ("enableRowTracking", "enableInCommitTimestamps", "enableDeletionVectors")
        table.alter(
            properties={
                **{f"delta.{key}": "true" for key in keys},
                "delta.columnMapping.mode": "name",
                "delta.checkpointPolicy": "v2",
                "delta.logRetentionDuration": "60d",
            }
        )
        where = f"delta.`{tmp_path / 't'}`"
        ids = delta_spark.sql(f"SELECT _metadata.row_id FROM {where}").collect()
        assert len({row.row_id for row in ids}) == 3
        delta_spark.sql(f"ALTER TABLE {where} RENAME COLUMN id TO `the id`")
        delta_spark.sql(f"DELETE FROM {where} WHERE `the id` = 2")
        rows = delta_spark.sql(f"SELECT `the id` AS id FROM {where}").collect()
        assert by_id(rows) == [{"id": 3}, {"id": 4}]
        assert table.check().is_sound
