"""Tables by their names in AWS Glue: moto has the catalog and the tables."""

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
from deltactl.catalog.base import TableAddress
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
from deltactl.storage.open import open_store
from tests.cli.conftest import RunCli
from tests.support.fault_proxy import fault_proxy
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


OPTIONS = {"AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}


def append(place: str, rows: pa.Table, **further: Any) -> None:
    deltalake.write_deltalake(place, rows, mode="append", storage_options=OPTIONS, **further)


def write(server: ObjectServer, folder: str) -> str:
    place = f"{server.bucket}/{folder}"
    for number in range(3):
        append(place, pa.table({"id": [number]}))
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
    columns = [column[:2] for column in symlink.columns]
    assert (columns, symlink.is_symlink) == ([("id", "bigint"), ("day", "date")], True)
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
    glue.add("sales.nowhere", location="", parameters=SPARK)
    glue.add("sales.a", location=write(server, "glue-a"), parameters=SPARK)
    glue.add("stock.b", location=write(server, "glue-b"), parameters=SPARK)
    ran = cli("optimize", "glue://s*.*", "-v", "-o", "json")
    assert ran.code == 7, ran.err
    assert "3 tables left out" in ran.err
    assert "glue://sales.seen is left out" in ran.err
    runs = {run["table"]: run["exit_code"] for run in ran.document["runs"]}
    broken = {"glue://sales.lost": 7, "glue://sales.nowhere": 7}
    assert runs == {"glue://sales.a": 0, "glue://stock.b": 0, **broken}
    said = "the catalog does not say where glue://sales.nowhere is: it has no location"
    assert said in cli("optimize", "glue://sales.nowhere").err
    assert said in ran.out + ran.err
    assert S3_ENVIRON["AWS_SECRET_ACCESS_KEY"] not in ran.out + ran.err


def test_commands_and_the_library(glue: Glue, server: ObjectServer, cli: RunCli) -> None:
    glue.add("sales.orders", location=write(server, "glue-orders"), parameters=SPARK)
    shown = cli("describe-detail", NAME, "-o", "json")
    assert shown.result["catalog"]["name"] == NAME
    # Nobody expects credentials from Glue.
    assert "credentials" not in shown.err
    assert cli("optimize", NAME).code == 0
    assert cli("check", NAME).code == 0
    assert cli("optimize", "glue://sales.order").code == 1
    assert Table("glue://123456789012/sales.orders").snapshot().version == 3
    ran = cli("maintain", "glue://sales.*", "glue://123456789012/sales.orders", "--dry-run")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("words", [("describe-detail",), ("check",), ("optimize",)])
def test_a_name_costs_three_requests_at_most(
    glue: Glue,
    server: ObjectServer,
    cli: RunCli,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    glue.add("sales.orders", location=write(server, "glue-counted"), parameters=SPARK)
    with fault_proxy(server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", proxy.endpoint)
        assert cli(*words, NAME).code == 0
    assert 1 <= len(proxy.requests) <= 3


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


def test_partitions_are_listed_without_their_columns(
    server: ObjectServer, stub: tuple[GlueCatalog, Stubber]
) -> None:
    catalog, answers = stub
    asked = {
        "CatalogId": "123456789012", "DatabaseName": "sales", "TableName": "orders",
        "ExcludeColumnSchema": True, "MaxResults": 100,
    }  # fmt: skip
    answers.add_response(
        "get_partitions",
        {"Partitions": [{"Values": ["a"], "StorageDescriptor": {"Location": "s3://lake/a"}}]},
        asked,
    )
    wanted = TableAddress(NAME, "AWS Glue", None, "EXTERNAL_TABLE", "DELTA", "s3://lake")
    assert catalog.partitions(wanted) == {("a",): "s3://lake/a"}


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
        catalog.find(parse_name(NAME))
    assert help in str(raised.value.hint)
    assert isinstance(raised.value.__cause__, ClientError)


def create(server: ObjectServer, folder: str) -> str:
    """A partitioned table with comments; gives its address."""
    place = f"{server.bucket}/{folder}"
    rows = pa.table({"Id": [1, 2], "day": ["2026-01-01", "a b"]})
    append(place, rows, partition_by=["day"], description="All orders")
    return place


@pytest.fixture
def sales(glue: Glue) -> Glue:
    """A catalog whose database ``sales`` has another table."""
    glue.add("sales.other", location="s3://lake/other", parameters=SPARK)
    return glue


def stored(glue: Glue, table: str) -> dict[str, Any]:
    found: dict[str, Any] = glue.client.get_table(DatabaseName="sales", Name=table)["Table"]
    return found


def update(glue: Glue, table: str, **changes: Any) -> None:
    """Change an entry as other programs do."""
    found = stored(glue, table)
    given = {key: found[key] for key in ("Name", "TableType", "Parameters", "StorageDescriptor")}
    glue.client.update_table(DatabaseName="sales", TableInput={**given, **changes})


def findings(cli: RunCli, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("check", name, "-o", "json").result["findings"]
    return found


def partitions(glue: Glue, table: str) -> dict[str, str]:
    found = glue.client.get_partitions(DatabaseName="sales", TableName=table)["Partitions"]
    return {it["Values"][0]: it["StorageDescriptor"]["Location"] for it in found}


def test_register(sales: Glue, server: ObjectServer, cli: RunCli) -> None:
    place = create(server, "glue-register")
    name = "glue://sales.registered"
    assert cli("register", place, name, "--check").code == 3
    dry = cli("register", place.replace("s3:", "s3a:"), name, "--dry-run")
    assert dry.code == 0
    assert "would be created" in dry.out
    ran = cli("register", place.replace("s3:", "s3a:"), name, "-o", "json")
    assert ran.code == 0, ran.err
    found = stored(sales, "registered")
    storage = found["StorageDescriptor"]
    assert (storage["Location"], storage["SerdeInfo"]["Parameters"]["path"]) == (place, place)
    assert [(it["Name"], it["Type"]) for it in storage["Columns"]] == [
        ("id", "bigint"), ("day", "string"),
    ]  # fmt: skip
    marks = {"spark.sql.sources.provider": "delta", "table_type": "DELTA",
             "classification": "delta", "EXTERNAL": "TRUE", "comment": "All orders"}  # fmt: skip
    assert found["Parameters"] == marks
    assert cli("register", place, name, "--check").code == 0
    assert cli("check", name).code == 0
    assert cli("describe-detail", name).code == 0


def test_register_again(sales: Glue, server: ObjectServer, cli: RunCli) -> None:
    place, name = create(server, "glue-again"), "glue://sales.again"
    assert cli("register", place, name).code == 0
    parameters = {**stored(sales, "again")["Parameters"], "mine": "kept"}
    update(sales, "again", Owner="alice", Parameters=parameters)
    append(place, pa.table({"Id": [3], "day": ["c"], "more": [0.5]}), schema_mode="merge")
    refused = cli("register", place, name)
    assert refused.code == 6
    assert "column more is none, not double" in refused.err
    assert "--sync" in refused.err
    differs = cli("register", place, name, "--check", "-o", "json").document
    assert (differs["exit_code"], differs["result"]["differences"]) == (
        3, [{"what": "column more", "catalog": "none", "table": "double"}],
    )  # fmt: skip
    assert cli("register", place, name, "--sync").code == 0
    found = stored(sales, "again")
    assert (found["Owner"], found["Parameters"]["mine"]) == ("alice", "kept")
    assert len(found["StorageDescriptor"]["Columns"]) == 3
    # Another table: only replaced if that is asked for.
    other = create(server, "glue-elsewhere")
    assert cli("register", other, name, "--sync").code == 6
    assert stored(sales, "again")["StorageDescriptor"]["Location"] == place
    assert cli("register", other, name, "--replace").code == 0
    found = stored(sales, "again")
    assert found["StorageDescriptor"]["Location"] == other
    assert (found["Owner"], found["Parameters"]["mine"]) == ("alice", "kept")


def test_register_manifests(sales: Glue, server: ObjectServer, cli: RunCli) -> None:
    place, name = create(server, "glue-manifest"), "glue://sales.listed"
    words = ("register", place, name, "--manifest")
    refused = cli(*words)
    assert refused.code == 6
    assert "generate-manifest" in refused.err
    assert cli(*words, "--check").code == 3
    assert cli("generate-manifest", place).code == 0
    ran = cli(*words, "-o", "json")
    assert ran.result["partitions_added"] == 2

    assert partitions(sales, "listed") == partitions_of(place)
    assert stored(sales, "listed")["StorageDescriptor"]["InputFormat"] == SYMLINK
    assert cli(*words, "--check").code == 0
    deltalake.DeltaTable(place, storage_options=OPTIONS).delete("day = 'a b'")
    append(place, pa.table({"Id": [3], "day": ["c"]}))
    assert {it["code"] for it in findings(cli, name)} == {"CATALOG_MANIFESTS"}
    assert cli("generate-manifest", place).code == 0
    assert findings(cli, name) == []
    assert cli(*words, "--check").code == 3
    assert cli(*words, "--sync").code == 0
    assert set(partitions(sales, "listed")) == {"2026-01-01", "c"}
    # By its name, the symlink table is the Delta table.
    assert cli("optimize", name, "--dry-run").code == 0


DAYS = [{"Name": "day", "Type": "string"}]


def partitions_of(place: str) -> dict[str, str]:
    """The directories with the manifests of the partitions of the table of ``create``."""
    root = f"{place}/_symlink_format_manifest"
    return {day: f"{root}/day={day}" for day in ("2026-01-01", "a b")}


def add_partitioned(glue: Glue, table: str, day: str) -> None:
    """A table of Parquet files of one partition."""
    glue.add(f"sales.{table}", location="s3://lake/old", reader=PARQUET, PartitionKeys=DAYS)
    storage = {"Columns": COLUMNS, "Location": f"s3://lake/old/day={day}", "InputFormat": PARQUET}
    glue.client.batch_create_partition(
        DatabaseName="sales", TableName=table,
        PartitionInputList=[{"Values": [day], "StorageDescriptor": storage}],
    )  # fmt: skip


@pytest.mark.parametrize("old", ["2020-01-01", "2026-01-01"])
def test_partitions_of_a_replaced_table_are_removed(
    glue: Glue, server: ObjectServer, cli: RunCli, old: str
) -> None:
    add_partitioned(glue, "fin", old)
    place = create(server, f"glue-fin-{old}")
    assert cli("generate-manifest", place).code == 0
    words = ("register", place, "glue://sales.fin", "--manifest")
    shown = cli(*words, "--dry-run", "-o", "json").result
    assert (shown["partitions_added"], shown["partitions_removed"]) == (2, 1)
    assert shown["location"] == f"{place}/_symlink_format_manifest"
    checked = cli(*words, "--check")
    assert checked.out.endswith(f"  deltactl {' '.join(words)} --replace\n")
    ran = cli(*words, "--replace")
    assert ran.code == 0, ran.err
    assert partitions(glue, "fin") == partitions_of(place)
    assert cli(*words, "--check").code == 0
    # The keys of the Delta form are others.
    assert cli(*words[:3], "--replace").code == 0
    assert partitions(glue, "fin") == {}
    assert stored(glue, "fin")["PartitionKeys"] == []


def test_an_entry_that_is_not_replaced_after_its_partitions_were_removed_is_named(
    glue: Glue, server: ObjectServer, cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_partitioned(glue, "half", "a")
    words = ("register", create(server, "glue-half"), "glue://sales.half", "--replace")

    def refuse(*_: object, **__: object) -> None:
        raise AccessDeniedError("no", hint="Give glue:UpdateTable.")

    with monkeypatch.context() as patched:
        patched.setattr(GlueCatalog, "_write", refuse)
        ran = cli(*words)
    assert ran.code == 8
    said = " ".join(ran.err.split())
    assert "partitions of glue://sales.half may be removed, but the entry is not replaced" in said
    assert "Give glue:UpdateTable. Then rerun with --replace." in said
    assert cli(*words).code == 0
    assert stored(glue, "half")["PartitionKeys"] == []


def test_what_says_where_the_data_of_another_table_are_is_removed(
    glue: Glue, server: ObjectServer, cli: RunCli
) -> None:
    elsewhere = {
        "projection.enabled": "true", "projection.day.type": "date",
        "storage.location.template": "s3://lake/old/${day}",
    }  # fmt: skip
    foreign = {"presto_view": "true", "metadata_location": "s3://lake/m"}
    glue.add(
        "sales.seen", location="s3://lake/old", TableType="VIRTUAL_VIEW", ViewOriginalText="SELECT",
        parameters={**elsewhere, **foreign, "mine": "kept"},
    )  # fmt: skip
    words = ("register", create(server, "glue-elsewhere-too"), "glue://sales.seen")
    ran = cli(*words, "--replace", "-o", "json").document
    assert {f"property {key}" for key in elsewhere} < {
        it["what"] for it in ran["result"]["differences"]
    }
    found = stored(glue, "seen")
    assert not set(found["Parameters"]) & {*elsewhere, *foreign}
    assert found["Parameters"]["mine"] == "kept"
    assert "ViewOriginalText" not in found
    assert cli(*words, "--check").code == 0


def test_a_check_of_a_table_without_manifests(
    sales: Glue, server: ObjectServer, cli: RunCli
) -> None:
    place = write(server, "glue-lost-manifests")
    assert cli("generate-manifest", place).code == 0
    words = ("register", place, "glue://sales.lost", "--manifest")
    assert cli(*words).code == 0
    assert cli(*words, "--check").code == 0
    open_store(place, server.options).delete_many(["_symlink_format_manifest/manifest"])
    ran = cli(*words, "--check")
    assert ran.code == 3, ran.err
    said = " ".join(ran.err.split())
    assert "a real run would be refused: 1 manifest does not exist: engines would find no" in said
    assert f"Run `deltactl generate-manifest {place}`, then rerun." in said
    assert "glue://sales.lost would be changed" in ran.out
    assert "To do it" not in ran.out
    assert cli(*words).code == 6


def test_a_registration_that_failed_in_part_is_completed(
    sales: Glue, server: ObjectServer, cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = create(server, "glue-part")
    assert cli("generate-manifest", place).code == 0
    words = ("register", place, "glue://sales.part", "--manifest")

    def refuse(*_: object, **__: object) -> None:
        raise AccessDeniedError("no", hint="Give glue:BatchCreatePartition.")

    with monkeypatch.context() as patched:
        patched.setattr(GlueCatalog, "change_partitions", refuse)
        ran = cli(*words)
    assert ran.code == 8
    assert "the entry of glue://sales.part is written, but maybe not all partitions" in ran.err
    assert "Give glue:BatchCreatePartition. Then rerun with --sync." in " ".join(ran.err.split())
    assert cli(*words, "--sync").code == 0
    assert len(partitions(sales, "part")) == 2


def test_two_registrations_at_once_succeed(
    sales: Glue, server: ObjectServer, cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = create(server, "glue-twice")
    assert cli("generate-manifest", place).code == 0
    words = ("register", place, "glue://sales.twice", "--manifest")
    change = GlueCatalog.change_partitions
    taken: dict[tuple[str, ...], str] = {}

    def change_after_another(self: GlueCatalog, wanted: Any, gone: Any, new: Any) -> None:
        change(self, wanted, (), taken or new)
        change(self, wanted, gone, new)

    with monkeypatch.context() as patched:
        patched.setattr(GlueCatalog, "change_partitions", change_after_another)
        ran = cli(*words)
        assert ran.code == 0, ran.err
        sales.client.delete_table(DatabaseName="sales", Name="twice")
        taken["a b",] = "s3://lake/other"
        ran = cli(*words)
    assert ran.code == 4
    assert "another program changed the partitions" in ran.err
    assert cli(*words, "--sync").code == 0


def test_entries_say_what_aws_glue_can_keep(sales: Glue, server: ObjectServer, cli: RunCli) -> None:
    place = f"{server.bucket}/glue-comments"
    fields = [
        pa.field("us", pa.timestamp("us"), metadata={"comment": "one\ntwo " + "\u00e4" * 300}),
        pa.field("v", pa.null()),
    ]
    rows = pa.table({"us": [0], "v": [None]}, schema=pa.schema(fields))
    append(place, rows)
    name = "glue://sales.comments"
    assert cli("register", place, name).code == 0
    [column] = stored(sales, "comments")["StorageDescriptor"]["Columns"]
    assert column["Comment"] == "one two " + "\u00e4" * 123
    assert cli("register", place, name, "--check").code == 0
    ran = cli("check", name)
    assert ran.code == 0, ran.out
    storage = {**stored(sales, "comments")["StorageDescriptor"], "Columns": COLUMNS}
    update(sales, "comments", StorageDescriptor=storage)
    found = findings(cli, name)
    assert {it["code"] for it in found} == {"CATALOG_COLUMNS"}
    assert found[0]["repair"].startswith(f"run `deltactl register {place} NAME --sync`")
    assert cli("register", place, name, "--sync").code == 0
    assert cli("check", name).code == 0


def test_a_column_that_is_a_key_too_is_found_and_repaired(
    sales: Glue, server: ObjectServer, cli: RunCli
) -> None:
    words = ("register", create(server, "glue-crawled"), "glue://sales.crawled")
    assert cli(*words).code == 0
    update(sales, "crawled", PartitionKeys=DAYS)
    found = findings(cli, words[2])
    assert [it["problem"] for it in found if it["code"] == "CATALOG_COLUMNS"] == [
        "the catalog has the column 'day' more than once"
    ]
    assert cli(*words, "--check").code == 3
    assert cli(*words, "--sync").code == 0
    now = stored(sales, "crawled")
    assert [it["Name"] for it in now["StorageDescriptor"]["Columns"]] == ["id"]
    assert [it["Name"] for it in now["PartitionKeys"]] == ["day"]
    assert cli(*words, "--check").code == 0
    assert cli("check", words[2]).code == 0


def test_the_repair_of_columns_leads_to_an_option_that_works(
    glue: Glue, server: ObjectServer, cli: RunCli
) -> None:
    place = create(server, "glue-athena")
    glue.add("sales.athena", location=place, parameters={"table_type": "DELTA"})
    name = "glue://sales.athena"
    [repair] = {it["repair"] for it in findings(cli, name)}
    assert "if it is refused, the option that its error names" in repair
    refused = cli("register", place, name, "--sync")
    assert refused.code == 6
    assert "use --replace" in " ".join(refused.err.split())
    assert cli("register", place, name, "--replace").code == 0
    assert cli("check", name).code == 0


def test_what_cannot_be_registered(
    sales: Glue, server: ObjectServer, cli: RunCli, tmp_path: Path
) -> None:
    place = create(server, "glue-not")
    for words in (["--dry-run"], []):
        ran = cli("register", place, "glue://gone.t", *words)
        assert ran.code == 8
        assert "has no database 'gone'" in ran.err
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    ran = cli("register", str(tmp_path / "t"), "glue://sales.t", "--dry-run")
    assert ran.code == 7
    assert "cannot read a table on this machine" in ran.err
