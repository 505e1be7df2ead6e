"""After lost commits, there is a checkpoint of another table, or of the table that replaced it."""

import shlex
from functools import partial
from pathlib import Path

import pytest

from deltactl.errors import DeltactlError, SafetyError, ignore_warning
from deltactl.log.audit.evidence import find_foreign_id
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table, TableWarning
from tests.interop.judges import rows_with_delta_rs
from tests.support.checkpoints import DAY_MS, NOW_MS, fail, memory_of, new_table
from tests.support.clock import FixedClock
from tests.support.damage import check, codes
from tests.support.run import run_on
from tests.support.stores import CountingStore
from tests.support.table_builder import LOG, TableBuilder, commit_path, encode_lines

NAME = f"{LOG}/{4:020d}.checkpoint.parquet"
OTHER = "cb6a71b5-0000-4000-8000-000000000000"


def build(id_: str | None = OTHER, *, goes_on: bool = True) -> TableBuilder:
    """Commits 0 to 2, a checkpoint of version 4, and commit 5 with the id of the checkpoint."""
    builder, other = new_table(), new_table()
    for number in (1, 2):
        builder.append([{"id": number, "p": None}])
    if id_ is not None:
        other.change_metadata(id=id_)
    while other.version < 4:
        other.commit({"txn": {"appId": "a", "version": other.version}})
    other.checkpoint(4)
    other.hint(4)
    for name in (NAME, f"{LOG}/_last_checkpoint"):
        builder.store.put(name, other.store.read(name))
    if goes_on:
        Table("x", store=builder.store).alter(properties={"deltactl.versionAfter": "4"})
    return builder


def age(builder: TableBuilder) -> None:
    memory = memory_of(builder)
    for number, name in enumerate(sorted(memory.contents())):
        memory.set_modified(name, NOW_MS - 50 * DAY_MS + 1000 * number)


def clean(builder: TableBuilder) -> None:
    age(builder)
    run = partial(checkpoint_table, confirm=lambda _: True)
    options, clock = CheckpointOptions(cleanup=True), FixedClock(NOW_MS)
    run_on(builder.store, run, options, clock=clock, warn=ignore_warning)


def repair_of(builder: TableBuilder, *, checkpoints: bool = False) -> str:
    report = check(builder.store, checkpoints=checkpoints)
    assert codes(report) == ["CHECKPOINT_DOUBTFUL", "HISTORY_GAP"]
    doubtful, gap = report.findings.to_pylist()
    assert doubtful["file"] == NAME
    assert f"its metaData has the id {OTHER}, which no file up to ver" in doubtful["problem"]
    assert "alter" not in gap["repair"]
    return str(doubtful["repair"])


def test_a_cleanup_is_refused() -> None:
    builder = build()
    before = set(memory_of(builder).contents())
    with pytest.raises(SafetyError, match="may be of another table") as caught:
        clean(builder)
    assert "Run `deltactl check" in str(caught.value.hint)
    assert set(memory_of(builder).contents()) == before


def test_the_automatic_cleanup_is_left_out() -> None:
    builder, said = build(), list[str]()
    Table("x", store=builder.store).checkpoint()
    age(builder)
    files = [builder.write_file([{"id": number, "p": None}]) for number in (3, 4)]
    action = builder.metadata_action(id=OTHER, properties={"delta.checkpointInterval": "1"})
    builder.store.put(commit_path(6), encode_lines([{"commitInfo": {}}, action, *files]))
    memory_of(builder).set_modified(commit_path(6), NOW_MS - 10 * DAY_MS)
    before = set(memory_of(builder).contents())
    options, clock = OptimizeOptions(), FixedClock(NOW_MS)
    run_on(builder.store, optimize_table, options, clock=clock, warn=said.append)
    (warning,) = said
    assert "the log was not cleaned up: the cleanup would delete versions up to 2 of" in warning
    assert before < set(memory_of(builder).contents())


def test_without_lost_commits_only_the_comparison_finds_the_id() -> None:
    builder, other = new_table(), new_table()
    other.change_metadata(id=OTHER)
    builder.commit({"txn": {"appId": "a", "version": 1}})
    other.checkpoint(1)
    name = f"{LOG}/{1:020d}.checkpoint.parquet"
    builder.store.put(name, other.store.read(name))
    assert codes(check(builder.store)) == []
    assert codes(check(builder.store, checkpoints=True)) == ["CHECKPOINT_DOUBTFUL"]


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("checkpoints", [False, True])
def test_the_advised_restore_brings_the_rows_back(
    tmp_path: Path, goes_on: bool, checkpoints: bool
) -> None:
    builder = build(goes_on=goes_on)
    table = Table("x", store=builder.store)
    with pytest.raises(DeltactlError, match="was not repaired"):
        table.repair_checkpoints()
    command = f"`deltactl restore {shlex.quote(builder.store.uri)} --to-version 2`"
    advice = repair_of(builder, checkpoints=checkpoints)
    assert command in advice
    assert ("write again what later commits added" in advice) is goes_on
    assert not table.snapshot().num_files
    with pytest.warns(TableWarning, match="transactions since version 2, such as 'a' up to 3"):
        table.restore(version=2)
    assert codes(check(builder.store)) == ["HISTORY_GAP"]
    assert repair_of(builder, checkpoints=True).startswith("keep this file until a log cleanup")
    for step in ("restored", "cleaned"):
        builder.copy_to(LocalStore(str(tmp_path / step)))
        assert sorted(it["id"] for it in rows_with_delta_rs(tmp_path / step)) == [1, 2]
        clean(builder)
    assert NAME not in memory_of(builder).contents()
    assert codes(check(builder.store, checkpoints=True)) == []


def test_a_table_that_a_lost_commit_replaced() -> None:
    builder = build()
    assert "the log files up to version 2 out of the table" in repair_of(builder)
    builder.store.delete_many([commit_path(version) for version in range(3)])
    assert codes(check(builder.store, checkpoints=True)) == []
    clean(builder)
    assert NAME not in memory_of(builder).contents()


@pytest.mark.parametrize("replaced", [False, True])
def test_no_checkpoint_is_suspected_if_its_id_is_known(replaced: bool) -> None:
    """Also if a commit after the lost commits replaced the table."""
    builder = build(None)
    if replaced:
        action = builder.metadata_action(id=OTHER)
        builder.store.put(commit_path(6), encode_lines([{"commitInfo": {}}, action]))
        Table("x", store=builder.store).checkpoint()
    assert codes(check(builder.store, checkpoints=True)) == ["HISTORY_GAP"]
    clean(builder)
    assert commit_path(0) not in memory_of(builder).contents()


def test_nothing_more_is_read_without_lost_commits() -> None:
    builder = new_table()
    for _ in range(3):
        builder.commit()
    builder.checkpoint(2)
    store = CountingStore(builder.store)
    assert find_foreign_id(DeltaLog(store, fail), 3) is None
    assert set(store.calls) <= {"list_from"}, store.calls
