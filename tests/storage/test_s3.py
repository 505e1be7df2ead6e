"""S3 as a server speaks it: the promises of the seam, and a table from end to end."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from deltactl import DeltactlError, Table
from deltactl.cli.app import run
from deltactl.clock import SystemClock
from deltactl.errors import AccessDeniedError, StorageError
from deltactl.operations.lease import LEASE_MS, Holder, hold_lease
from deltactl.storage.fsspec_store import FsspecStore
from deltactl.storage.object_services import S3Service
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.storage import conformance
from tests.support.object_servers import S3_ENVIRON, ensure_moto, s3_server

pytestmark = [
    pytest.mark.xdist_group("s3"),
    # aiohttp's sessions are closed by the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BUCKET = "lake"
# It finds no object with a newline in its name; and among its threads a conditional put looks, then
# writes.
NOT_OF_THIS_SERVER = {conformance.takes_strange_names, conformance.one_thread_wins}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        python = ensure_moto()
    except subprocess.CalledProcessError:
        pytest.skip("no package index that has moto, the S3 server of the tests")
    before = dict(os.environ)
    with s3_server(python, tmp_path_factory.mktemp("moto") / "log") as address:
        os.environ.update(S3_ENVIRON, AWS_ENDPOINT_URL=address)
        try:
            file_system(open_store(f"s3://{BUCKET}")).call_s3("create_bucket", Bucket=BUCKET)
            yield address
        finally:
            os.environ.clear()
            os.environ.update(before)


def file_system(store: Store) -> Any:
    assert isinstance(store, FsspecStore)
    return store._fs


@pytest.fixture
def root(endpoint: str) -> str:
    return f"s3://{BUCKET}/{next(_numbers)}/a table"


@pytest.mark.parametrize("promise", conformance.PROMISES, ids=lambda promise: promise.__name__)
def test_promise(promise: Callable[[Store], None], root: str) -> None:
    if promise in NOT_OF_THIS_SERVER:
        pytest.skip("the S3 server of the tests does not promise this itself")
    promise(open_store(root))


def test_a_listing_begins_at_a_key_and_comes_in_pages(root: str) -> None:
    store = open_store(root)
    names = [f"log/{number:020}.json" for number in range(1203)]
    for name in names:
        store.put(name, b"")
    key = file_system(store)._strip_protocol(f"{root}/log")
    service = S3Service(file_system(store))
    pages = [len(page) for page in service.pages(key, "", deep=False)]
    assert pages == [1000, 203]
    # One shorter than the key: a few that sort before may come too, and no more.
    late = [entry for page in service.pages(key, f"{1199:020}", deep=False) for entry in page]
    assert 4 <= len(late) <= 13
    assert [info.name for info in store.list_from("log", f"{1199:020}")] == names[1199:]
    assert store.delete_many(names) == {}
    assert list(store.walk()) == []


def for_delta_rs(endpoint: str) -> dict[str, str]:
    return {
        **S3_ENVIRON,
        "AWS_ALLOW_HTTP": "true",
        "aws_conditional_put": "etag",
        "AWS_ENDPOINT_URL": endpoint,
    }


def test_optimize_between_writes_of_delta_rs(root: str, endpoint: str) -> None:
    options = for_delta_rs(endpoint)
    for number in range(4):
        rows = pa.table({"id": [number, number + 10], "p": ["x y", "z"]})
        write_deltalake(root, rows, mode="append", partition_by=["p"], storage_options=options)
    report = Table(root).optimize()
    assert (report.files_removed, report.files_added) == (8, 2)
    assert report.versions == (4,)
    theirs = DeltaTable(root, storage_options=options)
    assert theirs.version() == 4
    # Not `to_pyarrow_table`: its file system would be opened without these options.
    read = QueryBuilder().register("t", theirs).execute("SELECT id FROM t").read_all()
    ids = pa.table(read)["id"].to_pylist()
    assert sorted(ids) == sorted(Table(root).scan().read_all()["id"].to_pylist())
    assert sorted(ids) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_a_run_over_a_glob_with_leases(
    root: str, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables are found by folders; what a run writes beside them is given back or written down."""
    options = for_delta_rs(endpoint)
    for name in ("a", "deep/b"):
        for number in range(3):
            table = pa.table({"id": [number]})
            write_deltalake(f"{root}/{name}", table, mode="append", storage_options=options)
    held = f"{root}/a"
    now = SystemClock().now_ms()
    lease = Holder("other", "web1", 42, now, now + LEASE_MS)
    with hold_lease(open_store(held), "optimize", lease, clock=SystemClock(), warn=pytest.fail):
        assert run(["optimize", f"{root}/**", "-j", "2", "-o", "json"]) == 4
        runs = json.loads(capsys.readouterr().out)["runs"]
        assert [one["table"] for one in runs] == [f"{root}/a", f"{root}/deep/b"]
        assert [one["error"] and one["error"]["code"] for one in runs] == ["LEASE_HELD", None]
    assert run(["optimize", f"{root}/*", "--min-interval", "1h", "-o", "csv"]) == 0
    assert "3 files became 1" in capsys.readouterr().out
    assert [info.name for info in open_store(held).list_from("_deltactl/runs")] == [
        "_deltactl/runs/optimize.json"
    ]
    assert list(open_store(held).list_from("_deltactl/leases")) == []


def test_errors_say_what_to_do(endpoint: str) -> None:
    with pytest.raises(StorageError, match="bucket") as missing:
        Table("s3://no-such-bucket/t", warn=lambda _: None).snapshot()
    assert "there is no such bucket" in (missing.value.hint or "")
    with pytest.raises(DeltactlError, match="no Delta table"):
        Table(f"s3://{BUCKET}/nothing").snapshot()


def test_refused_credentials_are_an_access_error_without_the_secret(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        from botocore.exceptions import ClientError

        secret = S3_ENVIRON["AWS_SECRET_ACCESS_KEY"]
        details = {"Code": "SignatureDoesNotMatch", "Message": f"signed with {secret}"}
        raise PermissionError("denied") from ClientError({"Error": details}, "ListObjectsV2")

    store = open_store(f"s3://{BUCKET}/t", {"secret": S3_ENVIRON["AWS_SECRET_ACCESS_KEY"]})
    monkeypatch.setattr(file_system(store), "call_s3", refuse)
    with pytest.raises(AccessDeniedError) as denied:
        list(store.list_from("log"))
    assert "does not take these credentials" in (denied.value.hint or "")
    assert S3_ENVIRON["AWS_SECRET_ACCESS_KEY"] not in f"{denied.value}{denied.value.hint}"
