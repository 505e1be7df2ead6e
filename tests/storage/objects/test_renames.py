"""Tables on SFTP and WebHDFS: a version has one winner, and no reader sees a part of a file."""

import itertools
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import Table
from deltactl.errors import ObjectExistsError, StorageError
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.storage import conformance
from tests.storage.file_servers import sftp_server, webhdfs_server

WRITERS, VERSIONS = 4, 20
_numbers = itertools.count()


def race(uri: str, options: Mapping[str, str], me: int, start: Any, won: Any) -> None:
    """Try to create each version at the same time as the other processes."""
    store = open_store(uri, options)
    store.ensure_put_if_absent()
    mine = []
    for version in range(VERSIONS):
        start.wait()
        try:
            store.put_if_absent(f"_delta_log/{version:020}.json", str(me).encode())
        except ObjectExistsError:
            continue
        mine.append(version)
    won.put((me, mine))


class Server(NamedTuple):
    address: str
    options: Mapping[str, str]


@pytest.fixture(scope="module", params=["sftp", "webhdfs"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "webhdfs":
        with webhdfs_server() as port:
            yield Server(f"webhdfs://127.0.0.1:{port}", {})
        return
    pytest.importorskip("paramiko", reason="paramiko is not installed")
    with sftp_server() as port:
        login = {"username": "u", "password": "p", "host_key_policy": "auto_add"}
        yield Server(f"sftp://127.0.0.1:{port}", login)


# Empty directories remain: no reader uses them.
PROMISES = [
    it for it in conformance.PROMISES if it is not conformance.removes_only_empty_directories
]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_a_store_passes_the_conformance_suite(
    promise: Callable[[Store], None], server: Server, tmp_path: Path
) -> None:
    promise(open_store(f"{server.address}{tmp_path}/t{next(_numbers)}/t", server.options))


@pytest.mark.thorough
def test_a_version_has_one_winner(server: Server, tmp_path: Path) -> None:
    uri = f"{server.address}{tmp_path}/t"
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(WRITERS, timeout=60), context.Queue()
    racers = [
        context.Process(target=race, args=(uri, server.options, me, start, results))
        for me in range(WRITERS)
    ]
    for racer in racers:
        racer.start()
    won = dict(results.get(timeout=120) for _ in racers)
    for racer in racers:
        racer.join()
    assert sorted(itertools.chain(*won.values())) == list(range(VERSIONS))
    assert sum(map(bool, won.values())) > 1
    for me, versions in won.items():
        for version in versions:
            assert (tmp_path / f"t/_delta_log/{version:020}.json").read_text() == str(me)
    assert len(list((tmp_path / "t/_delta_log").iterdir())) == VERSIONS  # and no temporary file


def test_a_table_is_optimized_and_vacuumed(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for number in range(3):
        write_deltalake(folder, pa.table({"id": [number]}), mode="append")
    table = Table(f"{server.address}{folder}", storage_options=server.options)
    table.optimize()
    table.checkpoint()
    assert DeltaTable(folder).version() == 3
    assert sorted(Table(str(folder)).scan().read_all()["id"].to_pylist()) == [0, 1, 2]
    assert sorted(table.scan().read_all()["id"].to_pylist()) == [0, 1, 2]


def test_a_link_is_not_listed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a").write_bytes(b"1")
    (tmp_path / "t" / "b").symlink_to(tmp_path / "t" / "a")
    if server.address.startswith("sftp"):
        store = open_store(f"{server.address}{tmp_path}/t", server.options)
        assert list(store.walk()) == [["a"]]
        assert store.read("b") == b"1"


def test_an_address_of_another_server_is_not_read(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    store = open_store(f"{server.address}{tmp_path}", server.options)
    assert store.read(f"{server.address}{tmp_path}/a") == b"1"
    scheme = server.address.partition("://")[0]
    with pytest.raises(StorageError, match="is not on the server of the table"):
        store.read(f"{scheme}://elsewhere{tmp_path}/a")
