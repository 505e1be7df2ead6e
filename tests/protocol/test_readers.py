"""The claims about engines, compared with what delta-rs and DuckDB really read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import duckdb
import pyarrow as pa
import pytest

from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.features import REGISTRY
from deltactl.protocol.readers import ENGINES, judge_readers
from deltactl.table import Table
from tests.support.delta_spark import SHARED_SESSION
from tests.support.duckdb_delta import connect_duckdb
from tests.support.table_builder import Column, TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READERS = ("delta-rs", "delta-rs datasets", "DuckDB")
READER_FEATURES = [name for name, row in REGISTRY.items() if row.reader]


def answers(table: Table) -> dict[str, tuple[str, tuple[str, ...]]]:
    verdicts = table.detail(readers=True).readers or ()
    return {it.engine: (it.answer, it.reasons) for it in verdicts}


def write_table(
    path: Path, protocol: dict[str, object], *fields: dict[str, object], **configuration: str
) -> Table:
    """A table of one row with these facts, and further columns."""
    deltalake.write_deltalake(path, pa.table({"id": [1]}))
    commit = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = protocol
        if "metaData" in action:
            action["metaData"]["configuration"] = configuration
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"] += fields
            action["metaData"]["schemaString"] = json.dumps(schema)
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return Table(path, warn=lambda _: None)


def featured(*names: str) -> dict[str, object]:
    listed = list(names)
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {**versions, "readerFeatures": listed, "writerFeatures": listed}


def test_delta_rs_and_duckdb_read_what_is_claimed(tmp_path: Path) -> None:
    connection = connect_duckdb()
    claimed, real = {}, {}
    for name in READER_FEATURES:
        path = tmp_path / name
        found = answers(write_table(path, featured(name)))
        claimed[name] = {engine: found[engine][0] for engine in READERS}
        real[name] = {
            "delta-rs": "yes" if reads_delta_rs(path) else "no",
            "delta-rs datasets": "yes" if reads_dataset(path) else "no",
            "DuckDB": "yes" if reads_duckdb(connection, path) else "no",
        }
    assert claimed == real


class TestWithSpark:
    pytestmark = [*SHARED_SESSION, pytest.mark.slow]

    def test_spark_reads_what_is_claimed(self, delta_spark: SparkSession, tmp_path: Path) -> None:
        claimed, real = {}, {}
        for name in READER_FEATURES:
            path = tmp_path / name
            answer, _ = answers(write_table(path, featured(name)))["Delta on Spark 4.x"]
            if answer != "unknown":
                claimed[name] = answer
                real[name] = "yes" if reads_spark(delta_spark, path) else "no"
        assert claimed == real
        # These need more than the feature.
        assert {*READER_FEATURES} - claimed.keys() == {
            "adaptiveMetadata-preview",
            "catalogManaged",
            "geospatial",
            "geospatial-dev",
            "variantShredding",
        }


def reads_spark(spark: SparkSession, path: Path) -> bool:
    try:
        return spark.sql(f"SELECT id FROM delta.`{path}`").count() == 1
    except Exception:
        return False


def reads_dataset(path: Path) -> bool:
    try:
        return bool(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist() == [1])
    except Exception:
        return False


def reads_delta_rs(path: Path) -> bool:
    try:
        table = deltalake.DeltaTable(path)
        rows = deltalake.QueryBuilder().register("t", table).execute("SELECT id FROM t").read_all()
    except Exception:
        return False
    return rows.num_rows == 1


def reads_duckdb(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    try:
        return len(connection.sql(f"SELECT id FROM delta_scan('{path}')").fetchall()) == 1
    except duckdb.Error:
        return False


def test_a_table_without_features_is_for_all_but_iceberg_clients(tmp_path: Path) -> None:
    found = answers(write_table(tmp_path, {"minReaderVersion": 1, "minWriterVersion": 2}))
    reason = ("no", ("the table has no Iceberg metadata",))
    assert found == {it.name: ("yes", ()) for it in ENGINES} | {"Iceberg clients": reason}


def test_what_stops_an_engine_is_named(tmp_path: Path) -> None:
    names = ("columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck")
    found = answers(
        write_table(tmp_path, featured(*names, "novel"), **{"delta.columnMapping.mode": "id"})
    )
    assert found["Fabric"] == ("no", ("timestampNtz", "columnMapping by id"))
    assert found["Flink"] == ("no", tuple(sorted((*names, "novel"))))
    assert found["Trino"] == ("no", ("novel",))
    assert found["Athena"] == ("unknown", ("deletionVectors", "novel", "vacuumProtocolCheck"))
    assert found["delta-rs"] == ("no", ("novel", "vacuumProtocolCheck"))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_partition_column_after_a_mapped_column_is_null_in_duckdb(
    tmp_path: Path, mode: str
) -> None:
    reason = ("columnMapping of the data column before a partition column",)
    for names, value, answer in (
        (("id", "p"), None, ("no", reason)),
        (("p", "id"), "a", ("yes", ())),
    ):
        path = tmp_path / "-".join(names)
        columns = [Column(name, "string" if name == "p" else "long") for name in names]
        builder = TableBuilder(path, columns, partition_by=["p"], mapping=mode)
        builder.append([{"id": 1, "p": "a"}])
        rows = connect_duckdb().sql(f"SELECT p FROM delta_scan('{path}')").fetchall()
        assert rows == [(value,)]
        assert answers(Table(path))["DuckDB"] == answer


def test_datasets_of_delta_rs_lose_renamed_columns(tmp_path: Path) -> None:
    """They refuse column mapping only if it is listed as a reader feature."""
    deltalake.write_deltalake(tmp_path, pa.table({"amount": [1]}))
    Table(tmp_path).alter(properties={"delta.columnMapping.mode": "name"})
    log = tmp_path / "_delta_log"
    commit = sorted(log.glob("*.json"))[-1]
    (renamed,) = (
        line.replace('\\"name\\":\\"amount\\"', '\\"name\\":\\"id\\"')
        for line in commit.read_text().splitlines()
        if line.startswith('{"metaData"')
    )
    (log / f"{int(commit.stem) + 1:020d}.json").write_text(f"{renamed}\n")
    assert Table(tmp_path).snapshot().protocol.min_reader_version == 2
    assert not reads_dataset(tmp_path)
    assert reads_delta_rs(tmp_path)
    found = answers(Table(tmp_path))
    assert found["delta-rs datasets"] == ("no", ("columnMapping",))
    assert found["delta-rs"] == ("yes", ())


def test_what_duckdb_misreads_is_named(tmp_path: Path) -> None:
    read = connect_duckdb().sql
    field: dict[str, object] = {"name": "v", "type": "void", "nullable": True, "metadata": {}}
    table = write_table(tmp_path / "v", {"minReaderVersion": 1, "minWriterVersion": 2}, field)
    found = answers(table)["DuckDB"]
    assert found == ("no", ("columns of type void",))
    with pytest.raises(duckdb.Error):
        read(f"SELECT id FROM delta_scan('{tmp_path / 'v'}')")


@pytest.mark.parametrize("version", [2, 3])
def test_column_mapping_of_an_old_reader_version_counts(version: int) -> None:
    features = frozenset({"columnMapping"}) if version == 3 else None
    metadata = Metadata("id", None, (), {"delta.universalFormat.enabledFormats": "iceberg"})
    protocol = Protocol(version, 7, features, frozenset({"columnMapping"}))
    found = {it.engine: it.answer for it in judge_readers(protocol, metadata)}
    assert (found["Flink"], found["BigQuery"], found["Iceberg clients"]) == ("no", "yes", "yes")


def test_each_fact_is_about_a_known_feature_and_has_a_source() -> None:
    for engine in ENGINES:
        assert engine.reads | engine.refuses <= {*READER_FEATURES}, engine.name
        assert engine.source
