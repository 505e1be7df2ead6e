"""What is alike on every kind of object store, against real servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.storage import conformance
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import ALL_SERVERS

pytestmark = [
    # aiohttp's sessions are closed by the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.parametrize("server", ALL_SERVERS, indirect=True),
]

# What a server lacks that the store which it stands for has.
NOT_OF_THE_SERVER = {
    # It finds no object with a newline in its name; its conditional put looks, then writes.
    "moto": {conformance.takes_strange_names, conformance.one_thread_wins},
    "minio": set(),
    "fake-gcs": set(),
    "azurite": set(),
}


@pytest.mark.parametrize("promise", conformance.PROMISES, ids=lambda promise: promise.__name__)
def test_promise(promise: Callable[[Store], None], server: ObjectServer, root: str) -> None:
    if promise in NOT_OF_THE_SERVER[server.kind]:
        pytest.skip("the server of the tests does not promise this itself")
    promise(open_store(root, server.options))
