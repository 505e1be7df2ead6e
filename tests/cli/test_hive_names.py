"""Tables by their names in a Hive metastore, as Spark puts them there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltactl import Table
from deltactl.catalog.base import TableAddress
from deltactl.catalog.open import list_tables, locate
from deltactl.catalog.thrift import call
from deltactl.errors import (
    DeltactlError,
    NotATableError,
    StorageError,
    UnsupportedFeatureError,
    UsageError,
)
from tests.cli.conftest import RunCli
from tests.support.hive_metastore import HiveSpark, hive_metastore
from tests.support.unity_stub import unity_stub

# Two processes of Java take 40 seconds to start: `make explore-spark` runs these tests.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("hive")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hive")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with hive_metastore(folder) as running:
        yield running


@pytest.fixture(scope="module")
def spark(folder: Path, address: str) -> Iterator[HiveSpark]:
    running = HiveSpark(folder, address)
    for number in (1, 2):
        rows = pa.table({"id": [number], "day": ["a"]})
        deltalake.write_deltalake(folder / "external", rows, partition_by=["day"], mode="append")
    running.sql(
        "CREATE DATABASE sales",
        "CREATE TABLE sales.managed USING delta AS SELECT id, 'a' AS day FROM range(2)",
        f"CREATE TABLE sales.external USING delta LOCATION '{folder}/external'",
        "CREATE TABLE sales.pq USING parquet AS SELECT 1L AS id",
        "CREATE VIEW sales.seen AS SELECT 1L AS id",
    )
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def settings(folder: Path, spark: HiveSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_CONF_DIR", str(folder))


def entry(name: str) -> TableAddress:
    found = locate(name, {}, read_only=True)
    assert found.entry is not None
    return found.entry


def test_tables_of_spark(folder: Path, address: str) -> None:
    external = entry("hive://Sales.EXTERNAL")
    assert external.location.replace("file://", "file:") == f"file:{folder}/external"
    assert (external.table_type, external.catalog) == (
        "EXTERNAL_TABLE", f"Hive metastore at {address}",
    )  # fmt: skip
    managed = entry(f"hive://{address}/sales.managed")
    assert managed.table_type == "MANAGED_TABLE"
    assert Table("hive://sales.managed").scan().read_all().num_rows == 2


@pytest.mark.parametrize("words", [("describe-detail",), ("check",), ("optimize", "--dry-run")])
def test_a_name_costs_three_calls_at_most(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    called: list[str] = []

    def count(address: tuple[str, int], method: str, *arguments: Any) -> Any:
        called.append(method)
        return call(address, method, *arguments)

    monkeypatch.setattr("deltactl.catalog.hive.call", count)
    assert cli(*words, "hive://sales.external").code == 0
    assert 1 <= len(called) <= 3


def test_commands(cli: RunCli) -> None:
    ran = cli("optimize", "hive://sales.*", "-v", "-o", "json")
    assert ran.code == 0, ran.err
    assert [run["table"] for run in ran.document["runs"]] == [
        "hive://sales.external", "hive://sales.managed",
    ]  # fmt: skip
    assert "2 tables left out" in ran.err
    assert "hive://sales.seen is left out" in ran.err
    assert "credentials" not in ran.err
    assert cli("check", "hive://*.ext*").code == 0
    assert cli("maintain", "hive://sales.external", "--dry-run").code == 0


def test_spark_reads_what_was_optimized(cli: RunCli, spark: HiveSpark) -> None:
    assert cli("optimize", "hive://sales.external").code == 0
    assert spark.sql("SELECT id FROM sales.external ORDER BY id") == [["1"], ["2"]]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    rows = pa.table({"Id": [1, 2, 3], "day": ["2026-01-01", "a b", None]})
    deltalake.write_deltalake(tmp_path / "orders", rows, partition_by=["day"], description="Mine")
    return tmp_path / "orders"


def append(orders: Path, rows: pa.Table) -> None:
    deltalake.write_deltalake(orders, rows, mode="append", schema_mode="merge")


def test_spark_reads_what_was_registered(cli: RunCli, spark: HiveSpark, orders: Path) -> None:
    words = ("register", str(orders), "hive://sales.registered")
    ran = cli(*words)
    assert ran.code == 0, ran.err
    query = "SELECT Id, day FROM sales.registered ORDER BY Id"
    assert spark.sql(query) == [["1", "2026-01-01"], ["2", "a b"], ["3", "None"]]
    assert spark.sql("INSERT INTO sales.registered VALUES (4L, 'c')") == []
    assert Table(str(orders)).scan().read_all().num_rows == 4
    assert cli(*words, "--check").code == 0
    append(orders, pa.table({"Id": [5], "day": ["c"], "more": [0.5]}))
    assert cli(*words, "--check").code == 3
    assert cli(*words).code == 6
    assert cli(*words, "--sync").code == 0
    assert cli(*words, "--check").code == 0
    columns = spark.sql("SELECT * FROM sales.registered WHERE Id = 5")
    assert columns == [["5", "c", "0.5"]]
    entry_now = entry("hive://sales.registered")
    assert [column[:2] for column in entry_now.columns] == [
        ("id", "bigint"), ("day", "string"), ("more", "double"),
    ]  # fmt: skip
    assert entry_now.comment == "Mine"
    assert cli("check", "hive://sales.registered").code == 0


def test_spark_finds_registered_partitions(cli: RunCli, spark: HiveSpark, orders: Path) -> None:
    """It does not read manifests of Parquet files: its symlink tables are text."""
    words = ("register", str(orders), "hive://sales.listed", "--manifest")
    assert cli(*words).code == 6
    assert cli("generate-manifest", str(orders)).code == 0
    ran = cli(*words)
    assert ran.code == 0, ran.err
    query = "SHOW PARTITIONS sales.listed"
    null = ["day=__HIVE_DEFAULT_PARTITION__"]
    assert spark.sql(query) == [["day=2026-01-01"], null, ["day=a b"]]
    assert cli(*words, "--check").code == 0
    deltalake.DeltaTable(orders).delete("day = 'a b'")
    append(orders, pa.table({"Id": [4], "day": ["c"]}))
    assert cli("generate-manifest", str(orders)).code == 0
    assert cli(*words, "--check").code == 3
    assert cli(*words, "--sync").code == 0
    assert spark.sql(query) == [["day=2026-01-01"], null, ["day=c"]]
    described = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED sales.listed")}
    assert described["InputFormat"].endswith("SymlinkTextInputFormat")
    assert cli("optimize", "hive://sales.listed", "--dry-run").code == 0


def test_another_table_is_replaced_only_if_asked(
    cli: RunCli, spark: HiveSpark, orders: Path
) -> None:
    spark.sql("CREATE TABLE sales.taken USING parquet AS SELECT 1L AS other")
    words = ("register", str(orders), "hive://sales.taken")
    refused = cli(*words, "--sync")
    assert refused.code == 6
    assert "--replace" in refused.err
    assert entry_of_any("hive://sales.taken").table_format == "PARQUET"
    ran = cli(*words, "--replace")
    assert ran.code == 0, ran.err
    spark.sql("REFRESH TABLE sales.taken")
    assert spark.sql("SELECT count(*) FROM sales.taken") == [["3"]]


def test_a_partitioned_table_is_replaced_with_its_partitions(
    cli: RunCli, spark: HiveSpark, orders: Path, tmp_path: Path
) -> None:
    query = "SHOW PARTITIONS sales.fin"
    spark.sql(
        "CREATE TABLE sales.fin (id BIGINT) PARTITIONED BY (day STRING) STORED AS PARQUET",
        f"ALTER TABLE sales.fin ADD PARTITION (day='2020-01-01') LOCATION '{tmp_path}/old' "
        f"PARTITION (day='2026-01-01') LOCATION '{tmp_path}/same'",
    )
    words = ("register", str(orders), "hive://sales.fin", "--replace")
    # Hive does not change the keys, and keeps the partitions.
    for further in ([], ["--dry-run"], ["--check"]):
        ran = cli(*words, *further)
        assert ran.code == 7
        said = " ".join(ran.err.split())
        assert "its partition keys are day, not none, and a metastore never changes them" in said
        assert "Use another name: DROP TABLE may delete the files" in said
    assert spark.sql(query) == [["day=2020-01-01"], ["day=2026-01-01"]]
    assert cli("generate-manifest", str(orders)).code == 0
    ran = cli(*words, "--manifest", "-o", "json")
    assert ran.code == 0, ran.err
    result = ran.result
    assert (result["partitions_added"], result["partitions_removed"]) == (3, 2)
    spark.sql("REFRESH TABLE sales.fin")
    null = ["day=__HIVE_DEFAULT_PARTITION__"]
    assert spark.sql(query) == [["day=2026-01-01"], null, ["day=a b"]]
    assert cli(*words[:3], "--manifest", "--check").code == 0


def test_what_a_metastore_does_not_change_is_registered_anew(
    cli: RunCli, spark: HiveSpark, tmp_path: Path
) -> None:
    place = str(tmp_path / "typed")
    deltalake.write_deltalake(place, pa.table({"name": ["a"], "id": [1]}))
    words = ("register", place, "hive://sales.typed")
    assert cli(*words).code == 0
    # The first column is dropped.
    rows = pa.table({"id": [1]})
    deltalake.write_deltalake(place, rows, mode="overwrite", schema_mode="overwrite")
    ran = cli(*words, "--sync")
    assert ran.code == 8
    said = " ".join(ran.err.split())
    assert "If columns are not compatible by their positions, do not try again" in said
    assert "Drop the entry with DROP TABLE, which keeps the files of this external table." in said
    spark.sql("DROP TABLE sales.typed")
    assert cli(*words).code == 0
    assert cli(*words, "--check").code == 0


def test_a_long_comment_is_cut(cli: RunCli, spark: HiveSpark, tmp_path: Path) -> None:
    place = str(tmp_path / "described")
    column = pa.field("id", pa.int64(), metadata={"comment": "one\ntwo " + "x" * 5000})
    deltalake.write_deltalake(place, pa.table({"id": [1]}, schema=pa.schema([column])))
    words = ("register", place, "hive://sales.described")
    ran = cli(*words)
    assert ran.code == 0, ran.err
    [found] = entry("hive://sales.described").columns
    assert found.comment == "one two " + "x" * 248
    assert cli(*words, "--check").code == 0


def test_a_view_leaves_nothing(cli: RunCli, spark: HiveSpark, orders: Path) -> None:
    spark.sql("CREATE VIEW sales.looked AS SELECT 1L AS id")
    assert cli("register", str(orders), "hive://sales.looked", "--replace").code == 0
    found = entry("hive://sales.looked")
    assert not [key for key in found.properties if key.startswith("view.")]
    assert spark.sql("SELECT count(*) FROM sales.looked") == [["3"]]


def test_a_database_that_is_missing_is_named(cli: RunCli, orders: Path) -> None:
    for words in (["--dry-run"], []):
        ran = cli("register", str(orders), "hive://gone.t", *words)
        assert ran.code == 8
        assert "has no database 'gone'" in ran.err


def entry_of_any(name: str) -> TableAddress:
    [found] = list_tables(name, {})
    return found


def refusal(name: str, **options: str) -> DeltactlError:
    with pytest.raises(DeltactlError) as raised:
        locate(name, options, read_only=True)
    return raised.value


def test_errors(cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = refusal("hive://sales.manged")
    assert isinstance(error, NotATableError)
    assert "Did you mean hive://sales.managed?" in error.message
    assert isinstance(refusal("hive://gone.t"), NotATableError)
    assert list(list_tables("hive://gone.*", {})) == []
    for name, kind in (("seen", "VIRTUAL_VIEW"), ("pq", "PARQUET")):
        error = refusal(f"hive://sales.{name}")
        assert isinstance(error, UnsupportedFeatureError)
        assert kind in error.message
    assert cli("optimize", "hive://127.0.0.1:1/sales.managed").code == 8


def test_the_next_address_is_used(address: str) -> None:
    uris = {"catalog.hive.uris": f"thrift://127.0.0.1:1, thrift://{address}"}
    assert locate("hive://sales.managed", uris, read_only=True).uri


def test_hive_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    assert isinstance(refusal("hive://sales.managed"), UsageError)
    site = tmp_path / "hive-site.xml"
    site.write_text("<configuration><property>")
    assert isinstance(refusal("hive://sales.managed"), UsageError)
    template = "<property><name>{}</name><value>{}</value></property>"
    uris = template.format("hive.metastore.uris", "thrift://127.0.0.1:1")
    kerberos = template.format("hive.metastore.sasl.enabled", "true")
    site.write_text(f"<configuration>{uris}{kerberos}</configuration>")
    assert isinstance(refusal("hive://sales.managed"), UnsupportedFeatureError)
    # Another address than that of the file.
    assert entry(f"hive://{address}/sales.managed").is_delta
    for uri in ("https://x/y", "thrift://h:port", "thrift://"):
        assert isinstance(refusal("hive://sales.managed", **{"catalog.hive.uris": uri}), UsageError)


def test_another_service_at_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltactl.catalog.thrift._ANSWER_SECONDS", 0.2)
    with unity_stub() as stub:
        error = refusal(f"hive://{stub.address.removeprefix('http://')}/sales.managed")
    assert isinstance(error, StorageError)
    assert "port of a Hive metastore" in str(error.hint)
