"""A commit may have lost actions: no checkpoint confirms this state, and the log stays."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deltactl import maintain
from deltactl.errors import SafetyError, ignore_warning
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.run_context import RunContext
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.support.checkpoints import DAY_MS, NOW_MS, checkpoint, fail, memory_of, new_table
from tests.support.clock import FixedClock
from tests.support.damage import edit_commit
from tests.support.table_builder import Column, TableBuilder, commit_path

COLUMNS = (Column("id"), Column("p", "string"))
TXN = {"appId": "a", "version": 1}
LOST = "4.json may be damaged: it has 0 of the 1 remove action that its operationMetrics count"


def fill(builder: TableBuilder, **info: Any) -> TableBuilder:
    """Version 5, with a checkpoint of 2. Version 4 rewrites a file; then it lost its remove."""
    paths = [builder.append([{"id": number, "p": None}])[0] for number in range(3)]
    builder.checkpoint(2)
    builder.hint(2)
    added = builder.write_file([{"id": 30, "p": None}])
    builder.commit(builder.remove_action(paths[2]), added, operation="DELETE", **info)
    builder.append([{"id": 5, "p": None}])
    return builder


def lose_a_remove(builder: TableBuilder) -> None:
    edit_commit(builder, 4, lambda it: None if "remove" in it else it)


def doubtful(**properties: str) -> TableBuilder:
    options = {f"delta.{name}": value for name, value in properties.items()}
    metrics = {"numRemovedFiles": "1", "numAddedFiles": "1"}
    builder = fill(new_table(properties=options), operationMetrics=metrics)
    lose_a_remove(builder)
    return builder


def contradicted() -> TableBuilder:
    """A table without metrics, of which only the checksum file shows the loss."""
    builder = fill(new_table())
    snapshot = DeltaLog(builder.store, fail).snapshot()
    write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    lose_a_remove(builder)
    return builder


@pytest.mark.parametrize(
    "options", [{}, {"kind": "classic", "cleanup": True}, {"compact_log": True, "version": 5}]
)
def test_a_doubtful_commit_is_not_confirmed(options: dict[str, Any]) -> None:
    builder = doubtful()
    before = memory_of(builder).contents()
    with pytest.raises(SafetyError, match=LOST) as caught:
        checkpoint(builder.store, **options)
    assert "whether to restore the commit from a backup" in str(caught.value.hint)
    assert memory_of(builder).contents() == before


def test_commits_are_not_compacted_beside_a_doubtful_one() -> None:
    builder = doubtful()
    confirm_checkpoint(builder, answer=True)
    with pytest.raises(SafetyError, match=LOST):
        checkpoint(builder.store, compact_log=(3, 5))


def confirm_checkpoint(builder: TableBuilder, *, answer: bool) -> list[str]:
    """Write a checkpoint from the commits as they are, if a person says so; return the questions.

    Another writer, which compares nothing, would write the same checkpoint.
    """
    asked = list[str]()

    def confirm(question: str) -> bool:
        asked.append(question)
        return answer

    log, context = DeltaLog(builder.store, fail), RunContext(warn=fail, clock=FixedClock(NOW_MS))
    checkpoint_table(log, CheckpointOptions(), context, confirm_doubt=confirm)
    return asked


def test_a_person_may_say_that_the_commit_is_right() -> None:
    builder = doubtful()
    with pytest.raises(SafetyError, match="not confirmed"):
        confirm_checkpoint(builder, answer=False)
    assert DeltaLog(builder.store, fail).snapshot().segment.checkpoint_version == 2
    (question,) = confirm_checkpoint(builder, answer=True)
    assert LOST in question
    assert DeltaLog(builder.store, fail).snapshot().segment.checkpoint_version == 5


def test_a_person_hears_of_all_doubtful_commits() -> None:
    builder = doubtful()
    edit_commit(builder, 5, lambda it: None if "add" in it else claim(it))
    (question,) = confirm_checkpoint(builder, answer=True)
    assert "(and 1 later commit). Are all these commits right?" in question


def claim(action: dict[str, Any]) -> dict[str, Any]:
    """Return a ``commitInfo`` with metrics."""
    return {"commitInfo": action["commitInfo"] | {"operationMetrics": {"numAddedFiles": "1"}}}


def test_a_doubtful_commit_before_the_last_checkpoint_stops_no_checkpoint() -> None:
    builder = doubtful()
    confirm_checkpoint(builder, answer=True)
    builder.append([{"id": 6, "p": None}])
    assert checkpoint(builder.store).written is not None


def test_a_cleanup_keeps_a_doubtful_commit_that_a_checkpoint_confirmed() -> None:
    """Another writer wrote the checkpoint. It agrees with the commits, which lack an action."""
    builder = doubtful()
    confirm_checkpoint(builder, answer=True)
    age_all_but_the_newest(builder)
    before = memory_of(builder).contents()
    with pytest.raises(SafetyError, match=LOST) as caught:
        checkpoint(builder.store, cleanup_only=True)
    command = f"`deltactl checkpoint {builder.store.uri} --cleanup-only`"
    assert f"{command} on a terminal" in str(caught.value.hint)
    assert memory_of(builder).contents() == before


def test_a_checkpoint_after_a_commit_is_omitted_with_a_warning() -> None:
    builder, said = doubtful(checkpointInterval="1"), list[str]()
    table = Table("x", store=builder.store, warn=said.append)
    table.alter(properties={"a": "b"})
    assert table.snapshot().segment.checkpoint_version == 2
    assert commit_path(0) in memory_of(builder).contents()
    assert [f"{LOST}" in text and "Run `deltactl check" in text for text in said] == [True, True]


def age_all_but_the_newest(builder: TableBuilder) -> None:
    builder.append([{"id": 6, "p": None}])
    for version, days in enumerate((90, 89, 88, 87, 86, 85, 1)):
        memory_of(builder).set_modified(commit_path(version), NOW_MS - days * DAY_MS)


def test_what_a_checksum_file_contradicts_is_kept() -> None:
    """After a checkpoint, no vacuum would compare the checksum file."""
    builder = contradicted()
    before = memory_of(builder).contents()
    with pytest.raises(SafetyError, match=r"the commits: numFiles is 4, but the log has 5") as seen:
        Table("x", store=builder.store).checkpoint()
    assert "Run `deltactl check TABLE --checkpoints`" in str(seen.value.hint)
    assert memory_of(builder).contents() == before
    name = f"_delta_log/{5:020}.crc"
    checksum = builder.store.read(name)
    builder.store.delete_many([name])
    checkpoint(builder.store)
    builder.store.put(name, checksum)
    age_all_but_the_newest(builder)
    before = memory_of(builder).contents()
    with pytest.raises(SafetyError, match=r"5.crc: numFiles is 4, but the log has 5") as caught:
        checkpoint(builder.store, cleanup_only=True)
    assert "`deltactl checkpoint TABLE --repair`" in str(caught.value.hint)
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize(
    "change",
    [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}, {"setTransactions": [TXN]}],
)
def test_a_checksum_file_with_other_actions_stops_no_cleanup(change: dict[str, Any]) -> None:
    """Writers fill in these members in several ways; files, bytes and schema are as in the log."""
    builder = fill(new_table())
    snapshot = DeltaLog(builder.store, fail).snapshot()
    name = write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    assert name is not None
    builder.store.put(name, json.dumps(json.loads(builder.store.read(name)) | change).encode())
    Table("x", store=builder.store, warn=ignore_warning).checkpoint()
    age_all_but_the_newest(builder)
    checkpoint(builder.store, cleanup_only=True)
    assert commit_path(0) not in memory_of(builder).contents()


def test_maintain_writes_nothing(tmp_path: Path) -> None:
    properties = {"delta.checkpointInterval": "2"}
    metrics = {"numRemovedFiles": "1", "numAddedFiles": "1"}
    store = LocalStore(str(tmp_path))
    builder = fill(TableBuilder(store, COLUMNS, properties=properties), operationMetrics=metrics)
    lose_a_remove(builder)
    builder.append(*([{"id": number, "p": None}] for number in range(10)))
    said: list[str] = []
    policy = MaintainPolicy(actions=["optimize", "checkpoint"], skip_hot=timedelta())
    [table] = maintain([str(tmp_path)], policy, warn=said.append).tables
    problems = table.facts.problems
    assert {name: error.code for name, error in problems.items()} == {
        "optimize": "SAFETY",
        "checkpoint": "SAFETY",
    }
    assert not table.outcomes
    assert any(LOST in text for text in said)
    assert Table(tmp_path).snapshot().segment.checkpoint_version == 2
