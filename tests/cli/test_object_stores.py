"""Every command on every kind of object store, with credentials that nobody gets to see."""

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import Table
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import open_store
from tests.cli.conftest import Ran, RunCli
from tests.support.clock import await_next_second
from tests.support.object_servers import AZURE_KEY, S3_ENVIRON, ObjectServer
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers
from tests.support.table_builder import Column, TableBuilder, multiset

pytestmark = [
    *UNCLOSED_SESSIONS,
    # To MinIO, the commands speak as to moto.
    pytest.mark.parametrize(
        "server", choose_servers("moto", "azurite", "fake-gcs", explored=["minio"]), indirect=True
    ),
]

SECRETS = (S3_ENVIRON["AWS_SECRET_ACCESS_KEY"], AZURE_KEY)


def environment(server: ObjectServer) -> Mapping[str, str]:
    """How users give the same credentials by the libraries' own variables."""
    if server.bucket.startswith("s3:"):
        return {**S3_ENVIRON, "AWS_ENDPOINT_URL": server.endpoint}
    if server.bucket.startswith("az:"):
        return {"AZURE_STORAGE_CONNECTION_STRING": server.options["connection_string"]}
    return {"STORAGE_EMULATOR_HOST": server.endpoint}


class Shell:
    """Commands about one table; whatever they say is looked through for secrets."""

    def __init__(self, cli: RunCli, server: ObjectServer, root: str) -> None:
        self._cli, self._root = cli, root
        self._more = ["--storage-option", "token=anon"] if server.kind == "fake-gcs" else []
        self.said: list[str] = []

    def run(self, command: str, *args: str, code: int = 0, root: str | None = None) -> Ran:
        more = [*self._more, "-vv", "--debug", "-o", "json"]
        ran = self._cli(command, root or self._root, *args, *more)
        self.said += [ran.out, ran.err]
        assert ran.code == code, ran.err
        assert not any(secret in text for secret in SECRETS for text in self.said)
        return ran

    def result(self, command: str, *args: str) -> dict[str, object]:
        result: dict[str, object] = self.run(command, *args).result
        return result


@pytest.fixture
def shell(cli: RunCli, server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
    return Shell(cli, server, root)


@pytest.fixture
def table(server: ObjectServer, root: str) -> TableBuilder:
    """Six files in two partitions, whose names need care."""
    store = open_store(root, server.options)
    builder = TableBuilder(store, [Column("id"), Column("p", "string")], partition_by=["p"])
    for number in range(3):
        rows = [{"id": number, "p": "a b#1"}], [{"id": 10 + number, "p": "ü?=%"}]
        builder.append(*rows)
    return builder


def test_the_commands_work_on_an_object_store(
    shell: Shell, table: TableBuilder, server: ObjectServer, root: str
) -> None:
    assert len(shell.run("describe-history").result) == 4
    assert shell.result("describe-detail")["numFiles"] == 6
    assert "requests to object stores: " in shell.said[-1]
    optimized = shell.result("optimize")
    assert (optimized["files_removed"], optimized["files_added"]) == (6, 2)
    shell.run("checkpoint")
    shell.run("generate-manifest")
    shell.run("generate-manifest", "--check")
    library = Table(root, storage_options=server.options)
    assert multiset(library.scan().read_all().to_pylist()) == multiset(table.rows())
    assert library.snapshot().segment.checkpoint_version == library.snapshot().version


def test_vacuum_and_its_undo(
    shell: Shell, table: TableBuilder, server: ObjectServer, root: str
) -> None:
    store = open_store(root, server.options)
    before = {name for names in store.walk() for name in names if name.endswith(".parquet")}
    shell.run("optimize")
    await_next_second()  # what is younger than the retention stays
    retention = ["--retain", "0h", "--force-retention", "--yes"]
    shell.run("vacuum", *retention, "--dry-run")
    assert before <= {name for names in store.walk() for name in names}
    shell.run("vacuum", *retention, "--quarantine")
    left = {name for names in store.walk() for name in names}
    assert before.isdisjoint(left)
    shell.run("vacuum", "--undo", "last")
    assert before <= {name for names in store.walk() for name in names}
    await_next_second()  # what came back is as young as the copies
    shell.run("vacuum", *retention)
    assert before.isdisjoint({name for names in store.walk() for name in names})
    library = Table(root, storage_options=server.options)
    assert multiset(library.scan().read_all().to_pylist()) == multiset(table.rows())
    for name in {name for names in store.walk() for name in names}:
        data = store.read(name)
        assert not any(secret.encode() in data for secret in SECRETS)


def parquet(number: int) -> bytes:
    """A file of one row."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [number]}), sink)
    return sink.getvalue()


def test_convert_makes_a_table_on_an_object_store(
    shell: Shell, server: ObjectServer, root: str
) -> None:
    store = open_store(root, server.options)
    for number in range(3):
        store.put(f"d={number}/x.parquet", parquet(number))
    shell.run("convert", "--partition-by", "d INT")
    library = Table(root, storage_options=server.options)
    rows = library.scan().read_all().to_pylist()
    assert sorted((row["id"], row["d"]) for row in rows) == [(0, 0), (1, 1), (2, 2)]


def put_beside(root: str, server: ObjectServer, key: str, data: bytes) -> None:
    """Put an object whose key no name in the table addresses."""
    store = open_store(root, server.options)
    assert isinstance(store, ObjectStore)
    store._service.create(f"{store._service.key_of(root)}/{key}", data)


def test_a_vacuum_does_not_take_a_key_with_an_empty_part_for_a_live_file(
    shell: Shell, table: TableBuilder, server: ObjectServer, root: str
) -> None:
    store = open_store(root, server.options)
    live = [name for names in store.walk() for name in names if name.endswith(".parquet")]
    for name in live:
        put_beside(root, server, name.replace("/", "//", 1), b"")
        put_beside(root, server, f"/{name}", b"")
    await_next_second()
    words = ["--retain", "0h", "--force-retention", "--yes", "--mode", "full"]
    found = shell.result("vacuum", *words, "--include-unknown", "--max-orphan-fraction", "1")
    assert found["files_removed"] == 0
    assert None not in store.stat_many(live)


def test_a_clone_is_not_made_beside_keys_that_no_table_can_name(
    shell: Shell, table: TableBuilder, server: ObjectServer, root: str
) -> None:
    put_beside(f"{root}-clone", server, "a//b", b"")
    ran = shell.run("clone", f"{root}-clone", "--deep", code=6)
    assert "is not empty" in ran.err


def test_convert_leaves_hidden_keys_out(shell: Shell, server: ObjectServer, root: str) -> None:
    open_store(root, server.options).put("d=1/y.parquet", parquet(1))
    put_beside(root, server, "_tmp//x.parquet", parquet(1))
    shell.run("convert")


@pytest.mark.parametrize(
    ("key", "shown"),
    [("/x.parquet", "those below {}//:"), ("d=1//x.parquet", "{}/d=1//x.parquet:")],
)
def test_convert_refuses_keys_that_no_table_can_name(
    shell: Shell, server: ObjectServer, root: str, key: str, shown: str
) -> None:
    open_store(root, server.options).put("d=1/y.parquet", parquet(1))
    put_beside(root, server, key, parquet(1))
    ran = shell.run("convert", code=6)
    told = f"no Delta table can name some of the objects, such as {shown.format(root)}"
    assert told in ran.err
