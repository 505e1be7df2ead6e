"""Tables by their names, on a real server of Unity Catalog."""

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltactl import Table
from deltactl.catalog.names import parse_name
from deltactl.catalog.open import connect_to, list_tables, locate
from deltactl.errors import NotATableError, StorageError, UnsupportedFeatureError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.register.options import RegisterOptions
from deltactl.operations.register.run import RegisterReport, register_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.open import open_store
from deltactl.storage.vended import VendedOptions
from tests.support.catalog_servers import UnityServer
from tests.support.managed_tables import read_with_duckdb
from tests.support.object_servers import AZURE_ACCOUNT, ObjectServer
from tests.support.object_store_fixtures import choose_servers

COLUMNS = (("id", "long"), ("text", "string"))


@pytest.fixture
def options(unity: UnityServer) -> dict[str, str]:
    return {"databricks_host": unity.address, "databricks_token": "not-checked"}


def write(folder: Path, files: int) -> None:
    for number in range(files):
        rows = pa.table({"id": [number], "text": [str(number)]})
        deltalake.write_deltalake(folder, rows, mode="append")


@pytest.mark.xdist_group("azurite")
def test_tables_on_this_machine(unity: UnityServer, options: dict[str, str]) -> None:
    folder = unity.folder / "local"
    write(folder, 3)
    unity.add_table("main.sales.local", folder.as_uri(), *COLUMNS)
    table = Table("uc://main.sales.local", options)
    report = table.optimize()
    assert (report.files_removed, report.files_added) == (3, 1)
    assert table.check().findings.num_rows == 0
    entry = table.detail().entry
    assert entry is not None
    assert entry.table_type == "EXTERNAL"
    with pytest.raises(NotATableError, match="Did you mean uc://main.sales.local"):
        Table("uc://main.sales.locla", options).snapshot()
    found = [each.name for each in list_tables("uc://main.*.loc*", options)]
    assert found == ["uc://main.sales.local"]


@pytest.mark.parametrize("server", choose_servers("azurite"), indirect=True)
def test_signatures_of_the_server_open_azurite(
    unity: UnityServer, options: dict[str, str], server: ObjectServer, tmp_path: Path
) -> None:
    place = f"abfss://lake@{AZURE_ACCOUNT}.dfs.core.windows.net/by-name"
    write(tmp_path / "t", 3)
    store = open_store("az://lake/by-name", server.options)
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(tmp_path / "t")), path.read_bytes())
    unity.add_azurite(place.removesuffix("/by-name"))
    unity.add_table("main.sales.far", place, *COLUMNS)
    endpoint = f"BlobEndpoint={server.endpoint}/{AZURE_ACCOUNT};SharedAccessSignature=none"
    options |= {"connection_string": endpoint}
    table = Table("uc://main.sales.far", options)
    assert table.optimize().files_removed == 3
    assert table.scan().read_all().num_rows == 3
    located = locate("uc://main.sales.far", options, read_only=True)
    assert isinstance(located.options, VendedOptions)
    with pytest.raises(StorageError):
        open_store(located.uri, located.options).put("a", b"x")


@pytest.mark.xdist_group("azurite")
def test_register(unity: UnityServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", unity.address)
    folder = unity.folder / "registered"
    write(folder, 2)
    log = DeltaLog.open(folder.as_uri(), warn=pytest.fail, read_only=True)
    name = parse_name("uc://main.sales.registered")
    context = RunContext(warn=pytest.fail)
    catalog = connect_to(name, {})

    def register(**options: bool) -> RegisterReport:
        return register_table(log, name, catalog, RegisterOptions(**options), context)

    assert not register(check=True).is_done
    assert not register().existed
    assert register(check=True).is_done
    assert Table(str(name)).snapshot().version == 1
    assert read_with_duckdb(unity.address, "main.sales.registered") == [(0, "0"), (1, "1")]
    with pytest.raises(UsageError, match="manifests"):
        register(manifest=True)
    rows = pa.table({"id": [2], "text": ["2"], "more": [0.5]})
    deltalake.write_deltalake(folder, rows, mode="append", schema_mode="merge")
    log.update()
    with pytest.raises(UnsupportedFeatureError, match="no request that changes a table"):
        register(sync=True)
