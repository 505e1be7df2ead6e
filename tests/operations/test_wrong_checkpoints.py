"""A checkpoint can be read, but differs from the commits, and the checksum file shows it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltactl import Table, maintain
from deltactl.errors import DeltactlError, SafetyError, ignore_warning
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from tests.support.metered_store import MeteredStore
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path

Command = Callable[[Table], object]

_READ_FILES: dict[str, Command] = {
    "optimize": lambda table: table.optimize(),
    "optimize --dry-run": lambda table: table.optimize(dry_run=True),
    "clone --deep": lambda table: table.clone(Table("y", store=fresh_store()), deep=True),
    "restore of the checkpoint": lambda table: table.restore(version=3),
    "restore": lambda table: table.restore(version=0),
    "checkpoint": lambda table: table.checkpoint(),
    "check --fix stats": lambda table: table.fix(kind="stats"),
    "check --fix missing-files": lambda table: table.fix(kind="missing-files"),
    "check --fix path-encoding": lambda table: table.fix(kind="path-encoding"),
}
COMMANDS = _READ_FILES | {
    "alter": lambda table: table.alter(properties={"delta.appendOnly": "false"})
}

CHECKSUM = f"{LOG}/{3:020d}.crc"
CHECKPOINT = f"{LOG}/{3:020d}.checkpoint.parquet"


def build(change: str, **options: Any) -> TableBuilder:
    """Version 4. Its checkpoint of version 3 has the state of version 2."""
    builder = TableBuilder(fresh_store(), [Column("id")], **options)
    (path,) = builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    if change == "a removed file":
        builder.remove(path)
    elif change == "an added file":
        builder.append([{"id": 3}])
    else:
        builder.change_metadata(configuration={"delta.appendOnly": "false"})
    builder.append([{"id": 4}])
    builder.checkpoint(2)
    stale = f"{LOG}/{2:020d}.checkpoint.parquet"
    builder.store.put(CHECKPOINT, builder.store.read(stale))
    builder.store.delete_many([stale])
    builder.hint(3)
    put_checksum(builder)
    return builder


def put_checksum(builder: TableBuilder, **changes: int) -> None:
    """Write the checksum file of version 3 as its commit says, apart from the changes."""
    state = builder.state_at(3)
    node = {
        "numFiles": len(state.files),
        "tableSizeBytes": sum(add["size"] for add in state.files.values()),
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": state.metadata,
        "protocol": state.protocol,
    }
    builder.store.put(CHECKSUM, json.dumps(node | changes).encode())


def run(store: Store, command: str, warnings: list[str]) -> None:
    COMMANDS[command](Table("x", store=store, warn=warnings.append))


@pytest.mark.parametrize("command", _READ_FILES)
@pytest.mark.parametrize("change", ["a removed file", "an added file"])
def test_wrong_files_are_refused(command: str, change: str) -> None:
    store = build(change).store
    assert isinstance(store, MemoryStore)
    before = store.contents()
    with pytest.raises(SafetyError, match="checkpoint of version 3 .* instead of") as refused:
        run(store, command, [])
    table = store.uri if command.startswith("clone") else "TABLE"
    assert f"checkpoint {table} --repair" in str(refused.value.hint)
    assert store.contents() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_metadata_is_refused(command: str) -> None:
    store = build("metadata").store
    with pytest.raises(SafetyError, match="its metaData is different"):
        run(store, command, [])


@pytest.mark.parametrize("damage", ["wrong files", "a lost sidecar"])
def test_a_feature_is_not_dropped_in_part(damage: str) -> None:
    """It is dropped by several commits and checkpoints: the first commit would stay alone."""
    feature = "v2Checkpoint"
    builder = build("a removed file", features=[feature])
    if damage == "a lost sidecar":
        builder.store.delete_many([CHECKPOINT])
        builder.checkpoint(3, "v2-json")
        builder.store.delete_many([it.name for it in builder.store.list_from(f"{LOG}/_sidecars")])
    store = builder.store
    assert isinstance(store, MemoryStore)
    before = store.contents()
    for dry_run in (True, False):
        with pytest.raises(DeltactlError) as refused:
            Table("x", store=store, warn=ignore_warning).alter(
                drop_feature=feature, dry_run=dry_run
            )
        assert "checkpoint TABLE --repair" in str(refused.value.hint)
        assert "committed before this" not in refused.value.message
    assert store.contents() == before


def test_maintain_refuses_the_table(tmp_path: Path) -> None:
    build("a removed file").copy_to(LocalStore(str(tmp_path)))
    report = maintain([str(tmp_path)], warn=ignore_warning)
    (error,) = report.errors.values()
    assert (error.code, report.tables) == ("SAFETY", ())


def test_a_repair_is_the_way_out() -> None:
    builder = build("a removed file")
    table = Table("x", store=builder.store)
    assert table.repair_checkpoints().all_repaired
    assert len(table.optimize().versions) == 1
    rows = Table("x", store=builder.store).scan().read_all()
    assert sorted(rows["id"].to_pylist()) == [2, 4]


@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-json", "v2-inline"])
@pytest.mark.parametrize("wrong", [{"numFiles": 9}, {"tableSizeBytes": 9}])
def test_a_checkpoint_that_the_commits_prove_is_used(kind: str, wrong: dict[str, int]) -> None:
    builder = build("a removed file")
    builder.store.delete_many([CHECKPOINT])
    builder.checkpoint(3, kind)
    put_checksum(builder, **wrong)
    assert len(Table("x", store=builder.store, warn=pytest.fail).optimize().versions) == 1


def test_the_commits_that_are_left_can_prove_a_checkpoint_wrong() -> None:
    builder = build("a removed file")
    builder.forget_commits(3)
    with pytest.raises(SafetyError, match="2 files instead of 1"):
        run(builder.store, "optimize", [])


@pytest.mark.parametrize("damage", ["gone", "broken"])
def test_without_a_proof_the_checkpoint_is_used_and_a_warning_says_so(damage: str) -> None:
    builder = build("a removed file")
    if damage == "gone":
        builder.forget_commits(4)
    else:
        builder.store.put(commit_path(3), b"{")
    warnings: list[str] = []
    run(builder.store, "optimize", warnings)
    (said,) = (text for text in warnings if CHECKSUM in text)
    assert "numFiles is 1, but the log has 2" in said
    assert builder.store.stat_many([commit_path(5)]) != [None]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 100_000], ids=["empty", "no counts", "too deep"]
)
def test_a_checksum_file_that_cannot_be_parsed_says_nothing(content: bytes) -> None:
    builder = build("a removed file")
    builder.store.delete_many([CHECKPOINT])
    builder.checkpoint(3)
    builder.store.put(CHECKSUM, content)
    run(builder.store, "optimize --dry-run", [])


def test_a_checksum_file_costs_one_read() -> None:
    usages = []
    for has_checksum in (True, False):
        builder = build("a removed file")
        builder.store.delete_many([CHECKPOINT])
        builder.checkpoint(3)
        if not has_checksum:
            builder.store.delete_many([CHECKSUM])
        metered = MeteredStore(builder.store)
        run(metered, "optimize --dry-run", [])
        usages.append(metered.usage)
    with_one, without = usages
    assert with_one.reads == without.reads + 1
    others = ("lists", "stats", "ranges", "opens")
    assert [getattr(with_one, name) - getattr(without, name) for name in others] == [0] * 4
