"""The in-commit timestamp of a commit if the file of the previous commit was lost."""

import json

import pytest

from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.table import Table
from tests.support.checkpoints import fail, memory_of, new_table
from tests.support.table_builder import LOG, TableBuilder, commit_path

AHEAD_MS = 10**14


def lose_the_newest(*, has_checksum: bool) -> TableBuilder:
    """A table at version 2, whose commit is gone: only its checkpoint is left."""
    builder = new_table(features=["inCommitTimestamp"])
    builder.append([{"id": 1, "p": None}])
    builder.append([{"id": 2, "p": None}])
    builder.checkpoint(2)
    if has_checksum:
        snapshot = DeltaLog(builder.store, fail).snapshot()
        write_checksum(builder.store, snapshot, snapshot.num_files, snapshot.size_bytes)
    builder.store.delete_many([commit_path(2)])
    return builder


def set_time(builder: TableBuilder, name: str, member: str, time_ms: int) -> None:
    lines = builder.store.read(name).decode().splitlines()
    first = json.loads(lines[0])
    first.get("commitInfo", first)[member] = time_ms
    builder.store.put(name, "\n".join([json.dumps(first), *lines[1:]]).encode())


def commit(builder: TableBuilder) -> int:
    Table("x", store=builder.store, warn=fail).alter(properties={"deltactl.versionAfter": "2"})
    line = builder.store.read(commit_path(3)).splitlines()[0]
    return int(json.loads(line)["commitInfo"]["inCommitTimestamp"])


def test_the_checksum_file_has_the_time() -> None:
    builder = lose_the_newest(has_checksum=True)
    set_time(builder, f"{LOG}/{2:020d}.crc", "inCommitTimestampOpt", AHEAD_MS)
    assert commit(builder) == AHEAD_MS + 1


@pytest.mark.parametrize("checksum", [None, b"{"])
def test_an_older_commit_may_be_ahead_of_the_clock(checksum: bytes | None) -> None:
    builder = lose_the_newest(has_checksum=False)
    if checksum is not None:
        builder.store.put(f"{LOG}/{2:020d}.crc", checksum)
    set_time(builder, commit_path(1), "inCommitTimestamp", AHEAD_MS)
    assert commit(builder) == AHEAD_MS + 1


def test_the_checkpoint_was_written_after_the_commit() -> None:
    builder = lose_the_newest(has_checksum=False)
    for version in (0, 1):
        builder.store.delete_many([commit_path(version)])
    name = f"{LOG}/{2:020d}.checkpoint.parquet"
    memory_of(builder).set_modified(name, AHEAD_MS)
    assert commit(builder) == AHEAD_MS + 1
