"""Manifests on Azure have addresses that engines know, however the table is addressed."""

import pytest

from deltactl import (
    CloneOptions,
    MaintainPolicy,
    ManifestOptions,
    Table,
    UnsupportedFeatureError,
    maintain,
)
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.support.object_servers import AZURE_ACCOUNT, ObjectServer
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers
from tests.support.table_builder import Column, TableBuilder

pytestmark = [
    *UNCLOSED_SESSIONS,
    pytest.mark.parametrize("server", choose_servers("azurite"), indirect=True),
]
MANIFEST = "_symlink_format_manifest/manifest"


def with_account(root: str) -> str:
    place = f"lake@{AZURE_ACCOUNT}.dfs.core.windows.net"
    return root.replace("az://lake", f"abfss://{place}")


def build(store: Store) -> list[str]:
    properties = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    builder = TableBuilder(store, [Column("id")], properties=properties)
    return builder.append([{"id": 1}], [{"id": 2}])


def test_all_addresses_give_the_same_manifests(server: ObjectServer, root: str) -> None:
    store = open_store(root, server.options)
    names, address = build(store), with_account(root)
    warnings: list[str] = []
    policy = MaintainPolicy(actions=["manifest"])
    Table(root, server.options).generate_manifest()
    written = store.read(MANIFEST).decode().splitlines()
    assert sorted(written) == sorted(f"{address}/{name}" for name in names)
    for other in (root, address, address.replace("abfss:", "abfs:")):
        table = Table(other, server.options, warn=warnings.append)
        assert table.generate_manifest().plan.is_empty
        (create,) = table.generate_manifest(ddl="trino").ddl
        assert f"LOCATION '{address}/_symlink_format_manifest/'" in create
        maintain([other], policy, storage_options=server.options, warn=warnings.append)
    assert store.read(MANIFEST).decode().splitlines() == written
    assert warnings == []


def test_manifests_of_earlier_versions_are_replaced(server: ObjectServer, root: str) -> None:
    store = open_store(root, server.options)
    names, address = build(store), with_account(root)
    store.put(MANIFEST, "".join(f"{root}/{name}\n" for name in names).encode())
    Table(root, server.options).optimize()
    (line,) = store.read(MANIFEST).decode().splitlines()
    assert line.startswith(f"{address}/")
    mapped = ManifestOptions(schemes={"abfss": "abfs"})
    Table(root, server.options).generate_manifest(mapped)
    assert store.read(MANIFEST).decode() == line.replace("abfss:", "abfs:") + "\n"


def test_files_of_a_shallow_clone(server: ObjectServer, root: str) -> None:
    names = build(open_store(root, server.options))
    clone = Table(f"{root} 2", server.options, warn=lambda _: None)
    source = Table(root, server.options, warn=lambda _: None)
    source.clone(clone, CloneOptions(deep=False))
    clone.generate_manifest()
    written = open_store(clone.uri, server.options).read(MANIFEST).decode().splitlines()
    assert sorted(written) == sorted(f"{with_account(root)}/{name}" for name in names)


def test_an_unknown_account_is_refused(
    server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = TableBuilder(open_store(root, server.options), [Column("id")])
    builder.append([{"id": 1}])
    said: list[str] = []
    table = Table(root, server.options, warn=said.append)
    table.generate_manifest()
    service = "deltactl.storage.objects.azure.AzureService"
    monkeypatch.setattr(f"{service}._account", "")
    with pytest.raises(UnsupportedFeatureError, match="account is not known") as caught:
        table.generate_manifest()
    assert "Give the address as abfss://CONTAINER@ACCOUNT" in (caught.value.hint or "")
    assert table.restore(version=0).version_after == 2  # a warning, no error after the commit
    assert any("the manifests in" in text for text in said)
