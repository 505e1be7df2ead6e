"""Partitions whose directories some file systems take for one."""

import pytest

from deltactl.errors import SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.run_context import RunContext
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store
from tests.support.folding_store import FoldingStore
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import Column, TableBuilder


def table(*values: str) -> tuple[TableBuilder, MemoryStore]:
    store = fresh_store()
    builder = TableBuilder(store, [Column("p", "string"), Column("id")], partition_by=["p"])
    builder.append(*([{"p": value, "id": number}] for number, value in enumerate(values)))
    return builder, store


def generate(store: Store) -> None:
    context = RunContext(warn=pytest.fail, sleep=lambda _: None)
    generate_manifests(DeltaLog(store, pytest.fail), ManifestOptions(), context)


def manifests(store: MemoryStore) -> dict[str, bytes]:
    kept = {name: data for name, data in store.contents().items() if name.startswith(MANIFEST_DIR)}
    assert not any(name.startswith(f"{OWN_DIR}/p=") for name in store.contents())
    return kept


@pytest.mark.parametrize("values", [("DE", "de"), ("\u00e9", "e\u0301"), ("a", "DE", "dE", "de")])
def test_partitions_that_would_share_a_manifest_are_refused(values: tuple[str, ...]) -> None:
    _, store = table(*values)
    with pytest.raises(SafetyError, match="takes 'p=.*' and 'p=.*' for one directory"):
        generate(FoldingStore(store))
    assert manifests(store) == {}
    generate(store)
    assert len(manifests(store)) == len(values)


def test_the_manifest_of_a_removed_partition_may_be_that_of_a_live_one() -> None:
    builder, store = table("DE")
    generate(FoldingStore(store))
    before = manifests(store)
    [(path, _)] = builder.state.files
    builder.remove(path)
    builder.append([{"p": "de", "id": 1}])
    with pytest.raises(SafetyError, match="takes 'p=DE' and 'p=de' for one directory"):
        generate(FoldingStore(store))
    assert manifests(store) == before


def test_other_partitions_need_no_trial() -> None:
    _, store = table("a", "b")
    generate(FoldingStore(store))
    assert len(manifests(store)) == 2
