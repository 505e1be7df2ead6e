"""What is left of a damaged log, and what must not be guessed."""

import threading

import pyarrow as pa
import pytest

from deltactl import Table
from deltactl.errors import CorruptLogError, MissingActionError
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from tests.support.stores import fresh_store
from tests.support.table_builder import (
    LOG,
    Column,
    TableBuilder,
    checkpoint_parquet,
    commit_path,
)


def build(commits: int = 6) -> TableBuilder:
    builder = TableBuilder(fresh_store(), [Column("id")], features=["domainMetadata"])
    for number in range(commits):
        builder.append([{"id": number}])
    return builder


def checkpoints(builder: TableBuilder) -> list[str]:
    names = [name for batch in builder.store.walk() for name in batch]
    return sorted(name for name in names if ".checkpoint" in name)


def test_files_have_the_columns_of_an_add() -> None:
    snapshot = DeltaLog(build().store, pytest.fail).snapshot()
    assert snapshot.files.schema == ADD_SCHEMA
    empty = DeltaLog(build(0).store, pytest.fail).snapshot()
    assert empty.files.schema == ADD_SCHEMA
    assert (empty.num_files, empty.size_bytes) == (0, 0)


def test_files_are_loaded_once_by_many_threads() -> None:
    snapshot = DeltaLog(build().store, pytest.fail).snapshot()
    seen: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: seen.append(snapshot.files)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {table.num_rows for table in seen} == {6}
    assert len(set(map(id, seen))) == 1


@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-json", "v2-parquet", "v2-inline"])
def test_a_broken_checkpoint_falls_back_to_an_older_one(kind: str) -> None:
    builder = build()
    builder.checkpoint(2, "classic")
    builder.checkpoint(5, kind)
    builder.forget_commits(2)
    broken = next(name for name in checkpoints(builder) if f"{5:020d}" in name)
    builder.store.put(broken, builder.store.read(broken)[:-20])
    warnings: list[str] = []
    snapshot = DeltaLog(builder.store, warnings.append).snapshot()
    assert snapshot.segment.checkpoint_version == 2
    assert snapshot.num_files == 6
    assert broken in warnings[0]


def test_the_hint_does_not_hide_an_older_checkpoint() -> None:
    builder = build()
    builder.checkpoint(2)
    builder.checkpoint(5)
    builder.hint(5)
    builder.store.put(checkpoints(builder)[-1], b"PAR1PAR1")
    warnings: list[str] = []
    snapshot = DeltaLog(builder.store, warnings.append).snapshot()
    assert snapshot.segment.checkpoint_version == 2
    assert snapshot.num_files == 6


def test_without_anything_older_the_broken_checkpoint_is_the_error() -> None:
    builder = build()
    builder.checkpoint(5)
    builder.forget_commits(5)
    (name,) = checkpoints(builder)
    builder.store.put(name, b"PAR1PAR1")
    with pytest.raises(CorruptLogError, match=name) as caught:
        DeltaLog(builder.store, lambda message: None).snapshot()
    assert caught.value.hint is not None and "--repair" not in caught.value.hint


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_checkpoint_without_a_non_file_action(missing: str) -> None:
    builder = build(1)
    actions = [
        action
        for action in ({"protocol": builder.state.protocol}, {"metaData": builder.state.metadata})
        if missing not in action
    ]
    builder.store.put(f"{LOG}/{1:020d}.checkpoint.parquet", checkpoint_parquet(actions))
    builder.forget_commits(1)
    with pytest.raises(MissingActionError, match=f"no {missing} action"):
        DeltaLog(builder.store, pytest.fail).snapshot()


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_commits_without_a_non_file_action(missing: str) -> None:
    builder = build()
    lines = builder.store.read(commit_path(0)).splitlines()
    kept = [line for line in lines if f'"{missing}"'.encode() not in line]
    builder.store.put(commit_path(0), b"\n".join(kept))
    with pytest.raises(MissingActionError, match=f"no {missing} action"):
        DeltaLog(builder.store, pytest.fail).snapshot()


def test_a_missing_sidecar_is_named() -> None:
    builder = build()
    builder.checkpoint(5, "v2-json")
    (sidecar, *_) = [name for name in checkpoints(builder) if "_sidecars" in name]
    builder.store.delete_many([sidecar])
    snapshot = DeltaLog(builder.store, lambda message: None).snapshot()
    assert snapshot.segment.checkpoint_version == 5
    with pytest.raises(CorruptLogError, match="_sidecars"):
        _ = snapshot.files


def test_sidecars_by_absolute_address() -> None:
    builder = build()
    builder.checkpoint(5, "v2-json")
    top = next(name for name in checkpoints(builder) if name.endswith(".json"))
    text = builder.store.read(top).decode()
    moved = text.replace('"path": "0', f'"path": "{builder.store.uri}/{LOG}/_sidecars/0')
    assert moved != text
    builder.store.put(top, moved.encode())
    snapshot = DeltaLog(builder.store, pytest.fail).snapshot(5)
    assert snapshot.num_files == 5


@pytest.mark.parametrize("kind", ["v2-json", "v2-parquet", "v2-classic"])
def test_files_beside_sidecars_are_read_too(kind: str) -> None:
    """The protocol forbids it, and readers take both: what we passed by a vacuum would remove."""
    builder = build()
    builder.checkpoint(5, kind, mixed=2)
    snapshot = DeltaLog(builder.store, pytest.fail).snapshot(5)
    assert snapshot.segment.checkpoint_version == 5
    assert snapshot.num_files == 5
    assert set(snapshot.files["path"].to_pylist()) == {p for p, _ in builder.state_at(5).files}


@pytest.mark.parametrize("content", [b"", b'{"add":'], ids=["empty", "torn"])
@pytest.mark.parametrize("version", [5, None], ids=["checkpoint", "no checkpoint"])
def test_the_hint_of_a_damaged_commit_loses_no_version_that_can_be_read(
    version: int | None, content: bytes
) -> None:
    builder = build()
    if version is not None:
        builder.checkpoint(version)
    builder.store.put(commit_path(3), content)
    table = Table("x", store=builder.store, warn=pytest.fail)
    with pytest.raises(CorruptLogError) as caught:
        table.vacuum(mode="full")
    hint = caught.value.hint or ""
    if version is None:
        assert "`deltactl clone TABLE NEW --deep --version 2`" in hint
        assert DeltaLog(builder.store, pytest.fail).snapshot(2).num_files == 2
    else:
        assert "copy the latest version to a new table with `deltactl clone TABLE NEW --d" in hint
        assert "--version" not in hint
        assert DeltaLog(builder.store, pytest.fail).snapshot().num_files == 6
