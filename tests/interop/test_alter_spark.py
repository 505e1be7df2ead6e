"""After an alter, old readers and Delta on Spark open the table."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import Table
from deltactl.errors import SafetyError
from deltactl.storage.local.store import LocalStore
from tests.interop.judges import count_with_delta_rs, rows_with_delta_rs, rows_with_duckdb
from tests.support.delta_spark import SHARED_SESSION
from tests.support.table_builder import Column, TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DROPPED = ("columnMapping", "deletionVectors", "rowTracking", "typeWidening", "v2Checkpoint")
ALSO = (
    "checkConstraints", "domainMetadata", "inCommitTimestamp",
    "materializePartitionColumns", "vacuumProtocolCheck",
)  # fmt: skip
ROWS = [{"id": 2}, {"id": 3}, {"id": 4}]


def build(path: Path, *features: str, **properties: str) -> Table:
    """A table of three rows, one of them deleted."""
    properties = {f"delta.{key}": value for key, value in properties.items()}
    names = ["appendOnly", "invariants", *features]
    store = LocalStore(str(path))
    columns = [Column("id", "integer" if "typeWidening" in features else "long")]
    mapping = "name" if "columnMapping" in features else "none"
    builder = TableBuilder(store, columns, features=names, properties=properties, mapping=mapping)
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


def read_with_us(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Table(str(path)).scan().read_all().to_pylist()
    return rows


def list_operations(path: Path) -> list[str]:
    names = sorted((path / "_delta_log").glob("*.json"))
    return [
        json.loads(name.read_text().splitlines()[0])["commitInfo"]["operation"] for name in names
    ]


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
            pytest.param("columnMapping", marks=pytest.mark.slow),
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

    @pytest.mark.slow  # `make explore-spark` runs it
    def test_history_is_truncated_as_spark_does(
        self, delta_spark: SparkSession, tmp_path: Path
    ) -> None:
        drop(tmp_path / "ours", "vacuumProtocolCheck")
        shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
        ours, theirs = Table(str(tmp_path / "ours")), Table(str(tmp_path / "theirs"))
        statement = f"ALTER TABLE delta.`{tmp_path / 'theirs'}` DROP FEATURE checkpointProtection"
        with pytest.raises(Exception, match="CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"):
            delta_spark.sql(statement)
        with pytest.raises(Exception, match="PROTECTION_WAIT_FOR_RETENTION_PERIOD"):
            delta_spark.sql(f"{statement} TRUNCATE HISTORY")
        with pytest.raises(SafetyError, match="cannot be dropped"):
            ours.alter(drop_feature="checkpointProtection", truncate_history=True)
        for path in tmp_path.glob("*/_delta_log/*"):
            times = path.stat()
            os.utime(path, (times.st_atime, times.st_mtime - 25 * 3600))
        ours.alter(drop_feature="checkpointProtection", truncate_history=True)
        delta_spark.sql(f"{statement} TRUNCATE HISTORY")
        states = [table.snapshot() for table in (ours, theirs)]
        for about in states:
            assert about.metadata.configuration == {}
            assert (about.protocol.min_reader_version, about.protocol.min_writer_version) == (1, 2)
        # Spark keeps only what follows the checkpoint that its first try wrote.
        kept = [len(list_operations(tmp_path / name)) for name in ("ours", "theirs")]
        assert kept == [2, 3]
        rows = delta_spark.table(f"delta.`{tmp_path / 'ours'}`").collect()
        assert by_id(rows) == by_id(read_with_us(tmp_path / "theirs")) == ROWS

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "statements"),
        [
            (
                "columnMapping",
                [
                    "CREATE TABLE {} (id INT, b STRING, s STRUCT<x:INT,y:STRING>, p DATE) USING "
                    "DELTA PARTITIONED BY (p) TBLPROPERTIES('delta.columnMapping.mode'='name')",
                    "INSERT INTO {} VALUES "
                    "(1, 'x', named_struct('x', 1, 'y', 'a'), DATE'2024-01-31'), "
                    "(2, 'x', NULL, DATE'2024-01-31'), (3, 'y', NULL, NULL)",
                    "ALTER TABLE {} RENAME COLUMN id TO b2",
                    "ALTER TABLE {} DROP COLUMN b",
                    "ALTER TABLE {} RENAME COLUMN b2 TO b",
                    "ALTER TABLE {} RENAME COLUMN s.x TO z",
                    "DELETE FROM {} WHERE b = 1",
                ],
            ),
            (
                "typeWidening",
                [
                    "CREATE TABLE {} (a SMALLINT, b ARRAY<DECIMAL(5,2)>, c INT, d DATE, e FLOAT) "
                    "USING DELTA TBLPROPERTIES('delta.enableTypeWidening'='true', "
                    "'delta.feature.timestampNtz'='supported')",
                    "INSERT INTO {} VALUES (1, array(1.25), 7, DATE'2024-01-31', 1.5), "
                    "(NULL, array(NULL), NULL, NULL, NULL), (3, NULL, -7, DATE'1999-12-31', -0.1)",
                    "ALTER TABLE {} CHANGE COLUMN a TYPE BIGINT",
                    "ALTER TABLE {} CHANGE COLUMN b.element TYPE DECIMAL(12,4)",
                    "ALTER TABLE {} CHANGE COLUMN c TYPE DECIMAL(12,1)",
                    "ALTER TABLE {} CHANGE COLUMN d TYPE TIMESTAMP_NTZ",
                    "ALTER TABLE {} CHANGE COLUMN e TYPE DOUBLE",
                    "INSERT INTO {} VALUES (1099511627776, array(12345678.1234), 12345678901.5, "
                    "TIMESTAMP_NTZ'2024-01-31 01:02:03', 1e300)",
                    "DELETE FROM {} WHERE a = 3",
                ],
            ),
        ],
    )
    def test_files_are_rewritten_as_spark_does(
        self, delta_spark: SparkSession, tmp_path: Path, name: str, statements: list[str]
    ) -> None:
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        for path in (ours, theirs):
            for statement in statements:
                delta_spark.sql(statement.format(f"delta.`{path}`"))
        rows = sorted(map(str, delta_spark.table(f"delta.`{ours}`").collect()))
        by_us = sorted(map(str, read_with_us(ours)))
        Table(str(ours)).alter(drop_feature=name)
        delta_spark.sql(f"ALTER TABLE delta.`{theirs}` DROP FEATURE {name}")
        states = [Table(str(path)).snapshot() for path in (ours, theirs)]
        one, other = (state.metadata for state in states)
        assert one.schema == other.schema
        assert (one.configuration, states[0].protocol) == (other.configuration, states[1].protocol)
        operations = [list_operations(path) for path in (ours, theirs)]
        assert operations[0] == operations[1]
        assert sorted(map(str, delta_spark.table(f"delta.`{ours}`").collect())) == rows
        for read in (rows_with_duckdb, read_with_us):
            assert sorted(map(str, read(ours))) == by_us
        # Vectors stay: their feature is not dropped.
        assert count_with_delta_rs(ours) == len(rows)

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
