"""`--repair`: truncated, missing and wrong files are reported, then rebuilt from the log."""

import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import (
    CorruptLogError,
    DeltactlError,
    LogGapError,
    NotATableError,
    StorageError,
    ignore_warning,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import list_log
from deltactl.operations.checkpoint.repair import RepairReport, repair_checkpoints
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes
from deltactl.table import Table
from tests.support.checkpoints import (
    NOW_MS,
    PicklingEngine,
    checkpoint,
    fail,
    hint_of,
    memory_of,
    new_table,
)
from tests.support.clock import FixedClock
from tests.support.damage import check, codes, edit_action
from tests.support.forwarding import ForwardingStore
from tests.support.stores import Fault, FaultyStore, MemoryStore, opened_as
from tests.support.table_builder import LOG, TableBuilder, commit_path

pytestmark = pytest.mark.thorough

HINT = f"{LOG}/_last_checkpoint"


def repair(store: Store, *, dry_run: bool = False) -> RepairReport:
    return repair_checkpoints(
        DeltaLog(refuse_changes(store) if dry_run else store, ignore_warning),
        RunContext(warn=lambda message: None, engine=PicklingEngine(), clock=FixedClock(NOW_MS)),
        dry_run=dry_run,
    )


def table(kind: str = "classic", **options: Any) -> TableBuilder:
    """Version 4, with a checkpoint at 2 that the hint names."""
    features = ["deletionVectors", *(["v2Checkpoint"] if kind.startswith("v2") else [])]
    builder = new_table(features=features, **options)
    paths = builder.append(*([{"id": n, "p": None}] for n in range(4)))
    builder.delete_rows(paths[0], [0])
    builder.append([{"id": 9, "p": None}])
    builder.remove(paths[1])
    builder.checkpoint(2, kind)
    builder.hint(2)
    return builder


def assert_valid(builder: TableBuilder, versions: range) -> None:
    """Nothing is wrong any more, and each version reads as it should, without a warning."""
    assert repair(builder.store, dry_run=True).findings == ()
    for version in versions:
        snapshot = DeltaLog(builder.store, fail).snapshot(version)
        expected = {path for path, _ in builder.state_at(version).files}
        assert set(snapshot.files["encoded_path"].to_pylist()) == expected


@pytest.mark.parametrize("kind", ["classic", "v2-json"])
def test_a_store_that_fails_for_a_moment_makes_no_checkpoint_bad(kind: str) -> None:
    builder = table(kind)
    before = memory_of(builder).contents()
    counted = FaultyStore(builder.store)
    repair(counted)
    refused = 0
    for at in range(1, len(counted.calls) + 1):
        try:
            report = repair(FaultyStore(builder.store, Fault(at, "error")))
        except StorageError:
            refused += 1
        else:
            assert report.findings == ()
        assert memory_of(builder).contents() == before
    assert refused


def test_a_valid_log_needs_nothing() -> None:
    builder = table()
    before = memory_of(builder).contents()
    report = repair(builder.store)
    assert (report.checked, report.unproven, report.findings) == (1, 0, ())
    assert report.all_repaired
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize(
    ("truncated", "problem"),
    [
        (b"", "not valid JSON"),
        (b'{"version":2,"si', "not valid JSON"),
        (b'{"version":2,"size":3,"checksum":"00"}', "its own checksum"),
        (None, "is missing"),
    ],
)
def test_a_hint_that_is_invalid(truncated: bytes | None, problem: str) -> None:
    builder = table()
    if truncated is None:
        builder.store.delete_many([HINT])
    else:
        builder.store.put(HINT, truncated)
    before = memory_of(builder).contents()
    (found,) = repair(builder.store, dry_run=True).findings
    assert memory_of(builder).contents() == before
    assert problem in found.problem
    assert found.name == HINT
    report = repair(builder.store)
    assert report.all_repaired
    assert hint_of(builder.store)["version"] == 2
    assert_valid(builder, range(5))


def test_the_only_sign_of_lost_commits_stays() -> None:
    """`check --fix last-checkpoint` asks before it removes it."""
    builder = table()
    builder.store.put(HINT, b'{"version":77,"size":3}')
    before = memory_of(builder).contents()
    with pytest.raises(LogGapError, match="commits 5 to 77 are missing") as caught:
        repair(builder.store)
    assert "--fix last-checkpoint" in (caught.value.hint or "")
    assert memory_of(builder).contents() == before


def _rows(data: bytes, change: Callable[[list[Any]], list[Any]]) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), sink)
    return sink.getvalue()


def _is_add(row: dict[str, Any]) -> bool:
    return row.get("add") is not None


def _lose_add(rows: list[Any]) -> list[Any]:
    lost = next(row for row in rows if _is_add(row))
    return [row for row in rows if row is not lost]


def _lose_vector(rows: list[Any]) -> list[Any]:
    for row in rows:
        if _is_add(row):
            row["add"]["deletionVector"] = None
    return rows


def _change(column: str, member: str, value: Any) -> Callable[[list[Any]], list[Any]]:
    def change(rows: list[Any]) -> list[Any]:
        next(row[column] for row in rows if row.get(column) is not None)[member] = value
        return rows

    return change


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "no footer": lambda data: data[:-8],
    "not Parquet": lambda data: b"oops",
    "pages of zeros": lambda data: data[:4] + bytes(1500) + data[1504:],
    "a file lost": lambda data: _rows(data, _lose_add),
    "a file twice": lambda data: _rows(data, lambda rows: [*rows, *filter(_is_add, rows)]),
    "a vector lost": lambda data: _rows(data, _lose_vector),
    "a size changed": lambda data: _rows(data, _change("add", "size", 1)),
    "a path changed": lambda data: _rows(data, _change("add", "path", "other.parquet")),
    "another protocol": lambda data: _rows(data, _change("protocol", "minWriterVersion", 6)),
    "another schema": lambda data: _rows(data, _change("metaData", "configuration", [("a", "b")])),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_checkpoint_that_is_broken_or_wrong_is_written_again(damage: str) -> None:
    builder = table()
    name = f"{LOG}/{2:020d}.checkpoint.parquet"
    builder.store.put(name, DAMAGES[damage](builder.store.read(name)))
    commits = {n: d for n, d in memory_of(builder).contents().items() if n.endswith(".json")}
    shown = repair(builder.store, dry_run=True)
    assert [finding.name for finding in shown.findings][0] == name
    assert all(finding.remedy.startswith("would be rewritten ") for finding in shown.findings)
    assert not shown.all_repaired
    report = repair(builder.store)
    assert all(finding.remedy.startswith("rewritten ") for finding in report.findings)
    assert report.all_repaired
    after = memory_of(builder).contents()
    assert {n: after[n] for n in commits} == commits
    assert_valid(builder, range(5))
    builder.forget_commits(2)
    assert DeltaLog(builder.store, fail).snapshot().num_files == 4


@pytest.mark.parametrize("kind", ["multipart", "v2-json", "v2-parquet", "v2-classic", "v2-inline"])
def test_every_kind_is_repaired_as_what_it_is_or_as_one_file(kind: str) -> None:
    builder = table(kind)
    (broken,) = list_log(builder.store).checkpoints
    sidecars = [info.name for info in builder.store.list_from(f"{LOG}/_sidecars")]
    victim = sidecars[0] if sidecars else broken.names[-1]
    builder.store.put(victim, b"oops")
    report = repair(builder.store)
    assert report.all_repaired
    assert report.findings[0].name == broken.names[0]
    (fixed,) = list_log(builder.store).checkpoints
    assert fixed.kind == ("classic" if kind == "multipart" else broken.kind)
    assert_valid(builder, range(5))


def test_a_bad_checkpoint_that_stays_beside_the_good_one_is_reported() -> None:
    builder = table("v2-json")
    for info in list(builder.store.list_from(f"{LOG}/_sidecars")):
        builder.store.delete_many([info.name])
    (bad,) = [c.names[0] for c in list_log(builder.store).checkpoints]

    class Keeping(ForwardingStore):
        def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
            return {name: StorageError("denied") for name in names}

    store = Keeping(builder.store)
    with opened_as(store):
        report = repair(store)
    (finding,) = [f for f in report.findings if f.name == bad]
    assert not finding.repaired
    assert "denied" in finding.remedy


def test_each_checkpoint_is_proven_by_those_before_it() -> None:
    """Commit 0 and 1 are gone: 2 is believed, 3 and 4 are compared with it."""
    builder = table()
    for version in (3, 4):
        checkpoint(builder.store, version=version)
    builder.forget_commits(2)
    report = repair(builder.store)
    assert (report.checked, report.unproven, report.findings) == (3, 1, ())


def test_nothing_is_done_where_either_of_two_may_be_wrong() -> None:
    builder = table()
    checkpoint(builder.store)
    builder.forget_commits(2)
    name = f"{LOG}/{4:020d}.checkpoint.parquet"
    builder.store.put(name, _rows(builder.store.read(name), _lose_add))
    before = memory_of(builder).contents()
    report = repair(builder.store)
    (finding,) = report.findings
    assert f"{2:020d}.checkpoint.parquet" in finding.problem
    assert not finding.repaired
    assert memory_of(builder).contents() == before


def test_what_cannot_be_rebuilt_is_left_and_reported() -> None:
    """The broken checkpoint is all there was of its version; a later one is sound."""
    builder = table()
    checkpoint(builder.store)
    builder.forget_commits(3)
    name = f"{LOG}/{2:020d}.checkpoint.parquet"
    builder.store.put(name, b"oops")
    report = repair(builder.store)
    (finding,) = report.findings
    assert (finding.name, finding.repaired) == (name, False)
    assert finding.remedy.startswith("none: ")


def test_a_table_that_is_lost_is_an_error() -> None:
    builder = table()
    builder.forget_commits(3)
    builder.store.put(f"{LOG}/{2:020d}.checkpoint.parquet", b"oops")
    before = memory_of(builder).contents()
    with pytest.raises(DeltactlError, match="cannot be"):
        repair(builder.store)
    assert memory_of(builder).contents() == before
    with pytest.raises(NotATableError):
        repair(MemoryStore("memory://checkpoints/nothing-there"))


def put_wrong_checksum(builder: TableBuilder) -> str:
    name = f"{LOG}/{4:020d}.crc"
    state = builder.state
    facts = {"numFiles": 4, "tableSizeBytes": 1, "numMetadata": 1, "numProtocol": 1}
    node = {**facts, "metadata": state.metadata, "protocol": state.protocol}
    builder.store.put(name, json.dumps(node).encode())
    return name


def test_a_checksum_file_that_disagrees_goes() -> None:
    builder = new_table()
    append_measured(builder, [None] * 4)
    edit_action(builder, 0, "commitInfo", engineInfo="Apache-Spark/4.2.0 Delta-Lake/4.4.0")
    name = put_wrong_checksum(builder)
    (finding,) = repair(builder.store, dry_run=True).findings
    assert (finding.name, finding.repaired) == (name, False)
    assert "tableSizeBytes" in finding.problem
    (finding,) = repair(builder.store).findings
    assert finding.repaired
    assert builder.store.stat_many([name]) == [None]
    assert repair(builder.store).findings == ()


def test_a_checksum_file_stays_where_a_checkpoint_may_be_wrong_instead() -> None:
    builder = table()
    name = put_wrong_checksum(builder)
    builder.forget_commits(2)
    (finding,) = repair(builder.store).findings
    assert not finding.repaired
    assert "it is unknown whether" in finding.remedy
    assert builder.store.stat_many([name]) != [None]


def append_measured(builder: TableBuilder, partitions: Iterable[str | None]) -> list[str]:
    """Append a row to each partition, in commits with metrics; return the names of the files."""
    paths = []
    for number, partition in enumerate(partitions, 1):
        add = builder.write_file([{"id": number, "p": partition}])
        builder.commit(add, operationMetrics={"numFiles": "1"})
        paths.append(add["add"]["path"])
    return paths


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda add: add | {"size": 7}, "bytes of files"),
        (lambda add: add | {"partitionValues": {"p": "x"}}, "partition values"),
        (lambda add: add | {"stats": '{"numRecords":7}'}, "statistics"),
        (lambda add: add | {"stats": "{truncated"}, "statistics"),
        (lambda add: add | {"path": "elsewhere"}, "files, partition values"),
    ],
)
def test_a_compacted_file_that_disagrees_goes(wrong: Any, said: str) -> None:
    builder = new_table(partition_by=["p"])
    paths = append_measured(builder, "ab")
    builder.compact(1, 2)
    assert repair(builder.store).findings == ()
    name = f"{LOG}/{1:020d}.{2:020d}.compacted.json"
    lines = [json.loads(text) for text in builder.store.read(name).splitlines()]
    told = [
        {"add": wrong(node["add"])} if node.get("add", {}).get("path") == paths[1] else node
        for node in lines
    ]
    builder.store.put(name, "\n".join(map(json.dumps, told)).encode())
    (finding,) = repair(builder.store).findings
    assert said in finding.problem
    assert finding.repaired
    assert builder.store.stat_many([name]) == [None]
    assert DeltaLog(builder.store, fail).snapshot().num_files == 2


def test_a_compacted_file_may_not_remove_more_than_its_commits() -> None:
    builder = new_table()
    older, *_ = append_measured(builder, [None] * 3)
    builder.compact(2, 3)
    assert repair(builder.store).findings == ()
    name = f"{LOG}/{2:020d}.{3:020d}.compacted.json"
    gone = {"remove": {"path": older, "dataChange": True, "deletionTimestamp": NOW_MS}}
    builder.store.put(name, builder.store.read(name) + json.dumps(gone).encode() + b"\n")
    (finding,) = repair(builder.store).findings
    assert "removes files that the combined commits do not" in finding.problem
    assert DeltaLog(builder.store, fail).snapshot().num_files == 3


def test_a_compacted_file_whose_commits_are_truncated_stays() -> None:
    builder = new_table()
    for number in range(6):
        builder.append([{"id": number, "p": None}])
    builder.checkpoint(4)
    builder.hint(4)
    builder.compact(1, 4)
    truncated = f"{LOG}/{3:020d}.json"
    builder.store.put(truncated, builder.store.read(truncated)[:-20])
    assert repair(builder.store).findings == ()
    assert builder.store.stat_many([f"{LOG}/{1:020d}.{4:020d}.compacted.json"]) != [None]


def test_a_compacted_file_without_adds_is_valid() -> None:
    builder = new_table()
    paths = builder.append(*([{"id": n, "p": None}] for n in range(3)))
    for path in paths[:2]:
        builder.remove(path)
    builder.compact(2, 3)
    assert repair(builder.store).findings == ()


def test_a_sidecar_of_another_size_than_is_said() -> None:
    """It may be another file: no command uses it, so that no live file looks unneeded."""
    builder = table("v2-json")
    (name,) = [
        info.name
        for info in builder.store.list_from(LOG)
        if info.name.endswith("-8000-000000000003.json")
    ]
    text = builder.store.read(name).decode()
    builder.store.put(name, text.replace('"sizeInBytes": ', '"sizeInBytes": 1').encode())
    report = check(builder.store)
    assert codes(report) == ["CHECKPOINT_UNREADABLE"]
    assert "bytes, but the checkpoint says that it has 1" in report.findings["problem"][0].as_py()
    opened = Table("x", store=builder.store, warn=ignore_warning)
    for run in (opened.optimize, lambda: opened.vacuum(retain="0s", force_retention=True)):
        with pytest.raises(CorruptLogError, match="the checkpoint says") as caught:
            run()
        assert "checkpoint TABLE --repair" in (caught.value.hint or "")
    (finding,) = [f for f in repair(builder.store).findings if f.name == name]
    assert finding.repaired
    assert repair(builder.store).findings == ()
    assert_valid(builder, range(5))


def test_a_hint_without_any_checkpoint_goes() -> None:
    builder = new_table()
    builder.append([{"id": 1, "p": None}])
    builder.store.put(HINT, b'{"version":1,"size":3}')
    (finding,) = repair(builder.store).findings
    assert finding.repaired
    assert builder.store.stat_many([HINT]) == [None]
    assert repair(builder.store).findings == ()


def test_statistics_of_a_checkpoint_are_compared() -> None:
    """Those that differ, not those that it leaves out."""
    builder = new_table()
    true = '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":5}}'
    builder.commit(builder.write_file([{"id": 1, "p": "a"}, {"id": 5, "p": "b"}], stats=true))
    builder.append([{"id": 7, "p": None}])
    builder.checkpoint(2)
    builder.hint(2)
    assert repair(builder.store).findings == ()
    name = f"{LOG}/{2:020d}.checkpoint.parquet"
    good = builder.store.read(name)
    for stats, is_wrong in (
        ('{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":4}}', True),
        ('{"numRecords":3}', True),
        ('{"numRecords":2}', False),
        (None, False),
    ):
        builder.store.put(name, _with_statistics(good, stats))
        found = [f for f in repair(builder.store, dry_run=True).findings if f.name == name]
        assert len(found) == is_wrong, stats
        assert all("statistics that differ from the log" in f.problem for f in found)
    builder.store.put(name, _with_statistics(good, '{"numRecords":3}'))
    assert repair(builder.store).all_repaired
    assert repair(builder.store).findings == ()


def _with_statistics(checkpoint: bytes, stats: str | None) -> bytes:
    """A checkpoint whose file of two rows has other statistics."""
    table = pq.read_table(pa.BufferReader(checkpoint))
    rows = table.to_pylist()
    for row in rows:
        if row["add"] is not None and '"numRecords":2' in row["add"]["stats"].replace(" ", ""):
            row["add"]["stats"] = stats
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), sink)
    return sink.getvalue()


def test_expired_transactions_are_no_disagreement() -> None:
    key = "delta.setTransactionRetentionDuration"
    builder = new_table(properties={key: "interval 1 day"})
    builder.commit({"txn": {"appId": "old", "version": 1, "lastUpdated": 1}})
    checkpoint(builder.store)
    assert repair(builder.store).findings == ()
    assert builder.store.read(commit_path(1))
