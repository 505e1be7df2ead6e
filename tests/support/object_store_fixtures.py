"""Running object stores as fixtures: one of each kind for a worker of the tests."""

import gc
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from deltactl.log.committers import settle
from deltactl.storage.network import retry
from deltactl.storage.objects import connect
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.object_servers import SERVERS, ObjectServer, ServerMissingError

UNCLOSED_SESSIONS = [
    # aiohttp's sessions are closed by the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""For ``pytestmark`` of tests that use object stores."""

_numbers = itertools.count()


def choose_servers(*kinds: str, explored: Sequence[str] = ()) -> list[Any]:
    """Parameters for ``server``; tests of one stay on one worker, so that it starts once.

    Tests on those of ``explored`` are marked slow: no claim rests on them alone.
    """
    found = [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in kinds]
    for kind in explored:
        marks = [pytest.mark.xdist_group(kind), pytest.mark.slow]
        found.append(pytest.param(kind, marks=marks))
    return found


ALL_SERVERS = choose_servers(*SERVERS)
ALL_SERVICES = choose_servers("minio", "azurite", "fake-gcs", explored=["moto"])
"""One for each kind of store: MinIO keeps more promises of S3 than moto."""


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests that failed be sent again at once: by us, urllib3, botocore and gcsfs.

    For clients that are made afterwards. How often they are sent does not change.
    """
    monkeypatch.setattr(retry, "_FIRST_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(settle, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("urllib3.Retry.get_backoff_time", lambda _: 0.01)
    monkeypatch.setattr("botocore.retryhandler.delay_exponential", lambda *_, **__: 0.01)
    monkeypatch.setattr(
        "botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.01
    )
    monkeypatch.setattr("gcsfs.retry.min", lambda *_: 0.01, raising=False)


class Servers:
    """Starts servers when they are asked for, each once."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._started: dict[str, ObjectServer] = {}
        self._stack = ExitStack()

    def get(self, kind: str) -> ObjectServer:
        """The server of a kind; skips the test where it cannot be had."""
        if kind not in self._started:
            folder = self._folders.mktemp(kind)
            try:
                self._started[kind] = self._stack.enter_context(SERVERS[kind](folder))
            except ServerMissingError as error:
                pytest.skip(str(error))
        return self._started[kind]

    def stop(self) -> None:
        """Let go of the connections to them, and stop them all."""
        connect._recent.clear()
        gc.collect()
        self._stack.close()


@pytest.fixture(scope="session")
def object_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Object stores on the loopback."""
    servers = Servers(tmp_path_factory)
    try:
        yield servers
    finally:
        servers.stop()


@pytest.fixture
def server(object_servers: Servers, request: pytest.FixtureRequest) -> ObjectServer:
    """The server whose kind the test is parametrized with, indirectly."""
    return object_servers.get(request.param)


@pytest.fixture
def proxy(server: ObjectServer) -> Iterator[FaultProxy]:
    """Faults between a test and the server."""
    with fault_proxy(server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def root(server: ObjectServer) -> str:
    """The address of an empty folder on the server."""
    return f"{server.bucket}/{next(_numbers)}/a table"


def azure_blob(server: ObjectServer, root: str, name: str) -> Any:
    """Azure's own client of a file in a folder on the server."""
    from azure.storage.blob import BlobServiceClient

    service = BlobServiceClient.from_connection_string(server.options["connection_string"])
    container, _, folder = root.partition("://")[2].partition("/")
    return service.get_blob_client(container, f"{folder}/{name}")
