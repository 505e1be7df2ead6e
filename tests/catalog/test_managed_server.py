"""Managed tables on a real server of Unity Catalog, which decides their commits."""

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from deltactl import Table
from deltactl.errors import CommitOutcomeUnknownError, DeltactlError, UnsupportedFeatureError
from deltactl.protocol.names import LOG_DIR, STAGED_COMMITS_DIR
from tests.catalog.server_scene import PERMISSIONS, ServerScene
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
from tests.support.managed_tables import ADD_COMMIT, LOAD, REPORT, permitting
from tests.support.object_servers import ServerMissingError
from tests.support.table_builder import START_MS, commit_path

pytestmark = pytest.mark.usefixtures("short_pauses")

BUSY = json.dumps({"error": {"message": "busy", "type": "ResourceExhaustedException", "code": 429}})
GONE = b'{"error": {"message": "none", "type": "NotFoundException", "code": 404}}'
STAGED = f"{LOG_DIR}/{STAGED_COMMITS_DIR}"
_REQUESTS = {"load": ("GET", b""), "commit": ("POST", ADD_COMMIT), "report": ("POST", REPORT)}


def _requests(proxy: FaultProxy) -> str:
    """What was asked: for the name, then loads, commits and reports."""
    return " ".join(
        next((kind for kind in _REQUESTS if it in proxy.find(*_target_of(kind))), "name")
        for it in proxy.requests
    )


def _target_of(kind: str) -> tuple[str, str, bytes]:
    method, body = _REQUESTS[kind]
    return method, f"/delta/.*{LOAD}", body


def test_each_command_asks_the_catalog_as_often_as_it_must(
    unity: UnityServer, proxy: FaultProxy
) -> None:
    scene = ServerScene(unity, proxy)

    def asked(run: Callable[[Table], object]) -> str:
        proxy.clear()
        proxy.add(permitting(*PERMISSIONS))
        run(scene.table())
        return _requests(proxy)

    scene.table().history()  # the first asks which API the server has
    looking = "name load load"
    assert asked(lambda table: table.history()) == looking
    assert asked(lambda table: table.scan().read_all()) == looking
    assert asked(lambda table: table.check()) == f"{looking} load"
    assert asked(lambda table: table.optimize(dry_run=True)) == looking
    assert asked(lambda table: table.checkpoint()) == f"{looking} report"
    committing = "commit load report"
    assert asked(lambda table: table.optimize()) == f"{looking} load {committing} load load"
    assert asked(lambda table: table.vacuum()) == looking
    scene.ensure_whole()


_SUBSETS = [(), *((each,) for each in PERMISSIONS), PERMISSIONS, ("SOMETHING",)]


@pytest.mark.parametrize("granted", _SUBSETS, ids="+".join)
def test_what_the_catalog_does_not_allow_is_refused_by_name(
    unity: UnityServer, proxy: FaultProxy, granted: Sequence[str]
) -> None:
    scene = ServerScene(unity, proxy)
    removed = next(iter(scene.builder.data))
    staged = min(path.name for path in (scene.managed.folder / STAGED).iterdir())
    scene.builder.remove(removed)
    _let_grow_old(scene, 3)
    proxy.add(permitting(*granted))
    commands: dict[str, Callable[[bool], object]] = {
        "DATA_REORGANIZATION": lambda dry_run: scene.table().optimize(dry_run=dry_run),
        "DATA_CLEANUP": lambda dry_run: scene.table().vacuum(dry_run=dry_run),
        "METADATA_CLEANUP": lambda dry_run: scene.table().checkpoint(
            cleanup_only=True, dry_run=dry_run
        ),
    }
    scene.table().checkpoint()
    for permission, command in commands.items():
        command(True)
        if permission in granted:
            command(False)
            continue
        before = scene.latest()
        with pytest.raises(UnsupportedFeatureError, match=permission):
            command(False)
        assert scene.latest() == before
    assert (scene.managed.folder / removed).exists() is ("DATA_CLEANUP" not in granted)
    for name in (commit_path(0), f"{STAGED}/{staged}"):
        path = scene.managed.folder / name
        assert path.exists() is ("METADATA_CLEANUP" not in granted), name
    scene.ensure_read()


def _let_grow_old(scene: ServerScene, version: int) -> None:
    """Write a checkpoint of a version; let years go by, and a version follow."""
    scene.table().checkpoint(version=version)
    for seconds, path in enumerate(sorted(scene.managed.folder.rglob("*.*"))):
        os.utime(path, (START_MS / 1000 + seconds,) * 2)
    scene.builder._now_ms = int(time.time() * 1000) - 60_000
    scene.builder.append([{"id": 100}])


def test_log_cleanup_keeps_staged_files_that_the_catalog_names(
    unity: UnityServer, proxy: FaultProxy
) -> None:
    scene = ServerScene(unity, proxy)
    proxy.add(Rule(Cut(after=False), "POST", LOAD, REPORT, times=None), permitting(*PERMISSIONS))
    _let_grow_old(scene, 5)
    assert list(scene.managed.ratified()) == [5, 6]
    scene.table().checkpoint(cleanup_only=True)
    named = {scene.managed.folder / STAGED / name for name in scene.managed.ratified().values()}
    assert named <= set((scene.managed.folder / STAGED).iterdir())
    assert sorted(scene.table().scan().read_all()["id"].to_pylist()) == scene.ids()


_FAULTS: dict[str, Fault] = {
    "request lost": Cut(after=False),
    "answer lost": Cut(after=True),
    "sent twice": SendTwice(),
    "busy": Answer(429, after=False, body=BUSY.encode()),
    "busy, but done": Answer(429, after=True, body=BUSY.encode()),
    "failed, but done": Answer(500, after=True),
    "refused, but done": Answer(409, after=True, body=b"{}"),
}


# What a request for the table does not change, it has not done.
_ONCE = [
    (kind, fault) for kind in _REQUESTS for fault in _FAULTS if kind != "load" or "," not in fault
]


@pytest.mark.parametrize(("request_kind", "fault"), _ONCE)
def test_one_wrong_answer(
    unity: UnityServer, proxy: FaultProxy, request_kind: str, fault: str
) -> None:
    scene = ServerScene(unity, proxy)
    method, body = _REQUESTS[request_kind]
    proxy.add(Rule(_FAULTS[fault], method, LOAD, body), permitting(*PERMISSIONS))
    try:
        scene.table().optimize()
    except DeltactlError:
        scene.ensure_whole()
    scene.finish()
    assert scene.latest() == 6, "committed once"


@pytest.mark.parametrize(("loads", "is_lost"), [(3, False), (3, True), (4, False)])
def test_a_table_that_seems_gone_once_it_has_the_commit(
    unity: UnityServer, proxy: FaultProxy, loads: int, is_lost: bool
) -> None:
    """Three loads come before the commit. The new files stay, whatever the catalog says then."""
    scene = ServerScene(unity, proxy)
    proxy.add(Rule(Answer(404, after=False, body=GONE), "GET", LOAD, skip=loads, times=None))
    proxy.add(permitting(*PERMISSIONS))
    if is_lost:
        proxy.add(Rule(Cut(after=True), "POST", LOAD, ADD_COMMIT))
    with pytest.raises(CommitOutcomeUnknownError):
        scene.table().optimize()
    assert proxy.find("POST", LOAD, ADD_COMMIT)[0].status == 200
    scene.ensure_whole()


def test_a_full_backlog_is_published(unity: UnityServer, proxy: FaultProxy) -> None:
    scene = ServerScene(unity, proxy, unpublished=9)
    lost = Rule(Cut(after=False), "POST", LOAD, REPORT)
    proxy.add(lost, permitting(*PERMISSIONS))
    assert scene.table().optimize().versions == (14,)
    commits = proxy.find("POST", LOAD, ADD_COMMIT)
    assert [commit.status for commit in commits] == [429, 200]
    scene.finish()


def test_killed_at_each_call_of_commit_and_publication(
    unity: UnityServer, proxy: FaultProxy
) -> None:
    for calls in count():
        scene = ServerScene(unity, proxy)
        if scene.optimize_until_killed(calls):
            break
        scene.ensure_whole()
        scene.finish()
    assert calls > 10


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
        scene = ServerScene(server, proxy)
        proxy.add(Rule(Meanwhile(restart), "POST", LOAD, times=None), permitting(*PERMISSIONS))
        assert scene.table().optimize().versions == (6,)
        scene.managed = replace(scene.managed, server=restart())
        scene.ensure_whole()
