"""Managed tables on a real server of Unity Catalog, which decides their commits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, combinations, count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from deltactl import Table
from deltactl.catalog.http import HttpClient
from deltactl.errors import DeltactlError, UnsupportedFeatureError
from deltactl.storage.open import open_store
from tests.support.catalog_servers import UnityServer, unity_server
from tests.support.fault_proxy import (
    Answer,
    Cut,
    Fault,
    FaultProxy,
    Meanwhile,
    Rule,
    SendTwice,
    fault_proxy,
)
from tests.support.forwarding import Call, InterceptingStore
from tests.support.managed_tables import (
    ADD_COMMIT,
    LOAD,
    REPORT,
    create_managed,
    permitting,
    read_with_duckdb,
)
from tests.support.object_servers import ServerMissingError
from tests.support.table_builder import Column

PERMISSIONS = ("DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP")
BUSY = json.dumps({"error": {"message": "busy", "type": "ResourceExhaustedException", "code": 429}})
_numbers = count()


@pytest.fixture(scope="module")
def unity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnityServer]:
    try:
        with unity_server(tmp_path_factory.mktemp("unity")) as running:
            running.add_catalog("main", "sales")
            yield running
    except ServerMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def proxy(unity: UnityServer) -> Iterator[FaultProxy]:
    with fault_proxy(unity.address) as running:
        yield running


class Scene:
    """A table of four files; the newest commits of another writer are not published."""

    def __init__(self, unity: UnityServer, proxy: FaultProxy, *, unpublished: int = 1) -> None:
        self.proxy, name = proxy, f"main.sales.t{next(_numbers)}"
        self.managed, self.builder = create_managed(unity, name, [Column("id")])
        for number in range(4):
            self.builder.append([{"id": number}])
        self.builder.store.publishes = False  # type: ignore[attr-defined]
        for number in range(unpublished):
            self.builder.append([{"id": 4 + number}])

    def table(self) -> Table:
        options = {"databricks_host": self.proxy.endpoint, "databricks_token": "not-checked"}
        return Table(f"uc://{self.managed.name}", storage_options=options)

    def ensure_whole(self) -> None:
        """We and DuckDB read the rows of the builder; no version is missing or damaged."""
        rows = sorted((row["id"],) for row in self.builder.rows())
        assert read_with_duckdb(self.managed.server.address, self.managed.name) == rows
        self.proxy.clear()
        table = self.table()
        assert sorted(table.scan().read_all()["id"].to_pylist()) == [id for (id,) in rows]
        versions = table.history()["version"].to_pylist()
        assert versions == list(range(self.managed.load()["latest-table-version"], -1, -1))
        for version in versions:
            table.scan(version).read_all()
        assert not table.check().findings.num_rows


def _requests(proxy: FaultProxy) -> list[str]:
    """What was asked: loads, commits, reports, and the rest by its target."""
    found = []
    for it in proxy.requests:
        if ADD_COMMIT in it.body:
            found.append("commit")
        elif REPORT in it.body:
            found.append("report")
        elif it.method == "GET" and "/delta/v1/" in it.target and "/tables/" in it.target:
            found.append("load")
        else:
            found.append(it.target.partition("unity-catalog/")[2].split("/")[0].partition("?")[0])
    return found


def test_each_command_asks_the_catalog_as_often_as_it_must(
    unity: UnityServer, proxy: FaultProxy
) -> None:
    scene = Scene(unity, proxy)
    asked: dict[str, list[str]] = {}

    def count_of(what: str, run: Callable[[Table], object]) -> None:
        proxy.clear()
        proxy.add(permitting(*PERMISSIONS))
        run(scene.table())
        asked[what] = _requests(proxy)

    count_of("describe-history", lambda table: table.history())
    count_of("scan", lambda table: table.scan().read_all())
    count_of("checkpoint", lambda table: table.checkpoint())
    count_of("optimize, dry run", lambda table: table.optimize(dry_run=True))
    count_of("optimize", lambda table: table.optimize())
    count_of("vacuum", lambda table: table.vacuum())
    print(asked)
    scene.ensure_whole()


_SUBSETS = [*chain.from_iterable(combinations(PERMISSIONS, n) for n in range(4)), ("SOMETHING",)]


@pytest.mark.parametrize("granted", _SUBSETS, ids="+".join)
def test_what_the_catalog_does_not_allow_is_refused_by_name(
    unity: UnityServer, proxy: FaultProxy, granted: Sequence[str]
) -> None:
    scene = Scene(unity, proxy)
    proxy.add(permitting(*granted))
    commands: dict[str, Callable[[Table], object]] = {
        "DATA_REORGANIZATION": lambda table: table.optimize(),
        "DATA_CLEANUP": lambda table: table.vacuum(),
        "METADATA_CLEANUP": lambda table: table.checkpoint(cleanup_only=True),
    }
    scene.table().checkpoint()
    for permission, command in commands.items():
        if permission in granted:
            command(scene.table())
            continue
        before = scene.managed.load()["latest-table-version"]
        with pytest.raises(UnsupportedFeatureError, match=permission):
            command(scene.table())
        assert scene.managed.load()["latest-table-version"] == before
    scene.ensure_whole()


_FAULTS: dict[str, Fault] = {
    "request lost": Cut(after=False),
    "answer lost": Cut(after=True),
    "sent twice": SendTwice(),
    "busy": Answer(429, after=False, body=BUSY.encode()),
    "busy, but done": Answer(429, after=True, body=BUSY.encode()),
    "failed, but done": Answer(500, after=True),
    "refused, but done": Answer(409, after=True, body=b"{}"),
}


_REQUESTS = {"load": ("GET", b""), "commit": ("POST", ADD_COMMIT), "report": ("POST", REPORT)}


@pytest.mark.parametrize("request_kind", _REQUESTS)
@pytest.mark.parametrize("fault", _FAULTS)
def test_one_wrong_answer(
    unity: UnityServer, proxy: FaultProxy, fault: str, request_kind: str
) -> None:
    scene = Scene(unity, proxy)
    method, body = _REQUESTS[request_kind]
    proxy.add(Rule(_FAULTS[fault], method, LOAD, body), permitting(*PERMISSIONS))
    try:
        scene.table().optimize()
    except DeltactlError:
        scene.ensure_whole()
        proxy.add(permitting(*PERMISSIONS))
        scene.table().optimize()
    scene.ensure_whole()


class _Killed(BaseException):
    """The process is over: nothing that follows has an effect."""


class _Life:
    """Counts calls that change something or ask the catalog; ends at one of them."""

    def __init__(self, last: int) -> None:
        self._left, self.begun = last, False

    def spend(self, name: str = "") -> None:
        self.begun = self.begun or "_staged_commits" in name
        if self.begun and self._left <= 0:
            raise _Killed
        self._left -= self.begun


class _Mortal(InterceptingStore):
    def __init__(self, inner: Any, life: _Life) -> None:
        super().__init__(inner)
        self._life = life

    def _intercept(self, call: Call) -> Any:
        if call.method not in ("read", "read_many", "read_ranges", "read_tail", "stat_many"):
            self._life.spend(next(iter(call.names), ""))
        return call.do()


def test_killed_at_each_call_of_commit_and_publication(
    unity: UnityServer, proxy: FaultProxy
) -> None:
    for calls in count():
        scene = Scene(unity, proxy)
        proxy.add(permitting(*PERMISSIONS))
        if _run_until_killed(scene, calls):
            break
        scene.ensure_whole()
        proxy.add(permitting(*PERMISSIONS))
        scene.table().optimize()
        scene.ensure_whole()
        files = (scene.managed.folder / "_delta_log").glob("*.json")
        assert len(list(files)) == 1 + scene.managed.load()["latest-table-version"]
    assert calls > 4


def _run_until_killed(scene: Scene, calls: int) -> bool:
    """Optimize; return whether it came to its end within so many calls."""
    life, sent = _Life(calls), HttpClient._send

    def send(self: HttpClient, *args: Any, **options: Any) -> Any:
        life.spend()
        return sent(self, *args, **options)

    with (
        patch("deltactl.log.delta_log.open_store", lambda *args: _Mortal(open_store(*args), life)),
        patch.object(HttpClient, "_send", send),
    ):
        try:
            scene.table().optimize()
        except _Killed:
            return False
    return True


def test_the_server_restarts_before_each_request(tmp_path: Path) -> None:
    with ExitStack() as stack, fault_proxy("http://127.0.0.1") as proxy:

        def restart() -> UnityServer:
            stack.close()
            server = stack.enter_context(unity_server(tmp_path, is_kept=True))
            proxy.stand_before(server.address)
            return server

        try:
            server = restart()
        except ServerMissingError as error:
            pytest.skip(str(error))
        server.add_catalog("main", "sales")
        scene = Scene(server, proxy)
        proxy.add(Rule(Meanwhile(restart), "POST", LOAD, times=None))
        proxy.add(permitting(*PERMISSIONS))
        assert scene.table().optimize().versions == (6,)
        scene.managed = replace(scene.managed, server=restart())
        scene.ensure_whole()
