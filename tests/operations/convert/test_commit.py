"""The commit of a conversion: races, crashes, and the mark of a converted table."""

import io
import json
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import DeltactlError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.convert.options import PartitionColumn
from deltactl.operations.convert.run import ConvertOptions, ConvertReport, convert_directory
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import CONVERTED
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.optimize.test_races import RacingStore
from tests.support.clock import FixedClock
from tests.support.stores import (
    Crash,
    Fault,
    FaultyStore,
    MemoryStore,
    States,
    fault_points,
    fresh_store,
    opened_as,
)

_YEAR_MS = 365 * 24 * 3600 * 1000


def parquet(*ids: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": list(ids)}), sink)
    return sink.getvalue()


class _Clock(FixedClock):
    """Runs that race must not have the same ids."""

    def new_id(self) -> str:
        return str(uuid.uuid4())


def context(now_ms: int = 1_700_000_100_000, **more: Any) -> RunContext:
    return RunContext(
        warn=more.pop("warn", ignore_warning),
        engine=LocalEngine(workers=1),
        clock=_Clock(now_ms),
        sleep=lambda seconds: None,
    )


def run(store: Store, options: ConvertOptions | None = None, **more: Any) -> ConvertReport:
    # Workers open memory stores by address; what stands before one has to be put there.
    with opened_as(store) if isinstance(store, FaultyStore) else nullcontext():
        return convert_directory(
            DeltaLog(store, ignore_warning), options or ConvertOptions(), context(**more)
        )


def ids(store: Store) -> list[int]:
    return sorted(Table(store.uri, store=store).scan(columns=["id"]).read_all()["id"].to_pylist())


@pytest.fixture
def store() -> MemoryStore:
    """A directory of two files."""
    made = fresh_store()
    made.put("p=1/1.parquet", parquet(1))
    made.put("p=2/2.parquet", parquet(2))
    return made


def test_two_converts_racing_give_one_table(store: MemoryStore) -> None:
    told: list[str] = []
    racing = RacingStore(store, before_1=lambda: run(store, ConvertOptions(name="theirs")))
    report = run(racing, ConvertOptions(name="ours"), warn=told.append)
    assert report.plan is None and report.version_after == 0
    assert any("another writer" in message for message in told)
    assert Table(store.uri, store=store).snapshot().metadata.name == "theirs"
    assert ids(store) == [1, 2]


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["crash", "error"])
def test_what_fails_at_any_call_leaves_before_or_after(
    store: MemoryStore, action: Any, when: Any
) -> None:
    before = store.contents()
    faulty = FaultyStore(store)
    assert run(faulty).files_added
    points = list(fault_points(faulty.calls, when, action))
    failures, states = 0, States(store)
    for at in points:
        store.restore(before)
        try:
            run(FaultyStore(store, Fault(at, action, when)))
        except (Crash, DeltactlError):
            failures += 1
            committed = store.contents().keys() - before.keys()
            assert not committed or ids(store) == [1, 2]
        else:
            assert ids(store) == [1, 2]
        found = store.contents()
        assert {name: found[name] for name in before} == before
        if states.is_new():
            run(store)  # the next run completes what was not done, and doubles nothing
            assert ids(store) == [1, 2]
    # The put of the commit, and the looks at it and after it, are repeated.
    assert failures >= (len(points) if action == "crash" else len(points) - 3)


def test_a_put_that_lies_is_settled_by_reading_back(store: MemoryStore) -> None:
    report = run(FaultyStore(store, Fault(1, "lie", method="put_if_absent")))
    assert report.plan is not None and ids(store) == [1, 2]


@pytest.mark.parametrize(
    "options",
    [
        ConvertOptions(),
        ConvertOptions(statistics=False, schema_mode="widen", name="n"),
        ConvertOptions(partition_by=(PartitionColumn("p"),), column_mapping=True),
        ConvertOptions(properties={CONVERTED: "false"}),
        ConvertOptions(properties={"delta.checkpointPolicy": "v2"}),
    ],
)
def test_each_converted_table_has_a_mark(store: MemoryStore, options: ConvertOptions) -> None:
    run(store, options)
    assert Table(store.uri, store=store).snapshot().metadata.configuration[CONVERTED] == "true"


def commit(store: MemoryStore, version: int, *actions: Mapping[str, Any]) -> None:
    lines = "\n".join(map(json.dumps, actions))
    store.put(f"_delta_log/{version:020d}.json", lines.encode())


def add(path: str) -> dict[str, Any]:
    facts = {"partitionValues": {"p": "1"}, "size": 9, "modificationTime": 1, "dataChange": True}
    return {"add": {"path": path, **facts}}


def test_files_that_no_action_names_are_counted(store: MemoryStore) -> None:
    run(store)
    assert run(store).unnamed_files == 0
    removed = {"remove": {"path": "p=1/1.parquet", "deletionTimestamp": 1, "dataChange": True}}
    commit(store, 1, removed, add("p=1/%61.parquet"), add(f"{store.uri}/p=1/b.parquet"))
    for name in ("p=1/a.parquet", "p=1/b.parquet"):
        store.put(name, b"")
    assert run(store).unnamed_files == 0
    hidden = ("p=3/q/_.pq", "_tmp/x.parquet", "p=3/.tmp/q/x.parquet")
    for name in ("_p=3/new.parquet", "p=3/new.PARQ", "x.txt", *hidden):
        store.put(name, b"")
    report = run(store)
    assert (report.unnamed_files, report.vacuum_keeps_them) == (2, True)


def test_commits_before_a_checkpoint_name_files_too(store: MemoryStore) -> None:
    run(store, ConvertOptions(properties={"delta.deletedFileRetentionDuration": "interval 1 hour"}))
    commit(store, 1, {"remove": {"path": "p=1/1.parquet", "deletionTimestamp": 1}})
    checkpoint_table(
        DeltaLog(store, ignore_warning), CheckpointOptions(), context(1_700_000_100_000 + _YEAR_MS)
    )
    assert run(store).unnamed_files == 0
    store.delete_many([f"_delta_log/{version:020d}.json" for version in range(2)])
    assert run(store).unnamed_files == 1
