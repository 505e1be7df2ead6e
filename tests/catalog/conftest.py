"""A real server of Unity Catalog for the tests of a module, and a proxy before it."""

from collections.abc import Iterator

import pytest

from tests.support.catalog_servers import UnityServer, unity_server
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.object_servers import ServerMissingError


@pytest.fixture(scope="module")
def unity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnityServer]:
    """A server with the schema ``main.sales``, for tables in its folder."""
    folder = tmp_path_factory.mktemp("unity")
    try:
        with unity_server(folder) as running:
            running.add_catalog("main", "sales")
            running.add_folder(folder)
            yield running
    except ServerMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def proxy(unity: UnityServer) -> Iterator[FaultProxy]:
    """What deltactl asks in place of the server."""
    with fault_proxy(unity.address) as running:
        yield running
