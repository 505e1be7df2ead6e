"""Clones from local files to an object store, inside it, and back."""

from pathlib import Path

import pytest

from deltactl import CloneOptions, SafetyError, Table, UsageError
from deltactl.operations.clone_notes import drop_note, find_notes, read_notes
from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import open_store
from tests.support.object_servers import AZURE_ACCOUNT, ObjectServer
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers
from tests.support.stores import MemoryStore
from tests.support.table_builder import TableBuilder, multiset
from tests.support.table_samples import build_sample

pytestmark = [
    *UNCLOSED_SESSIONS,
    pytest.mark.parametrize(
        "server", choose_servers("moto", "azurite", "fake-gcs", explored=["minio"]), indirect=True
    ),
]
_ACCOUNT = f"abfss://lake@{AZURE_ACCOUNT}.dfs.core.windows.net"


def build(folder: Path) -> TableBuilder:
    template = MemoryStore("memory://clone-object-stores")
    builder = build_sample(template, features="deletion-vectors", layout="partitioned")
    return builder.copy_to(LocalStore(str(folder)))


def test_clones_between_disk_and_object_store_have_the_same_rows(
    server: ObjectServer, root: str, tmp_path: Path
) -> None:
    builder = build(tmp_path / "source")
    expected = multiset(builder.rows())
    there = Table(root, server.options)
    report = Table(tmp_path / "source").clone(there, CloneOptions(deep=True))
    copied = report.files_copied
    beside = Table(f"{root} 2", server.options)
    report = there.clone(beside, CloneOptions(deep=True))
    assert report.files_copied == copied
    back = Table(tmp_path / "back")
    beside.clone(back, CloneOptions(deep=True, sync=True))
    for table in (there, beside, back):
        assert multiset(table.scan().read_all().to_pylist()) == expected
    builder.append([{"id": 5000, "p": "a"}])
    for source, target in ((Table(tmp_path / "source"), there), (there, beside), (beside, back)):
        report = source.clone(target, CloneOptions(deep=True, sync=True))
        assert (report.files_copied, report.version_after) == (1, 1)
    assert multiset(back.scan().read_all().to_pylist()) == multiset(builder.rows())


def test_shallow_inside_a_store(server: ObjectServer, root: str, tmp_path: Path) -> None:
    builder = build(tmp_path / "source")
    builder.copy_to(open_store(root, server.options))
    source = Table(root, server.options, warn=lambda _: None)
    target = Table(f"{root} 2", server.options, warn=lambda _: None)
    report = source.clone(target, CloneOptions(deep=False))
    assert report.notes == (source.uri,)
    assert multiset(target.scan().read_all().to_pylist()) == multiset(builder.rows())
    for given, other in (("az://lake", _ACCOUNT), ("s3:", "s3a:"), ("gs:", "gcs:")):
        if target.uri.startswith(given):
            spelled = Table(target.uri.replace(given, other, 1), server.options)
    store = open_store(root, server.options)
    (note,) = read_notes(store)
    assert spelled.check().notes == ()
    assert find_notes(store, spelled.uri, server.options) == (note,)
    drop_note(store, note)
    assert "has no record of this shallow clone" in spelled.check().notes[0]
    with pytest.raises(UsageError, match="has no record of a shallow clone"):
        find_notes(store, spelled.uri, server.options)
    inside = Table(f"{root}/inside", server.options)
    for place in (source, inside):
        with pytest.raises(SafetyError):
            source.clone(place, CloneOptions(deep=True))
