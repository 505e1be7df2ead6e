"""Tables by their names in AWS Glue: moto has the catalog and the tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from botocore.session import Session
from botocore.stub import Stubber

from deltactl import Table
from deltactl.catalog.glue import GlueCatalog, connect
from deltactl.catalog.names import parse_name
from deltactl.catalog.open import list_tables, locate
from deltactl.errors import (
    AccessDeniedError,
    DeltactlError,
    NotATableError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    UsageError,
)
from tests.cli.conftest import RunCli
from tests.support.object_servers import S3_ENVIRON, ObjectServer
from tests.support.object_store_fixtures import choose_servers

NAME = "glue://sales.orders"
SYMLINK = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
SPARK = {"spark.sql.sources.provider": "delta"}
COLUMNS = [{"Name": "id", "Type": "bigint"}]

pytestmark = pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)


class Glue:
    """The catalog of a server; its databases are removed at the end."""

    def __init__(self, endpoint: str) -> None:
        self.client = Session().create_client(
            "glue",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=S3_ENVIRON["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=S3_ENVIRON["AWS_SECRET_ACCESS_KEY"],
        )
        self.databases: set[str] = set()

    def add(
        self,
        name: str,
        *,
        path: str = "",
        location: str = "",
        reader: str = "",
        parameters: dict[str, str] | None = None,
        **further: Any,
    ) -> None:
        """Add a table; its database too, if need be."""
        database, table = name.split(".")
        if database not in self.databases:
            self.client.create_database(DatabaseInput={"Name": database})
            self.databases.add(database)
        storage = {
            "Columns": COLUMNS,
            "Location": location,
            "InputFormat": reader,
            "SerdeInfo": {"Parameters": {"path": path} if path else {}},
        }
        described = {
            "Name": table,
            "TableType": "EXTERNAL_TABLE",
            "StorageDescriptor": storage,
            "Parameters": parameters or {},
            "Owner": "alice",
            **further,
        }
        self.client.create_table(DatabaseName=database, TableInput=described)

    def clear(self) -> None:
        for database in self.databases:
            self.client.delete_database(Name=database)


@pytest.fixture
def glue(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    for key, value in S3_ENVIRON.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    found = Glue(server.endpoint)
    yield found
    found.clear()


def entry(name: str) -> Any:
    found = locate(name, {}, read_only=True)
    assert found.entry is not None
    return found.entry


def write(server: ObjectServer, folder: str) -> str:
    place = f"{server.bucket}/{folder}"
    options = {"AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}
    for number in range(3):
        rows = pa.table({"id": [number]})
        deltalake.write_deltalake(place, rows, mode="append", storage_options=options)
    return place


def test_the_tables_of_each_writer(glue: Glue) -> None:
    lie = "s3://lake/sales/orders-__PLACEHOLDER__"
    crawler = {**SPARK, "table_type": "DELTA", "classification": "delta"}
    athena = {"table_type": "DELTA"}
    glue.add(
        "sales.managed", path="s3a://lake/a", parameters={"spark.sql.sources.provider": "DELTA"}
    )
    glue.add("sales.external", path="s3://lake/b", location=lie, parameters=SPARK)
    glue.add("sales.crawler", path="s3://lake/c", location="s3://lake/c/", parameters=crawler)
    glue.add("sales.athena", location="s3://lake/d", parameters=athena)
    place = "s3://lake/e/_symlink_format_manifest"
    keys = [{"Name": "day", "Type": "date"}]
    glue.add("sales.symlink", location=place + "/", reader=SYMLINK, PartitionKeys=keys)
    expected = {"managed": "s3a://lake/a", "external": "s3://lake/b", "crawler": "s3://lake/c",
                "athena": "s3://lake/d", "symlink": "s3://lake/e"}  # fmt: skip
    for name, location in expected.items():
        assert entry(f"glue://sales.{name}").location.rstrip("/") == location
    symlink = entry("glue://SALES.Symlink")
    assert (symlink.columns, symlink.is_symlink) == ((("id", "bigint"), ("day", "date")), True)
    assert (symlink.catalog, symlink.owner) == ("AWS Glue us-east-1", "alice")


def test_what_is_no_delta_table(glue: Glue, server: ObjectServer, cli: RunCli) -> None:
    glue.add("sales.pq", location="s3://lake/pq", reader=PARQUET)
    glue.add("sales.ice", location="s3://lake/i", parameters={"table_type": "ICEBERG"})
    glue.add("sales.lost", location="s3://lake/x-__PLACEHOLDER__", parameters=SPARK)
    glue.client.create_table(
        DatabaseName="sales", TableInput={"Name": "seen", "TableType": "VIRTUAL_VIEW"}
    )
    for name, reason in (("pq", "MAPREDPARQUET"), ("ice", "ICEBERG"), ("seen", "VIRTUAL_VIEW"),
                         ("lost", "placeholder")):  # fmt: skip
        with pytest.raises(UnsupportedFeatureError, match=reason):
            locate(f"glue://sales.{name}", {}, read_only=True)
    glue.add("sales.a", location=write(server, "glue-a"), parameters=SPARK)
    glue.add("stock.b", location=write(server, "glue-b"), parameters=SPARK)
    ran = cli("optimize", "glue://s*.*", "-v", "-o", "json")
    assert ran.code == 7, ran.err
    assert "3 tables left out" in ran.err
    assert "glue://sales.seen is left out" in ran.err
    runs = {run["table"]: run["exit_code"] for run in json.loads(ran.out)["runs"]}
    assert runs == {"glue://sales.a": 0, "glue://sales.lost": 7, "glue://stock.b": 0}
    assert S3_ENVIRON["AWS_SECRET_ACCESS_KEY"] not in ran.out + ran.err


def test_commands_and_the_library(glue: Glue, server: ObjectServer, cli: RunCli) -> None:
    glue.add("sales.orders", location=write(server, "glue-orders"), parameters=SPARK)
    shown = cli("describe-detail", NAME, "-o", "json")
    assert json.loads(shown.out)["result"]["catalog"]["name"] == NAME
    # Nobody expects credentials from Glue.
    assert "credentials" not in shown.err
    assert cli("optimize", NAME).code == 0
    assert cli("check", NAME).code == 0
    assert cli("optimize", "glue://sales.order").code == 1
    assert Table("glue://123456789012/sales.orders").snapshot().version == 3
    ran = cli("maintain", "glue://sales.*", "glue://123456789012/sales.orders", "--dry-run")
    assert ran.code == 0, ran.err


def test_errors(glue: Glue) -> None:
    glue.add("sales.orders", location="s3://lake/o", parameters=SPARK)
    with pytest.raises(NotATableError, match="Did you mean glue://sales.orders?"):
        locate("glue://sales.ordrs", {}, read_only=True)
    with pytest.raises(NotATableError):
        locate("glue://gone.orders", {}, read_only=True)
    assert list(list_tables("glue://gone.*", {})) == []
    assert [each.name for each in list_tables("glue://SAL*.ORD*", {})] == [NAME]


def test_settings(server: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    far = {"aws_endpoint_url_glue": "http://glue.example", "region": "eu-west-1"}
    with pytest.raises(SafetyError, match="glue.example"):
        locate(NAME, far, read_only=True)
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError, match="region"):
        locate(NAME, {}, read_only=True)
    with pytest.raises(StorageError, match="nobody"):
        locate(NAME, {"profile": "nobody"}, read_only=True)
    file = tmp_path / "config"
    file.write_text(
        "[profile far]\nregion = eu-north-1\nservices = mine\n"
        f"[services mine]\nglue =\n  endpoint_url = {server.endpoint}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    found = connect("", {"profile": "far"})
    assert found._client.meta.endpoint_url == server.endpoint
    options = {"profile": "far", "key": "tester", "secret": "planted-secret"}
    with pytest.raises(NotATableError) as raised:
        locate(NAME, options, read_only=True)
    assert "AWS Glue eu-north-1 has no table" in raised.value.message


@pytest.fixture
def stub() -> Iterator[tuple[GlueCatalog, Stubber]]:
    client = Glue("http://127.0.0.1:1").client
    with Stubber(client) as stubber:
        yield GlueCatalog(client, "123456789012"), stubber


def test_a_page_has_a_hundred_tables(
    server: ObjectServer, stub: tuple[GlueCatalog, Stubber]
) -> None:
    catalog, answers = stub
    account = {"CatalogId": "123456789012"}
    for number in range(3):
        asked = {**account, "DatabaseName": "sales", "MaxResults": 100}
        asked |= {"NextToken": str(number)} if number else {}
        page: dict[str, Any] = {"TableList": [{"Name": f"t{number}{n:02}"} for n in range(100)]}
        page |= {"NextToken": str(number + 1)} if number < 2 else {}
        answers.add_response("get_tables", page, asked)
    found = list(catalog.list(parse_name("glue://123456789012/sales.*")))
    assert len(found) == 300
    assert found[0].name == "glue://123456789012/sales.t000"
    answers.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "kind", "help"),
    [
        ("AccessDeniedException", AccessDeniedError, "glue:GetTable"),
        ("ExpiredTokenException", AccessDeniedError, "AWS_SESSION_TOKEN"),
        ("ThrottlingException", StorageError, "Rerun later"),
    ],
)
def test_refusals(
    server: ObjectServer,
    stub: tuple[GlueCatalog, Stubber],
    code: str,
    kind: type[DeltactlError],
    help: str,  # noqa: A002
) -> None:
    catalog, answers = stub
    answers.add_client_error("get_table", code, "no", 400)
    with pytest.raises(kind) as raised:
        catalog.resolve(parse_name(NAME))
    assert help in str(raised.value.hint)
    assert isinstance(raised.value.__cause__, ClientError)
