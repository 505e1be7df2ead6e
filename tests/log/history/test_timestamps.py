import datetime as dt

import pytest

from deltactl.errors import CorruptLogError, LogGapError, VersionNotFoundError
from deltactl.log.history.timestamps import file_times
from deltactl.log.listing import list_log
from deltactl.table import Table, TableWarning
from deltactl.units import format_timestamp
from tests.support.stores import CountingStore, fresh_store
from tests.support.table_builder import START_MS, Column, TableBuilder, commit_path


def build(times: list[int], *features: str) -> tuple[TableBuilder, Table]:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")], features=features)
    for number in range(1, len(times)):
        builder.append([{"id": number}])
    for version, time in enumerate(times):
        store.set_modified(commit_path(version), time)
    return builder, Table(store.uri, store=store)


def at(ms: int) -> str:
    return format_timestamp(ms)


def test_times_are_made_to_ascend() -> None:
    store = build([5, 5, 4, 9, 7])[0].store
    assert file_times(list_log(store), []) == {}
    assert file_times(list_log(store), range(5)) == dict(enumerate([5, 6, 7, 9, 10]))


def test_travel_by_the_times_of_files() -> None:
    _, table = build([1000, 3000, 2000, 5000])
    times = (1000, 2999, 3000, 3001, 4999, 5000)
    found = [table.snapshot(timestamp=at(time)).version for time in times]
    assert found == [0, 0, 1, 2, 2, 3]
    with pytest.raises(VersionNotFoundError, match="before the first commit"):
        table.snapshot(timestamp=at(999))
    with pytest.raises(VersionNotFoundError, match="after the latest commit"):
        table.snapshot(timestamp=at(5001))


def test_a_time_in_whole_seconds_may_be_that_of_the_next_version() -> None:
    """A list of versions shows no milliseconds."""
    _, table = build([1000, 3250, 5400, 7000])
    with pytest.warns(TableWarning, match="Version 1 was committed in the same second, at .*3.250"):
        assert table.snapshot(timestamp=at(3000)).version == 0
    assert table.snapshot(timestamp=at(4000)).version == 1
    assert table.snapshot(timestamp=at(1000)).version == 0


@pytest.mark.parametrize("features", [[], ["inCommitTimestamp"]])
def test_every_report_has_the_times_of_the_history(features: list[str]) -> None:
    _, table = build([5000, 5000, 4000, 9000], *features)
    history = table.history()
    shown = {
        version: int(time.timestamp() * 1000)
        for version, time in zip(
            history["version"].to_pylist(), history["timestamp"].to_pylist(), strict=True
        )
    }
    assert features or shown == {0: 5000, 1: 5001, 2: 5002, 3: 9000}
    for version in range(3):
        assert table.detail(version).timestamp_ms == shown[version]
        assert table.diff(version).timestamps_ms == (shown[version], shown[3])
        plan = table.restore(version=version, dry_run=True).plan
        assert plan.diff.timestamps_ms == (shown[3], shown[version])


@pytest.mark.parametrize("features", [[], ["inCommitTimestamp"]])
def test_a_time_before_which_a_commit_is_missing_has_no_version(features: list[str]) -> None:
    times = [START_MS + number * 1001 - 1 for number in range(1, 6)]
    builder, table = build(times, *features)
    builder.checkpoint(4)
    builder.store.delete_many([commit_path(2)])
    assert table.snapshot(timestamp=at(times[4])).version == 4
    assert table.snapshot(timestamp=at(times[1])).version == 1
    for time in (times[1] + 1, times[2] + 1):
        with pytest.raises(LogGapError, match="after version 1 and before version 3"):
            table.snapshot(timestamp=at(time))


def test_a_commit_that_was_copied_makes_later_ones_late() -> None:
    """As in Delta on Spark; the copy has a new time."""
    _, table = build([1000, 2000, 900_000, 4000, 5000])
    with pytest.warns(TableWarning, match="as version 1, .* of version 3 has .* of version 2 is"):
        assert table.snapshot(timestamp=at(4000)).version == 1
    assert table.snapshot(timestamp=at(2000)).version == 1
    assert table.snapshot(timestamp=at(900_002)).version == 4


def test_parts_of_a_millisecond_do_not_reach_the_next_commit() -> None:
    _, table = build([1000, 2000])
    moment = dt.datetime.fromtimestamp(2, dt.UTC)
    assert table.snapshot(timestamp=moment).version == 1
    assert table.snapshot(timestamp=moment - dt.timedelta(microseconds=1)).version == 0


def test_travel_by_in_commit_timestamps() -> None:
    """Times of the files say nothing: a copy gave them all one."""
    builder, table = build([7] * 4, "inCommitTimestamp")
    times = [START_MS + 1000, START_MS + 2001, START_MS + 3002, START_MS + 4003]
    assert [builder.commits[v][0]["commitInfo"]["inCommitTimestamp"] for v in range(4)] == times
    for version, time in enumerate(times):
        assert table.snapshot(timestamp=at(time)).version == version
        assert table.snapshot(version).timestamp == time
    assert table.snapshot(timestamp=at(times[3] - 1)).version == 2
    with pytest.raises(VersionNotFoundError):
        table.snapshot(timestamp=at(times[0] - 1))


def test_travel_reads_few_commits() -> None:
    builder, _ = build([7] * 64, "inCommitTimestamp")
    builder.checkpoint(63)
    counting = CountingStore(builder.store)
    table = Table(counting.uri, store=counting)
    assert table.snapshot(timestamp=at(START_MS + 40_500)).version in (38, 39)
    assert counting.calls["read"] <= 10


def test_in_commit_timestamps_that_began_later() -> None:
    builder, table = build([1000, 2000])
    builder.features = frozenset({"inCommitTimestamp"})
    builder._now_ms = 9000
    builder.change_metadata(
        protocol=builder.protocol_action(["inCommitTimestamp"]),
        properties={
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "2",
            "delta.inCommitTimestampEnablementTimestamp": "10000",
        },
    )
    builder.append([{"id": 1}])
    times = (1500, 2500, 9999, 10_000, 10_500)
    found = [table.snapshot(timestamp=at(time)).version for time in times]
    assert found == [0, 1, 1, 2, 2]
    assert table.snapshot(1).timestamp == 2000
    assert table.snapshot(2).timestamp == 10_000


def test_a_commit_that_should_tell_its_time_and_does_not() -> None:
    builder, table = build([7] * 2, "inCommitTimestamp")
    builder.store.put(commit_path(1), b'{"commitInfo":{"timestamp":1}}\n')
    with pytest.raises(CorruptLogError, match="no inCommitTimestamp"):
        _ = table.snapshot().timestamp


def test_the_time_of_a_version_that_is_a_checkpoint_alone() -> None:
    builder, table = build([1000, 2000])
    builder.checkpoint()
    builder.forget_commits(2)
    assert table.snapshot().timestamp > 2000
