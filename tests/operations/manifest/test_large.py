"""Manifests of tables that do not fit the memory equal those of tables that do."""

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltactl.engine.base import CancelToken
from deltactl.errors import InterruptedRunError, StorageError, UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.manifest import content
from deltactl.operations.manifest.run import ManifestOptions, ManifestReport, generate_manifests
from deltactl.operations.run_context import RunContext
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from tests.support.clock import FixedClock
from tests.support.table_builder import Column, TableBuilder

COLUMNS = (Column("id"), Column("p", "string"))


def generate(store: Store, **more: Any) -> ManifestReport:
    context = RunContext(
        warn=lambda message: None, clock=FixedClock(), cancel=more.pop("cancel", None)
    )
    return generate_manifests(DeltaLog(store, context.warn), ManifestOptions(), context, **more)


def add_of(path: str, **values: str | None) -> dict[str, Any]:
    facts = {"size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": {"path": path, "partitionValues": values, **facts}}


def build(folder: Path, partition_by: list[str]) -> TableBuilder:
    """Return a table with 300 files in five commits, some with absolute paths."""
    store = LocalStore(str(folder))
    builder = TableBuilder(store, COLUMNS, partition_by=partition_by)
    chance = random.Random(7)
    for commit in range(5):
        adds = []
        for number in range(60):
            value = chance.choice(["a", "b c", None, "é%", "__HIVE_DEFAULT_PARTITION__"])
            path = f"p%20{value}/{commit}-{number}{'x' * chance.randrange(30)}"
            if chance.random() < 0.1:
                path = f"file:///elsewhere/{path}"
            adds.append(add_of(path, **dict.fromkeys(partition_by, value)))
        builder.commit(*adds)
    return builder


def contents(store: Store) -> dict[str, bytes]:
    names = [name for batch in store.walk(MANIFEST_DIR) for name in batch]
    return {name: store.read(name) for name in names}


def open_spills() -> list[str]:
    """Return the files without names that this process has open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(link.readlink()))
    return [name for name in found if name.endswith("(deleted)")]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let everything be spilled and every manifest be large; return the directory of the spill."""
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(content, "_MEMORY_BYTES", 100)
    monkeypatch.setattr(content, "_RENDERED_ROWS", 7)
    monkeypatch.setattr(content, "_LARGE_BYTES", 50)
    monkeypatch.setattr(content, "_READ_BYTES", 2000)
    yield folder
    assert not list(folder.iterdir())
    assert not [name for name in open_spills() if str(folder) in name]


@pytest.mark.parametrize("partition_by", [["p"], []])
def test_a_spill_changes_no_byte(
    tmp_path: Path, partition_by: list[str], request: pytest.FixtureRequest
) -> None:
    store = build(tmp_path / "t", partition_by).store
    usual = generate(store)
    wanted = contents(store)
    assert sum(len(it.splitlines()) for it in wanted.values()) == 300
    shutil.rmtree(tmp_path / "t" / MANIFEST_DIR)
    request.getfixturevalue("tiny")
    usage = shutil.disk_usage
    checks: Any = []
    request.getfixturevalue("monkeypatch").setattr(
        shutil, "disk_usage", lambda folder: usage(checks.append(folder) or folder)
    )
    report = generate(store)
    assert len(checks) > 10, "nothing was spilled"
    assert contents(store) == wanted
    assert report.plan.partitions == usual.plan.partitions
    assert generate(store).plan.is_empty


def test_the_order_of_lines_does_not_matter_but_each_line_does(tmp_path: Path, tiny: Path) -> None:
    store = build(tmp_path / "t", []).store
    generate(store)
    ((name, data),) = contents(store).items()
    found = data.splitlines(keepends=True)
    random.Random(1).shuffle(found)
    for end in (b"\n", b"\r\n"):
        store.put(name, b"".join(found).replace(b"\n", end))
        assert generate(store, dry_run=True).plan.is_empty
    store.put(name, b"".join(found)[:-1])
    assert generate(store, dry_run=True).plan.is_empty
    swapped = found[0][:-2] + b"?\n"
    for other in ([*found, found[0]], found[1:], [found[1], *found[1:]], [swapped, *found[1:]], []):
        store.put(name, b"".join(other))
        assert not generate(store, dry_run=True).plan.is_empty
    generate(store)
    assert contents(store) == {name: data}


def test_what_fails_leaves_no_spill(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = build(tmp_path / "t", ["p"])
    store = builder.store
    usage = SimpleNamespace(total=100, used=100, free=0)
    with (
        monkeypatch.context() as patched,
        pytest.raises(StorageError, match="which has only 0 B free"),
    ):
        patched.setattr(shutil, "disk_usage", lambda folder: usage)
        generate(store)
    assert not contents(store)
    cancel = CancelToken()
    cancel.set()
    with pytest.raises(InterruptedRunError):
        generate(store, cancel=cancel)
    builder.commit(add_of("a%0Ab", p="z"))
    with pytest.raises(UnsupportedFeatureError, match="line break"):
        generate(store)


def test_a_failure_while_a_large_one_is_written_keeps_the_old(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = build(tmp_path / "t", []).store
    name = f"{MANIFEST_DIR}/manifest"
    store.put(name, b"old\n")

    def fail(*_: Any) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched, pytest.raises(StorageError, match="cannot read the"):
        patched.setattr("os.preadv", fail)
        generate(store)
    assert contents(store) == {name: b"old\n"}
    assert [path.name for path in (tmp_path / "t" / MANIFEST_DIR).iterdir()] == ["manifest"]
