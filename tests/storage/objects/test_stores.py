"""What is alike on every kind of object store, against real servers."""

from collections.abc import Callable

import pytest

from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.storage import conformance
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import ALL_SERVICES, UNCLOSED_SESSIONS

pytestmark = [*UNCLOSED_SESSIONS, pytest.mark.parametrize("server", ALL_SERVICES, indirect=True)]

# What a server lacks that the store which it stands for has.
NOT_OF_THE_SERVER = {
    # It finds no object with a newline in its name; its conditional put looks, then writes.
    "moto": {conformance.takes_strange_names, conformance.one_thread_wins},
    "minio": set(),
    "fake-gcs": set(),
    "azurite": set(),
}


@pytest.mark.parametrize("promise", conformance.PROMISES, ids=lambda promise: promise.__name__)
def test_an_object_store_passes_the_conformance_suite(
    promise: Callable[[Store], None], server: ObjectServer, root: str
) -> None:
    if promise in NOT_OF_THE_SERVER[server.kind]:
        pytest.skip("the server of the tests does not promise this itself")
    promise(open_store(root, server.options))


def test_what_is_large_goes_up_in_parts(server: ObjectServer, root: str) -> None:
    store = open_store(root, server.options)
    piece = bytes(range(256)) * 4096
    with store.open_output("large.parquet") as file:
        for _ in range(35):
            file.write(piece)
    assert store.read("large.parquet") == piece * 35
    assert store.read_ranges("large.parquet", [(34 << 20, 10)]) == [piece[:10]]
    with store.open_input("large.parquet") as source:
        assert source.size() == 35 << 20
        assert source.read_at(300, (1 << 20) - 100) == (piece * 2)[(1 << 20) - 100 :][:300]
    given_up = store.open_replacement("large.parquet")
    given_up.write(piece * 20)
    given_up.discard()
    del given_up
    lost = store.open_replacement("large.parquet")
    lost.write(piece * 20)
    del lost
    assert store.stat_many(["large.parquet"])[0] == next(store.list_from("", "large"))
    assert [name for names in store.walk() for name in names] == ["large.parquet"]
