"""What is S3's own, against real servers."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from deltactl import Table
from deltactl.cli.app import run
from deltactl.clock import SystemClock
from deltactl.operations.leases import LEASE_MS, Holder, hold_lease
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.undo import undo_vacuum
from deltactl.storage.network.counts import requests_sent
from deltactl.storage.objects import s3 as s3_service
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.open import open_store
from tests.storage.objects.test_old_versions import open_versioned
from tests.support.clock import await_next_second
from tests.support.fault_proxy import Answer, Cut, Fault, FaultProxy, Rule
from tests.support.object_servers import ObjectServer, delta_rs_options
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers

pytestmark = [
    *UNCLOSED_SESSIONS,
    pytest.mark.parametrize("server", choose_servers("minio", explored=["moto"]), indirect=True),
]


def test_a_listing_begins_at_a_key_and_comes_in_pages(
    server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_service, "_PAGE_KEYS", 20)
    store = open_store(root, server.options)
    names = [f"log/{number:020}.json" for number in range(43)]
    for name in names:
        store.put(name, b"")
    assert isinstance(store, ObjectStore)
    service = store._service
    key = service.key_of(f"{root}/log")
    assert [len(page) for page in service.pages(key, "", deep=False)] == [20, 20, 3]
    # One shorter than the key: a few that sort before may come too, and no more.
    late = [entry for page in service.pages(key, f"{39:020}", deep=False) for entry in page]
    assert 4 <= len(late) <= 13
    assert [info.name for info in store.list_from("log", f"{39:020}")] == names[39:]
    assert store.delete_many(names) == {}
    assert list(store.walk()) == []


def test_a_vacuum_of_a_bucket_with_versions_is_undone(server: ObjectServer) -> None:
    store, _ = open_versioned(server)
    options = delta_rs_options(server.endpoint)
    write_deltalake(store.uri, pa.table({"id": [1]}), storage_options=options)
    write_deltalake(store.uri, pa.table({"id": [2]}), mode="overwrite", storage_options=options)
    table = Table(store.uri, storage_options=server.options)
    (path,) = table.snapshot(version=0).files["path"].to_pylist()
    content = store.read(path)
    await_next_second()  # the earlier clock decides what is old enough
    report = table.vacuum(VacuumOptions(retain_ms=0, force_retention=True, mode="full"))
    assert report.files_removed == 1
    assert store.stat_many([path]) == [None]
    store.put(f"{path}.late", b"")  # begins with the same name
    shown = undo_vacuum(store, "last", dry_run=True)
    assert (shown.restored, shown.impossible) == ((path,), {})
    assert store.stat_many([path]) == [None]
    assert undo_vacuum(store, str(report.run_id)).restored == (path,)
    assert store.read(path) == content
    assert table.scan(version=0).read_all()["id"].to_pylist() == [1]
    # Deleted twice over: two markers lie on the content.
    for _ in range(2):
        assert store.delete_many([path]) == {}
    assert store.versions is not None
    assert store.versions.undelete_many([path]) == {}
    assert store.read(path) == content


def test_optimize_between_writes_of_delta_rs(server: ObjectServer, root: str) -> None:
    options = delta_rs_options(server.endpoint)
    for number in range(4):
        rows = pa.table({"id": [number, number + 10], "p": ["x y", "z"]})
        write_deltalake(root, rows, mode="append", partition_by=["p"], storage_options=options)
    report = Table(root, storage_options=server.options).optimize()
    assert (report.files_removed, report.files_added) == (8, 2)
    assert report.versions == (4,)
    theirs = DeltaTable(root, storage_options=options)
    assert theirs.version() == 4
    # Not `to_pyarrow_table`: its file system would be opened without these options.
    read = QueryBuilder().register("t", theirs).execute("SELECT id FROM t").read_all()
    ids = pa.table(read)["id"].to_pylist()
    assert sorted(ids) == sorted(
        Table(root, storage_options=server.options).scan().read_all()["id"].to_pylist()
    )
    assert sorted(ids) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_a_run_over_a_glob_with_leases(
    server: ObjectServer, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables are found by folders; what a run writes beside them is given back or written down."""
    options = delta_rs_options(server.endpoint)
    for name in ("a", "deep/b"):
        for number in range(3):
            table = pa.table({"id": [number]})
            write_deltalake(f"{root}/{name}", table, mode="append", storage_options=options)
    typed = [
        word for pair in server.options.items() for word in ("--storage-option", "=".join(pair))
    ]
    held = open_store(f"{root}/a", server.options)
    now = SystemClock().now_ms()
    lease = Holder("other", "web1", 42, now, now + LEASE_MS)
    with hold_lease(held, "optimize", lease, clock=SystemClock(), warn=pytest.fail):
        assert run(["optimize", f"{root}/**", "-j", "2", "-o", "json", *typed]) == 4
        runs = json.loads(capsys.readouterr().out)["runs"]
        assert [one["table"] for one in runs] == [f"{root}/a", f"{root}/deep/b"]
        assert [one["error"] and one["error"]["code"] for one in runs] == ["LEASE_HELD", None]
    assert run(["optimize", f"{root}/*", "--min-interval", "1h", "-o", "csv", *typed]) == 0
    assert "3 files became 1" in capsys.readouterr().out
    assert [info.name for info in held.list_from("_deltactl/runs")] == [
        "_deltactl/runs/optimize.json"
    ]
    assert list(held.list_from("_deltactl/leases")) == []


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("fault", [Cut(after=True), Answer(503, after=False)])
def test_the_lease_of_a_run_whose_put_fails_once(
    server: ObjectServer,
    root: str,
    proxy: FaultProxy,
    fault: Fault,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = delta_rs_options(server.endpoint)
    for number in range(3):
        write_deltalake(root, pa.table({"id": [number]}), mode="append", storage_options=options)
    proxy.add(Rule(fault, "PUT", "leases/optimize"))
    typed = [
        word
        for pair in server.at(proxy.endpoint).options.items()
        for word in ("--storage-option", "=".join(pair))
    ]
    assert run(["optimize", root, "-q", *typed]) == 0
    assert "no lease" not in capsys.readouterr().err
    assert [request.fault for request in proxy.find("PUT", "leases/optimize")] == [fault, None]
    assert list(open_store(root, server.options).list_from("_deltactl/leases")) == []


def test_optimize_copies_row_groups_without_reading_them(server: ObjectServer, root: str) -> None:
    """Only footers pass through this machine, and no part of an upload is left."""
    options = delta_rs_options(server.endpoint)
    noise = np.random.default_rng(1).integers(0, 1 << 62, 800_000)  # too varied to compress
    rows = pa.table({"id": range(len(noise)), "noise": noise})
    for number in range(3):
        shifted = rows.set_column(0, "id", pc.add(rows["id"], number * 10_000_000))
        write_deltalake(root, shifted, mode="append", storage_options=options)
    table = Table(root, storage_options=server.options)
    inputs = pc.sum(table.snapshot().files["size_bytes"]).as_py()
    before = requests_sent()
    report = table.optimize(OptimizeOptions(min_row_group_bytes=1 << 20))
    traffic = requests_sent() - before
    assert report.rewritten is not None
    assert report.rewritten.groups_encoded == 0
    assert report.rewritten.bytes_copied > 0.99 * inputs
    assert traffic.bytes_read < 0.03 * inputs
    # For each input: the codec, the footer, two kinds of indexes; a part.
    assert traffic.gets <= 3 * 4 + 14
    # Three to try out the store and to commit; of the upload: begin, three ranges, the footer,
    # end, and its note.
    assert traffic.puts == 3 + 7
    assert list(open_store(root, server.options).list_from("_deltactl/uploads")) == []
    read = table.scan().read_all()
    assert read.num_rows == 3 * rows.num_rows
    theirs = DeltaTable(root, storage_options=options)
    counted = QueryBuilder().register("t", theirs).execute("SELECT sum(id) AS s FROM t").read_all()
    assert pa.table(counted)["s"].to_pylist() == [pc.sum(read["id"]).as_py()]
