"""The commit of a conversion: races, crashes, and the mark of a converted table."""

import io
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import DeltactlError, FilesGoneError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.convert import run as convert_run
from deltactl.operations.convert.options import PartitionColumn
from deltactl.operations.convert.plan import plan_convert
from deltactl.operations.convert.run import ConvertOptions, ConvertReport, convert_directory
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import CONVERTED
from deltactl.storage.open import open_store
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


def replace_by_rename(root: str, name: str) -> None:
    data = parquet(*range(100, 200))
    if "://" in root:
        open_store(root).put(name, data)
        return
    Path(f"{root}/new").write_bytes(data)
    Path(f"{root}/new").replace(f"{root}/{name}")


def write_in_place(root: str, name: str) -> None:
    assert len(parquet(3)) == len(parquet(1))
    if "://" in root:
        open_store(root).put(name, parquet(3))
        return
    Path(f"{root}/{name}").write_bytes(parquet(3))


def delete(root: str, name: str) -> None:
    open_store(root).delete_many([name])


@pytest.mark.parametrize("change", [replace_by_rename, write_in_place, delete])
@pytest.mark.parametrize("is_local", [True, False])
def test_files_that_change_after_their_footers_were_read_are_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool, change: Any
) -> None:
    root = str(tmp_path) if is_local else fresh_store().uri
    store = open_store(root)
    # More files of a directory than are looked up one by one.
    names = [f"p=1/{number}.parquet" for number in range(10)] + ["p=2/x.parquet"]
    for name in names:
        store.put(name, parquet(1))
        if is_local:
            os.utime(tmp_path / name, (1_700_000_000, 1_700_000_000))
    changed = [names[3], names[-1]]

    def change_and_plan(*args: Any, **more: Any) -> Any:
        for name in changed:
            change(root, name)
        return plan_convert(*args, **more)

    with monkeypatch.context() as patched, pytest.raises(FilesGoneError) as caught:
        patched.setattr(convert_run, "plan_convert", change_and_plan)
        run(store)
    assert caught.value.exit_code == 4
    assert "2 files were deleted or written again: 'p=1/3.parquet', 'p=2/x.parquet'" in str(
        caught.value
    )
    assert not DeltaLog(store, ignore_warning).exists
    assert run(store).files_added == len(names) - 2 * (change is delete)


def test_a_file_that_appears_during_the_run_is_not_part_of_the_table(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_and_plan(*args: Any, **more: Any) -> Any:
        store.put("p=1/3.parquet", parquet(3))
        return plan_convert(*args, **more)

    monkeypatch.setattr(convert_run, "plan_convert", add_and_plan)
    assert run(store).files_added == 2
    assert ids(store) == [1, 2] and run(store).unnamed_files == 1


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
