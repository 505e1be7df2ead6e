"""`convert --sync`: what appeared since is added once, and nothing that was ever in the table."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import (
    ConflictError,
    ConversionError,
    DeltactlError,
    SafetyError,
    UnsupportedFeatureError,
)
from deltactl.log.listing import list_log
from deltactl.operations.convert.partition_by import parse_partition_by
from deltactl.operations.convert.plan import APP_ID
from deltactl.operations.convert.run import (
    ConvertOptions,
    ConvertReport,
    convert,
    convert_directory,
)
from deltactl.operations.optimize.run import OptimizeOptions
from deltactl.operations.run_context import RunContext
from deltactl.storage.forwarding import ForwardingStore
from deltactl.storage.store import FileInfo, Store
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.clock import FixedClock
from tests.support.stores import Crash, Fault, FaultyStore, MemoryStore, fault_points, opened_as
from tests.support.table_builder import multiset

pytestmark = pytest.mark.thorough

_NUMBERS = itertools.count()
SYNC = ConvertOptions(sync=True)


def parquet(*ids: int, **columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": list(ids), **columns}), sink)
    return sink.getvalue()


class _Clock(FixedClock):
    """Runs that race must not have the same ids."""

    def new_id(self) -> str:
        return str(uuid.uuid4())


def quiet(message: str) -> None:
    pass


def run(store: Store, options: ConvertOptions = SYNC, **more: Any) -> ConvertReport:
    # Workers open memory stores by address; what stands before one has to be put there.
    with opened_as(store) if isinstance(store, FaultyStore) else nullcontext():
        return convert_directory(
            store,
            options,
            RunContext(
                warn=more.pop("warn", quiet),
                engine=LocalEngine(workers=1),
                clock=_Clock(more.pop("now_ms", 1_700_000_100_000)),
                sleep=lambda seconds: None,
            ),
            **more,
        )


def ids(store: Store) -> list[int]:
    return sorted(Table(store.uri, store=store).scan(columns=["id"]).read_all()["id"].to_pylist())


@pytest.fixture
def store() -> MemoryStore:
    """A converted directory of two files."""
    made = MemoryStore(f"memory://sync/{next(_NUMBERS)}")
    made.put("p=1/1.parquet", parquet(1))
    made.put("p=2/2.parquet", parquet(2))
    run(made, ConvertOptions())
    return made


def commit(store: MemoryStore, version: int) -> list[dict[str, Any]]:
    content = store.read(f"_delta_log/{version:020d}.json")
    return [json.loads(line) for line in content.splitlines()]


def test_new_files_are_added_once(store: MemoryStore) -> None:
    store.put("p=3/3.parquet", parquet(3))
    store.set_modified("p=3/3.parquet", 1_700_000_200_000)
    report = run(store, now_ms=1_700_000_300_000)
    assert (report.version_before, report.version_after, report.files_added) == (0, 1, 1)
    info, add, txn = commit(store, 1)
    assert info["commitInfo"]["operation"] == "CONVERT"
    assert add["add"]["dataChange"] is True
    assert add["add"]["partitionValues"] == {"p": "3"}
    assert json.loads(add["add"]["stats"])["minValues"] == {"id": 3}
    assert txn == {
        "txn": {"appId": APP_ID, "version": 1_700_000_300_000, "lastUpdated": 1_700_000_300_000}
    }
    assert ids(store) == [1, 2, 3]
    again = run(store, now_ms=1_700_000_400_000)
    assert (again.version_after, again.files_added) == (1, 0)
    assert ids(store) == [1, 2, 3]


def test_manifests_follow_where_the_table_asks_for_them() -> None:
    store = MemoryStore(f"memory://sync/{next(_NUMBERS)}")
    store.put("p=1/1.parquet", parquet(1))
    run(
        store,
        ConvertOptions(properties={"delta.compatibility.symlinkFormatManifest.enabled": "true"}),
    )
    manifest = "_symlink_format_manifest/p={}/manifest"
    assert store.read(manifest.format(1)) == f"{store.uri}/p=1/1.parquet\n".encode()
    store.put("p=2/2.parquet", parquet(2))
    store.set_modified("p=2/2.parquet", 1_700_000_200_000)
    first = store.stat_many([manifest.format(1)])
    run(store, now_ms=1_700_000_300_000)
    assert store.read(manifest.format(2)) == f"{store.uri}/p=2/2.parquet\n".encode()
    assert store.stat_many([manifest.format(1)]) == first


def test_a_sync_at_the_interval_is_checkpointed() -> None:
    store = MemoryStore(f"memory://sync/{next(_NUMBERS)}")
    store.put("1.parquet", parquet(1))
    run(store, ConvertOptions(properties={"delta.checkpointInterval": "2"}))
    for number in (2, 3):
        store.put(f"{number}.parquet", parquet(number))
        store.set_modified(f"{number}.parquet", 1_700_000_000_000 + 100_000 * number)
        run(store, now_ms=1_700_000_050_000 + 100_000 * number)
    assert [c.version for c in list_log(store).checkpoints] == [2]
    assert ids(store) == [1, 2, 3]


def test_a_dry_run_adds_nothing(store: MemoryStore) -> None:
    store.put("p=3/3.parquet", parquet(3))
    store.set_modified("p=3/3.parquet", 1_700_000_200_000)
    before = store.contents()
    assert run(store, dry_run=True).files_added == 1
    assert store.contents() == before


def test_times_of_stores_may_lie_behind_by_the_margin(store: MemoryStore) -> None:
    (watermark,) = (a["txn"]["version"] for a in commit(store, 0) if "txn" in a)
    for number, age_ms in enumerate((60_000, 601_000), 3):
        store.put(f"p=3/{number}.parquet", parquet(number))
        store.set_modified(f"p=3/{number}.parquet", watermark - age_ms)
    report = run(store)
    assert ids(store) == [1, 2, 3]
    assert report.plan is not None
    assert [entry.path for entry in report.plan.left_out] == ["p=3/4.parquet"]


def test_without_a_watermark_nothing_is_known(store: MemoryStore) -> None:
    name = f"_delta_log/{0:020d}.json"
    lines = [json.dumps(action) for action in commit(store, 0) if "txn" not in action]
    store.put(name, "\n".join(lines).encode())
    with pytest.raises(SafetyError, match="no record of the last listing"):
        run(store)


@pytest.mark.parametrize("change", ["size", "time", "gone"])
def test_a_live_file_that_changed_stops_it(store: MemoryStore, change: str) -> None:
    name = "p=1/1.parquet"
    info = store.stat_many([name])[0]
    assert info is not None
    if change == "gone":
        store.delete_many([name])
    else:
        store.put(name, parquet(*range(500)) if change == "size" else parquet(9))
        store.set_modified(name, info.modified_ms + (change == "time"))
    before = store.contents()
    with pytest.raises(SafetyError, match="changed since they were added"):
        run(store)
    assert store.contents() == before


def test_files_of_other_writers_may_have_other_times(store: MemoryStore) -> None:
    store.put("p=1/other.parquet", data := parquet(7))
    add = {
        "path": "p=1/other.parquet",
        "partitionValues": {"p": "1"},
        "size": len(data),
        "modificationTime": 5,
        "dataChange": True,
    }
    store.put(f"_delta_log/{1:020d}.json", json.dumps({"add": add}).encode())
    assert run(store).files_added == 0
    assert ids(store) == [1, 2, 7]


@pytest.mark.parametrize("spelled", ["{root}/p=1/other.parquet", "./p=1/other.parquet"])
@pytest.mark.parametrize("change", ["", "size"])
def test_files_that_others_name_otherwise_are_known(
    store: MemoryStore, spelled: str, change: str
) -> None:
    store.put("p=1/other.parquet", data := parquet(7))
    store.set_modified("p=1/other.parquet", 1_700_000_200_000)
    add = {
        "path": spelled.format(root=store.uri),
        "partitionValues": {"p": "1"},
        "size": len(data) + bool(change),
        "modificationTime": 5,
        "dataChange": True,
    }
    store.put(f"_delta_log/{1:020d}.json", json.dumps({"add": add}).encode())
    if change:
        with pytest.raises(SafetyError, match="changed since"):
            run(store, now_ms=1_700_000_300_000)
        return
    assert run(store, now_ms=1_700_000_300_000).files_added == 0
    assert ids(store) == [1, 2, 7]


def test_what_the_log_has_forgotten_is_not_added_again(tmp_path: Path) -> None:
    """Convert, optimize, let tombstones expire and old commits go: nothing is new."""
    from deltalake import DeltaTable

    for number in range(4):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{number}.parquet")
    convert(str(tmp_path))
    assert Table(str(tmp_path)).optimize(OptimizeOptions()).files_removed == 4
    DeltaTable(tmp_path).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    )
    DeltaTable(tmp_path).create_checkpoint()
    log = tmp_path / "_delta_log"
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    content = pq.read_table(checkpoint)
    kept = [row["remove"] for row in content.to_pylist() if row.get("remove")]
    assert not kept, "the checkpoint still knows the old files"
    sync = convert(str(tmp_path), SYNC)
    assert sync.files_added == 0  # the commits remember
    for path in sorted(log.glob("*.json"))[:-1]:
        path.unlink()
    told: list[str] = []
    assert convert(str(tmp_path), SYNC, warn=told.append).files_added == 0
    assert "left out" in told[0] and "'0.parquet'" in told[0]
    fresh = tmp_path / "new.parquet"
    pq.write_table(pa.table({"id": [9]}), fresh)
    os.utime(fresh, (fresh.stat().st_mtime + 5,) * 2)
    assert convert(str(tmp_path), SYNC).files_added == 1
    rows = Table(str(tmp_path)).scan().read_all()["id"].to_pylist()
    assert sorted(rows) == [0, 1, 2, 3, 9]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("p=3/3.parquet", parquet(3, extra=["x"]), "no such column"),
        ("p=3/3.parquet", b"", "is empty"),
        ("p=x/3.parquet", parquet(3), "not a valid int32"),
        ("3.parquet", parquet(3), "its partition directories are not p=..."),
        ("p=3/3.parquet", None, "other files long"),
    ],
)
def test_files_that_do_not_fit_are_named(
    store: MemoryStore, name: str, content: bytes | None, told: str
) -> None:
    if content is None:
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": ["text"]}), sink)
        content = sink.getvalue()
    store.put(name, content)
    store.set_modified(name, 1_700_000_200_000)
    before = store.contents()
    with pytest.raises(ConversionError) as caught:
        run(store)
    assert told in caught.value.message
    assert store.contents() == before


def test_narrower_types_are_added_where_widening_is_allowed(store: MemoryStore) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([3], pa.int32())}), sink)
    store.put("p=3/3.parquet", sink.getvalue())
    store.set_modified("p=3/3.parquet", 1_700_000_200_000)
    with pytest.raises(ConversionError):
        run(store)
    run(store, ConvertOptions(sync=True, schema_mode="widen"))
    assert ids(store) == [1, 2, 3]


def test_a_mapped_table_that_renamed_its_columns(tmp_path: Path) -> None:
    (tmp_path / "p=1").mkdir()
    pq.write_table(pa.table({"a b": [1]}), tmp_path / "p=1/1.parquet")
    convert(str(tmp_path), ConvertOptions(column_mapping=True))
    log = tmp_path / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    (metadata,) = (line for line in lines if "metaData" in line)
    fields = json.loads(metadata["metaData"]["schemaString"])
    for field in fields["fields"]:
        field["name"] = f"new {field['name']}"
    metadata["metaData"] |= {"schemaString": json.dumps(fields), "partitionColumns": ["new p"]}
    (log / f"{1:020d}.json").write_text(json.dumps(metadata))
    (tmp_path / "p=2").mkdir()
    pq.write_table(pa.table({"a b": [2]}), tmp_path / "p=2/2.parquet")
    assert convert(str(tmp_path), SYNC).files_added == 1
    rows = Table(str(tmp_path)).scan().read_all().to_pylist()
    assert sorted(rows, key=str) == [{"new a b": n, "new p": n} for n in (1, 2)]


@pytest.mark.parametrize(
    "change",
    [
        {"configuration": {"delta.constraints.positive": "id > 0"}},
        {"schemaString": {"nullable": False}},
        {"schemaString": {"metadata": {"delta.generationExpression": "1"}}},
    ],
)
def test_tables_with_rules_for_rows_take_no_found_files(
    store: MemoryStore, change: dict[str, Any]
) -> None:
    (metadata,) = (a["metaData"] for a in commit(store, 0) if "metaData" in a)
    if "schemaString" in change:
        schema = json.loads(metadata["schemaString"])
        schema["fields"][0] |= change["schemaString"]
        change = {"schemaString": json.dumps(schema)}
    store.put(f"_delta_log/{1:020d}.json", json.dumps({"metaData": metadata | change}).encode())
    with pytest.raises(UnsupportedFeatureError, match="new files cannot be added"):
        run(store)


# -- races and crashes -------------------------------------------------------------------------


class RacingStore(ForwardingStore):
    """Lets another writer go first, right before our first attempt to commit."""

    def __init__(self, inner: Store, foreign: Callable[[], object]) -> None:
        super().__init__(inner)
        self._foreign: Callable[[], object] | None = foreign

    def put_if_absent(self, name: str, data: bytes) -> None:
        foreign, self._foreign = self._foreign, None
        if foreign is not None:
            foreign()
        super().put_if_absent(name, data)


def test_two_converts_racing_give_one_table() -> None:
    store = MemoryStore(f"memory://racing-sync/{next(_NUMBERS)}")
    store.put("1.parquet", parquet(1))
    told: list[str] = []
    racing = RacingStore(store, lambda: run(store, ConvertOptions(name="theirs")))
    report = run(racing, ConvertOptions(name="ours"), warn=told.append)
    assert report.is_table_already and report.version_after == 0
    assert any("another writer" in message for message in told)
    assert Table(store.uri, store=store).snapshot().metadata.name == "theirs"
    assert ids(store) == [1]


def add_new(store: MemoryStore) -> None:
    store.put("p=3/3.parquet", parquet(3))
    store.set_modified("p=3/3.parquet", 1_700_000_200_000)


def test_two_syncs_racing_add_each_file_once(store: MemoryStore) -> None:
    add_new(store)
    with pytest.raises(ConflictError, match="another run committed first"):
        run(RacingStore(store, lambda: run(store)))
    assert ids(store) == [1, 2, 3]
    assert run(store).files_added == 0


def test_a_sync_goes_on_over_an_append_and_stops_at_what_matters(store: MemoryStore) -> None:
    add_new(store)

    def foreign(action: dict[str, Any]) -> Callable[[], None]:
        return lambda: store.put(f"_delta_log/{1:020d}.json", json.dumps(action).encode())

    data = parquet(8)
    add = {"partitionValues": {"p": "1"}, "size": len(data), "modificationTime": 1}
    (metadata,) = (a for a in commit(store, 0) if "metaData" in a)
    same = {"add": {"path": "p=3/3.parquet", **add, "dataChange": True}}
    spelled = {"add": {**same["add"], "path": f"{store.uri}/p=3/3.parquet"}}
    twins = ((same, "the same files"), (spelled, "the same files"))
    for action, told in (*twins, (metadata, "schema, properties")):
        with pytest.raises(ConflictError, match=told):
            run(RacingStore(store, foreign(action)))
        store.delete_many([f"_delta_log/{1:020d}.json"])
    other = {"add": {"path": "p=1/8.parquet", **add, "dataChange": True}}

    def append() -> None:
        store.put("p=1/8.parquet", data)
        foreign(other)()

    assert run(RacingStore(store, append)).version_after == 2
    assert ids(store) == [1, 2, 3, 8]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["crash", "error"])
@pytest.mark.parametrize("sync", [False, True])
def test_what_fails_at_any_call_leaves_before_or_after(
    store: MemoryStore, sync: bool, action: Any, when: Any
) -> None:
    if sync:
        add_new(store)
    else:
        store.delete_many([name for name in store.contents() if name.startswith("_delta_log")])
    before = store.contents()
    times = {name: info.modified_ms for name, info in facts(store, before)}

    def reset() -> None:
        store.restore(before)
        for name, modified_ms in times.items():
            store.set_modified(name, modified_ms)

    options = SYNC if sync else ConvertOptions()
    faulty = FaultyStore(store)
    assert run(faulty, options).files_added
    points, expected = list(fault_points(faulty.calls, when)), ids(store)
    failures = 0
    for at in points:
        reset()
        try:
            run(FaultyStore(store, Fault(at, action, when)), options)
        except (Crash, DeltactlError):
            failures += 1
            committed = store.contents().keys() - before.keys()
            assert not committed or ids(store) == expected
        else:
            assert ids(store) == expected
        found = store.contents()
        assert {name: found[name] for name in before} == before
        run(store, options)  # the next run completes what was not done, and doubles nothing
        assert ids(store) == expected
    assert failures >= (len(points) if action == "crash" else len(points) - 2)


def facts(store: MemoryStore, names: Iterable[str]) -> Iterator[tuple[str, FileInfo]]:
    for name, info in zip(names, store.stat_many(list(names)), strict=True):
        assert info is not None
        yield name, info


def test_a_put_that_lies_is_settled_by_reading_back(store: MemoryStore) -> None:
    add_new(store)
    report = run(FaultyStore(store, Fault(1, "lie", method="put_if_absent")))
    assert report.version_after == 1
    assert ids(store) == [1, 2, 3]
    store.delete_many([name for name in store.contents() if name.startswith("_delta_log")])
    report = run(FaultyStore(store, Fault(1, "lie", method="put_if_absent")), ConvertOptions())
    assert not report.is_table_already and ids(store) == [1, 2, 3]


def test_a_partitioned_table_keeps_the_types_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "p=01").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "p=01/1.parquet")
    convert(str(tmp_path), ConvertOptions(partition_by=parse_partition_by("p string")))
    shutil.copytree(tmp_path / "p=01", tmp_path / "p=1")
    assert convert(str(tmp_path), SYNC).files_added == 1
    rows = Table(str(tmp_path)).scan(columns=["p"]).read_all()["p"].to_pylist()
    assert sorted(rows) == ["01", "1"]


ROW_ID = "_row-id-col-0a1b2c3d-4e5f-6789-abcd-ef0123456789"


def test_files_with_hidden_columns_fit_the_table(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(parquet(1))
    convert(str(tmp_path))
    mark = pa.nulls(1, pa.string())
    (tmp_path / "2.parquet").write_bytes(parquet(2, _change_type=mark, **{ROW_ID: [7]}))
    notes: list[str] = []
    convert(str(tmp_path), SYNC, warn=notes.append)
    (note,) = notes
    assert note.startswith(f"_change_type, {ROW_ID}: left out")
    log = (tmp_path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    bodies = [json.loads(line) for line in log]
    assert not any("metaData" in body for body in bodies)
    (add,) = (body["add"] for body in bodies if "add" in body)
    assert list(json.loads(add["stats"])["nullCount"]) == ["id"]
    expected = [{"id": 1}, {"id": 2}]
    assert multiset(Table(str(tmp_path)).scan().read_all().to_pylist()) == multiset(expected)
    assert multiset(rows_with_duckdb(tmp_path)) == multiset(expected)
    assert multiset(rows_with_delta_rs(tmp_path)) == multiset(expected)


def test_a_change_type_with_values_does_not_fit(store: MemoryStore) -> None:
    store.put("p=1/3.parquet", parquet(3, _change_type=["insert"]))
    with pytest.raises(ConversionError, match="_change_type.*no such column"):
        run(store)


def test_columns_in_which_the_table_keeps_row_ids_do_not_fit(store: MemoryStore) -> None:
    metadata = next(line["metaData"] for line in commit(store, 0) if "metaData" in line)
    metadata["configuration"]["delta.rowTracking.materializedRowIdColumnName"] = ROW_ID
    store.put(f"_delta_log/{1:020d}.json", json.dumps({"metaData": metadata}).encode())
    store.put("p=1/3.parquet", parquet(3, **{ROW_ID: [7]}))
    with pytest.raises(ConversionError, match=f"{ROW_ID}.*no such column"):
        run(store)


def test_statistics_that_were_not_read_are_unknown() -> None:
    """The new file has its columns in another order, so that others are among its first 32."""
    wide = MemoryStore(f"memory://sync/{next(_NUMBERS)}")
    names = [f"c{number:02}" for number in range(40)]
    wide.put("1.parquet", parquet(1, **{name: [1] for name in names}))
    run(wide, ConvertOptions())
    for number in (2, 3):
        content = parquet(number, **{name: [1] for name in reversed(names)})
        wide.put(f"{number}.parquet", content)
    run(wide)
    stats = [json.loads(line["add"]["stats"]) for line in commit(wide, 1) if "add" in line]
    assert [s["nullCount"].get("c00") for s in stats] == [0, None]
