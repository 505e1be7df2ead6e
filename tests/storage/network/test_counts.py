"""How many requests commands need, counted by a proxy on the way to the server."""

from collections import Counter

import pytest

from deltactl import Table
from deltactl.storage.network.counts import requests_sent
from deltactl.storage.open import open_store
from tests.support.fault_proxy import FaultProxy
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import ALL_SERVICES, UNCLOSED_SESSIONS, choose_servers
from tests.support.table_builder import Column, TableBuilder

pytestmark = UNCLOSED_SESSIONS
EVERYWHERE = pytest.mark.parametrize("server", ALL_SERVICES, indirect=True)
ON_S3 = pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)


@pytest.fixture
def builder(server: ObjectServer, root: str) -> TableBuilder:
    store = open_store(root, server.options)
    builder = TableBuilder(store, [Column("id"), Column("p", "string")], partition_by=["p"])
    for number in range(6):
        builder.append([{"id": number, "p": "x"}])
    return builder


@EVERYWHERE
@pytest.mark.parametrize(("kind", "parts"), [("classic", 1), ("multipart", 6), ("v2-parquet", 3)])
def test_a_plan_of_optimize_reads_each_part_of_the_checkpoint_once(
    kind: str, parts: int, builder: TableBuilder, server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    builder.checkpoint(kind=kind, parts=parts)
    builder.hint(builder.version)
    before = requests_sent()
    plan = Table(
        root, storage_options=server.at(proxy.endpoint).options, warn=pytest.fail
    ).optimize(dry_run=True)
    assert plan.dry_run
    asked = Counter(request.method for request in proxy.requests)
    assert asked.total() <= 4 + parts, "\n".join(
        f"{r.method} {r.target[-60:]} {r.headers.get('range')}" for r in proxy.requests
    )
    sent = requests_sent() - before
    assert (sent.total, sent.lists) == (asked.total(), 1)


@EVERYWHERE
def test_small_files_take_one_request_each(
    builder: TableBuilder, server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    table = Table(root, storage_options=server.at(proxy.endpoint).options)
    snapshot = table.snapshot()
    assert len(proxy.requests) == 1 + 1 + 7, "the hint, a listing, the commits"
    proxy.clear()
    assert table.scan(snapshot.version).read_all().num_rows == 6
    reads = [request.target for request in proxy.requests if ".parquet" in request.target]
    assert Counter(reads).most_common(1)[0][1] == 1
    assert len(reads) == 6


@EVERYWHERE
def test_ranges_side_by_side_come_in_one_request(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    store = open_store(root, server.at(proxy.endpoint).options)
    data = bytes(range(256)) * 4096
    store.put("x", data)
    proxy.clear()
    ranges = [(10, 5), (0, 10), (1000, 1), (1_000_000, 30), (2_000_000, 5)]
    assert store.read_ranges("x", ranges) == [data[a : a + n] for a, n in ranges]
    # Two ranges, one of them with a part past the end; nothing asks for the size.
    assert len(proxy.requests) <= 4


@ON_S3
def test_a_thousand_keys_are_deleted_at_once(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    store = open_store(root, server.at(proxy.endpoint).options)
    assert store.delete_many([f"p={number}/x" for number in range(2500)]) == {}
    assert [request.method for request in proxy.requests] == ["POST"] * 3


@EVERYWHERE
def test_pages_come_as_they_are_wanted(
    server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltactl.storage.objects import azure as azure_service
    from deltactl.storage.objects import gcs as gcs_service
    from deltactl.storage.objects import s3 as s3_service

    monkeypatch.setattr(azure_service, "_PAGE_NAMES", 10)
    monkeypatch.setattr(gcs_service, "_PAGE_NAMES", 10)
    monkeypatch.setattr(s3_service, "_PAGE_KEYS", 10)
    store = open_store(root, server.options)
    names = [f"log/{number:020}.json" for number in range(35)]
    for name in names:
        store.put(name, b"")
    assert [info.name for info in store.list_from("log")] == names
    assert [info.name for info in store.list_from("log", f"{30:020}")] == names[30:]
    before = requests_sent()
    next(iter(store.walk()))
    assert [name for batch in store.walk() for name in batch] == names
    assert store.delete_many(names) == {}
    assert requests_sent().total > before.total
    assert list(store.walk()) == []
