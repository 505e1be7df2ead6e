"""Old versions of objects are listed, counted and read on each kind of store that keeps them."""

import json
import uuid
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.asyn import sync

from deltactl import Table
from deltactl.cli.app import run
from deltactl.operations.vacuum.journal import RunRecord, write_journal
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import open_store
from tests.support.checkpoints import new_table
from tests.support.fault_proxy import Answer, FaultProxy, Rule
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import ALL_SERVICES, UNCLOSED_SESSIONS, choose_servers
from tests.support.table_builder import LOG, Column

pytestmark = UNCLOSED_SESSIONS

LATER = b"{}"


def open_versioned(server: ObjectServer) -> tuple[ObjectStore, Callable[[str], None]]:
    """A store in a new bucket that keeps versions, and a call that makes a file an old version."""
    bucket = f"versions-{uuid.uuid4().hex[:8]}"
    scheme = server.bucket.partition(":")[0]
    store = open_store(f"{scheme}://{bucket}/a table", server.options)
    assert isinstance(store, ObjectStore)
    service = store._service.file_system
    if scheme == "s3":
        service.call_s3("create_bucket", Bucket=bucket)
        status = {"Status": "Enabled"}
        service.call_s3("put_bucket_versioning", Bucket=bucket, VersioningConfiguration=status)
    elif scheme == "gs":
        body = {"name": bucket, "versioning": {"enabled": True}}
        service.call("POST", "b", project="tests", json=body)
    else:
        service.mkdir(bucket)

    def end(name: str) -> None:
        if scheme == "az":  # this server keeps no versions, but snapshots
            blob = service.service_client.get_blob_client(bucket, f"a table/{name}")
            sync(service.loop, blob.create_snapshot)
            store.put(name, LATER)
        else:
            assert store.delete_many([name]) == {}

    return store, end


@pytest.mark.parametrize("server", choose_servers("moto", "fake-gcs"), indirect=True)
def test_the_newest_version_is_restored(server: ObjectServer) -> None:
    store, end = open_versioned(server)
    for content in (b"old", b"new"):
        store.put("p=1/a b", content)
    end("p=1/a b")
    store.put("p=1/a bc", b"begins with the same name")
    end("p=1/a bc")
    assert store.undelete_many(["p=1/a b"], dry_run=True) == {}
    assert store.stat_many(["p=1/a b"]) == [None]
    for _ in range(2):  # the second time, there is an object
        assert list(store.undelete_many(["p=1/a b", "p=1/a"])) == ["p=1/a"]
        assert store.read("p=1/a b") == b"new"


@pytest.mark.parametrize(
    ("method", "answer", "code", "hint"),
    [
        ("GET", (403, "AccessDenied"), "ACCESS_DENIED", "s3:ListBucketVersions on the bucket"),
        ("DELETE", (403, "AccessDenied"), "ACCESS_DENIED", "s3:DeleteObjectVersion on the files"),
        ("GET", (400, "ExpiredToken"), "CREDENTIALS_EXPIRED", "set a new AWS_SESSION_TOKEN."),
        ("GET", (501, "NotImplemented"), "STORAGE_UNSUPPORTED", "Fix the cause."),
    ],
)
@pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)
def test_a_refused_undo_is_no_missing_file(
    server: ObjectServer,
    proxy: FaultProxy,
    capsys: pytest.CaptureFixture[str],
    method: str,
    answer: tuple[int, str],
    code: str,
    hint: str,
) -> None:
    store, end = open_versioned(server)
    run_id, names = "20240101T000000Z-0a", ["x", "y"]
    record = RunRecord(run_id, "a-table", 1, "full", 0, 0, 0, len(names), 2)
    write_journal(store, record, pa.table({"path": names}))
    for name in names:
        store.put(name, b"old")
        end(name)
    status, said = answer
    body = f"<Error><Code>{said}</Code><Message>said {said}</Message></Error>".encode()
    refusal = Rule(Answer(status, after=False, body=body), method, "[?&]version", times=None)
    options = server.at(proxy.endpoint).options
    words = ["vacuum", store.uri, "--undo", run_id, "-o", "json"]
    words += [word for pair in options.items() for word in ("--storage-option", "=".join(pair))]
    proxy.add(refusal)
    assert run(words) == 8
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["message"][:27]) == (code, "2 files cannot be restored:")
    assert hint in error["hint"]
    assert error["hint"].endswith(f" --undo {run_id}`.")
    proxy.clear()
    assert run(words) == 0
    assert [store.read(name) for name in names] == [b"old"] * 2


@pytest.mark.parametrize("server", ALL_SERVICES, indirect=True)
def test_old_versions_are_counted_and_searched(server: ObjectServer) -> None:
    store, end = open_versioned(server)
    built = new_table(Column("id"))
    built.append([{"id": 1}])
    for part in built.store.walk():
        for name in part:
            store.put(name, built.store.read(name))
    table = Table(store.uri, storage_options=server.options)
    assert table.storage().not_counted == store.term
    assert table.check_erased("id = 42").is_erased
    assert table.check_erased("id = 42").counts["old_versions"] == 0
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1, 42, 43]}), sink)
    old = {"stray": sink.getvalue().to_pybytes(), "_deltactl/note.json": b'{"id": "id 42"}'}
    old[f"{LOG}/_staged_commits/{9:020d}.a.json"] = b'{"commitInfo":{"userMetadata":"id 42"}}'
    for name, content in old.items():
        store.put(name, content)
        end(name)
    found = table.check_erased("id = 42")
    assert (found.counts["old_versions"], found.places) == (3, ())
    assert [it.code for it in found.unread] == ["SEARCH_INCOMPLETE"]
    (place,) = table.check_erased("id = 42", versions=True).places
    # A row of one, and numbers beside the name of the column in the others.
    assert (place.name, place.files, place.rows, place.entries) == ("old object versions", 3, 1, 2)
    searched = table.check_erased("id = 44", versions=True)
    assert (searched.places, searched.unread) == ((), ())
