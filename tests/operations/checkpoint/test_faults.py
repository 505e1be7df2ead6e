"""What dies, fails or lies at any store call of a checkpoint, and what the table is afterwards."""

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import (
    ConflictError,
    DeltactlError,
    InterruptedRunError,
    TransientStorageError,
    VerificationError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import list_log
from deltactl.operations.checkpoint.run import (
    CheckpointOptions,
    CheckpointReport,
    checkpoint_table,
    plan_checkpoint,
)
from deltactl.operations.checkpoint.write import write_checkpoint
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import FileInfo, Replacement, Store
from tests.support.checkpoints import DAY_MS, NOW_MS, memory_of, new_table
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.parameters import in_turn
from tests.support.run import run_on
from tests.support.stores import Crash, Fault, FaultyStore, States, fault_points, opened_as
from tests.support.table_builder import LOG, TableBuilder, commit_path

pytestmark = pytest.mark.thorough

HINT = f"{LOG}/_last_checkpoint"
CLASSIC = CheckpointOptions(kind="classic", cleanup=True)
SIDECARS = CheckpointOptions(kind="v2", sidecar_rows=2, cleanup=True, compact_log=True)


def set_scene(options: CheckpointOptions) -> TableBuilder:
    """Version 5 with a checkpoint at 2 and its hint; all of it older than any retention."""
    features = ["deletionVectors", *(["v2Checkpoint"] if options.kind == "v2" else [])]
    builder = new_table(partition_by=["p"], features=features)
    paths = builder.append(*([{"id": n, "p": "xyz"[n % 3]}] for n in range(5)))
    builder.remove(paths[0])
    builder.checkpoint(2, "v2-json" if options.kind == "v2" else "classic")
    builder.hint(2)
    builder.append([{"id": 7, "p": None}])
    builder.delete_rows(paths[1], [0])
    builder.remove(paths[2])
    age(builder)
    return builder


def age(builder: TableBuilder) -> None:
    """Make every file of the log 100 days older than the run."""
    for number, name in enumerate(sorted(memory_of(builder).contents())):
        memory_of(builder).set_modified(name, NOW_MS - 100 * DAY_MS + number)


def run(store: Store, options: CheckpointOptions) -> CheckpointReport:
    return run_on(
        store, checkpoint_table, options, engine=LocalEngine(workers=1), clock=FixedClock(NOW_MS)
    )


def live(store: Store, version: int | None = None) -> set[tuple[str, str]]:
    files = DeltaLog(store, lambda message: None).snapshot(version).files
    return {(row["path"], str(row["deletion_vector"])) for row in files.to_pylist()}


def assert_whole(builder: TableBuilder, expected: set[tuple[str, str]]) -> None:
    """The latest version reads the same, from whatever checkpoint a reader takes."""
    assert live(builder.store) == expected
    for found in list_log(builder.store).checkpoints:
        if found.version == builder.version:
            snapshot = DeltaLog(builder.store, pytest.fail).snapshot(
                skip=frozenset(set(list_log(builder.store).checkpoints) - {found})
            )
            paths = {row["path"] for row in snapshot.files.to_pylist()}
            assert paths == {path for path, _ in expected}


class LateStore(ForwardingStore):
    """Says that the file naming the sidecars could not be put, and puts it later all the same."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._late: list[tuple[str, bytes]] = []

    def put(self, name: str, data: bytes) -> None:
        if ".checkpoint." in name:
            self._late.append((name, data))
            raise TransientStorageError(f"no answer about {name}")
        super().put(name, data)

    def land(self) -> None:
        for name, data in self._late:
            self._inner.put(name, data)


def test_a_checkpoint_that_arrives_late_has_its_sidecars() -> None:
    builder = set_scene(SIDECARS)
    expected, store = live(builder.store), LateStore(builder.store)
    with opened_as(store), pytest.raises(TransientStorageError):
        run(store, SIDECARS)
    store.land()
    assert builder.version in {found.version for found in list_log(builder.store).checkpoints}
    assert_whole(builder, expected)


class RepairedStore(ForwardingStore):
    """Puts a lost sidecar and its checkpoint back, right after a run replaced the checkpoint."""

    def __init__(self, inner: Store, top: str, sidecar: str) -> None:
        super().__init__(inner)
        self._top, self.right = top, {name: inner.read(name) for name in (sidecar, top)}
        inner.delete_many([sidecar])

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        if self._top in names and self._inner.read(self._top) != self.right[self._top]:
            for name, data in self.right.items():
                self._inner.put(name, data)
        return super().stat_many(names)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_checkpoint_of_another_run_with_the_same_name_stays(
    form: Literal["json", "parquet"],
) -> None:
    properties = {"delta.checkpointPolicy": "v2"}
    builder = new_table(partition_by=["p"], features=["v2Checkpoint"], properties=properties)
    builder.append([{"id": 1, "p": "x"}])
    options, clock = CheckpointOptions(top_format=form), FixedClock(NOW_MS, first_id=100)
    old = run_on(builder.store, checkpoint_table, options, clock=clock).written
    assert old is not None
    store = RepairedStore(builder.store, old.names[0], old.sidecars[0])
    with opened_as(store), pytest.raises((VerificationError, ConflictError)):
        run(store, options)
    assert {name: builder.store.read(name) for name in store.right} == store.right


class DeafStore(ForwardingStore):
    """Takes files, and then cannot give back those of a version."""

    def __init__(self, inner: Store, version: int) -> None:
        super().__init__(inner)
        self._start = f"{LOG}/{version:020d}.checkpoint"

    def open_input(self, name: str) -> pa.NativeFile:
        if name.startswith(self._start):
            raise TransientStorageError(f"no answer about {name}")
        return super().open_input(name)


def test_who_cannot_read_back_leaves_what_another_may_have_built_on() -> None:
    builder = new_table(partition_by=["p"])
    builder.append(*([{"id": n, "p": "xyz"[n % 3]}] for n in range(5)))
    age(builder)
    store, expected = builder.store, live(builder.store)
    log = DeltaLog(store, pytest.fail)
    snapshot = log.snapshot()
    plan = plan_checkpoint(log, snapshot, CLASSIC)
    run(store, CLASSIC)
    deaf = DeafStore(store, builder.version)
    with opened_as(deaf), pytest.raises(DeltactlError):
        context = RunContext(
            warn=pytest.fail, engine=LocalEngine(workers=1), clock=FixedClock(NOW_MS)
        )
        write_checkpoint(log, snapshot, plan, CLASSIC, context)
    assert min(list_log(store).commits) == builder.version, "nobody cleaned up: a weak test"
    assert live(store) == expected


def calls_of(builder: TableBuilder, options: CheckpointOptions) -> list[tuple[str, str]]:
    before = memory_of(builder).contents()
    faulty = FaultyStore(builder.store)
    with opened_as(faulty):
        assert run(faulty, options).written is not None
    reset(builder, before)
    return faulty.calls


def reset(builder: TableBuilder, contents: dict[str, bytes]) -> None:
    memory_of(builder).restore(contents)
    age(builder)


@pytest.mark.parametrize(("options", "when"), in_turn([CLASSIC, SIDECARS], ["after", "before"]))
def test_a_crash_at_any_call_leaves_a_readable_table(options: CheckpointOptions, when: Any) -> None:
    builder = set_scene(options)
    before, expected = memory_of(builder).contents(), live(builder.store)
    survived: set[tuple[str, str]] = set()
    states = States(memory_of(builder))
    for at in fault_points(calls_of(builder, options), when, "crash"):
        faulty = FaultyStore(builder.store, Fault(at, "crash", when))
        with opened_as(faulty):
            try:
                run(faulty, options)
                survived.add(faulty.calls[at - 1])
            except Crash:
                pass
        if states.is_new():
            assert_whole(builder, expected)
            run(builder.store, options)
            assert_whole(builder, expected)
        reset(builder, before)
    # There is no after where nothing is there to be read.
    assert survived <= {("read", f"{LOG}/{5:020d}.crc")}


@pytest.mark.parametrize("options", [CLASSIC, SIDECARS], ids=["classic", "v2"])
def test_a_write_truncated_at_any_call_leaves_a_readable_table(options: CheckpointOptions) -> None:
    builder = set_scene(options)
    before, expected = memory_of(builder).contents(), live(builder.store)
    states = States(memory_of(builder))
    for at in fault_points(calls_of(builder, options), "after", "crash"):
        faulty = FaultyStore(builder.store, Fault(at, "tear"))
        with opened_as(faulty), pytest.raises(Crash):
            run(faulty, options)
        # The store puts whole files.
        if faulty.calls[-1][0] not in ("put", "put_if_absent") and states.is_new():
            assert_whole(builder, expected)
        reset(builder, before)


@pytest.mark.parametrize(("options", "when"), in_turn([CLASSIC, SIDECARS], ["before", "after"]))
def test_an_error_at_any_call_is_reported_or_overcome(
    options: CheckpointOptions, when: Any
) -> None:
    builder = set_scene(options)
    before, expected = memory_of(builder).contents(), live(builder.store)
    states = States(memory_of(builder))
    for at in fault_points(calls_of(builder, options), when, "error"):
        faulty = FaultyStore(builder.store, Fault(at, "error", when))
        with opened_as(faulty):
            try:
                run(faulty, options)
            except DeltactlError:
                hinted = builder.store.read(HINT)
                assert hinted == before[HINT] or b"checksum" in hinted
        if states.is_new():
            assert_whole(builder, expected)
        reset(builder, before)


class Rotting(ForwardingStore):
    """Stores what it is given, and reads something else of it."""

    def __init__(self, inner: Store, rot: Callable[[bytes], bytes]) -> None:
        super().__init__(inner)
        self._rot = rot

    def open_input(self, name: str) -> pa.NativeFile:
        data = self._inner.read(name)
        is_new = f"{5:020d}.checkpoint" in name
        return pa.BufferReader(self._rot(data) if is_new else data)


def _swap(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def rot(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new)

    return rot


def _double(data: bytes) -> bytes:
    """Another file's size, as eight bytes."""
    table = pq.read_table(io.BytesIO(data))
    size = next(r["add"]["size"] for r in table.to_pylist() if r["add"] is not None)
    return data.replace(size.to_bytes(8, "little"), (size + 1).to_bytes(8, "little"))


def _lose_rows(data: bytes) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    sink = io.BytesIO()
    pq.write_table(table.slice(0, table.num_rows - 1), sink)
    return sink.getvalue()


MUTATIONS = {
    "another path": _swap(b"f00006.parquet", b"f00066.parquet"),
    "another size": _double,
    "a row less": _lose_rows,
    "cut off": lambda data: data[: len(data) // 2],
    "no footer": lambda data: data[:-4] + b"????",
}


@pytest.mark.parametrize("kind", ["classic", "v2"])
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_is_read_back_otherwise_is_removed_and_never_named(mutation: str, kind: Any) -> None:
    options = CheckpointOptions(kind=kind, compat="plain")
    builder = set_scene(options)
    before = memory_of(builder).contents()
    rotting = Rotting(builder.store, MUTATIONS[mutation])
    with opened_as(rotting), pytest.raises(VerificationError, match=r"checkpoint"):
        run(rotting, options)
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize("text", [b'"appId":"app"', b'"domain":"a"', b'"id":"5fba94ed'])
def test_a_top_level_file_that_changed_is_removed(text: bytes) -> None:
    builder = new_table(features=["v2Checkpoint", "domainMetadata"], domains={"a": "{}"})
    builder.commit({"txn": {"appId": "app", "version": 1}})
    before = memory_of(builder).contents()

    class Changing(ForwardingStore):
        def read(self, name: str) -> bytes:
            data = super().read(name)
            return (
                data.replace(text, text[:-3] + b"zz" + text[-1:]) if "checkpoint" in name else data
            )

    changing = Changing(builder.store)
    with opened_as(changing), pytest.raises(VerificationError):
        run(changing, CheckpointOptions(kind="v2"))
    assert memory_of(builder).contents() == before


def test_what_another_writer_put_there_meanwhile_is_left() -> None:
    """Same name, other bytes, as good as ours: removing it would be the only harm."""
    builder = set_scene(CLASSIC)
    name = f"{LOG}/{5:020d}.checkpoint.parquet"

    class Overtaking(ForwardingStore):
        def open_replacement(self, name: str) -> Replacement:
            inner, ours = self._inner, super().open_replacement(name)
            close = ours.close

            def close_and_lose() -> None:
                was_open = not ours.closed
                close()
                if was_open:
                    inner.put(name, b"PAR1 of somebody else PAR1")

            ours.close = close_and_lose  # type: ignore[method-assign]
            return ours

    overtaking = Overtaking(builder.store)
    with opened_as(overtaking), pytest.raises(ConflictError, match="another writer"):
        run(overtaking, CheckpointOptions())
    assert builder.store.read(name) == b"PAR1 of somebody else PAR1"


def test_a_cancelled_run_leaves_nothing() -> None:
    builder = set_scene(SIDECARS)
    before = memory_of(builder).contents()
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(InterruptedRunError):
        run_on(
            builder.store,
            checkpoint_table,
            CheckpointOptions(kind="v2"),
            warn=pytest.fail,
            cancel=cancel,
        )
    assert memory_of(builder).contents() == before


def test_a_run_that_is_cancelled_late_keeps_the_checkpoint_and_deletes_nothing() -> None:
    builder = set_scene(CLASSIC)
    before = memory_of(builder).contents()
    cancel = threading.Event()
    report = run_on(
        builder.store,
        checkpoint_table,
        CLASSIC,
        warn=pytest.fail,
        clock=FixedClock(NOW_MS),
        cancel=cancel,
        on_progress=lambda progress: cancel.set(),
    )
    assert report.interrupted
    assert report.hint_moved
    assert set(before) < set(memory_of(builder).contents())


def test_a_share_that_was_not_written_is_noticed() -> None:
    """Every file may be as it was written, and still one be missing."""
    options = CheckpointOptions(kind="v2", sidecar_rows=1)
    builder = set_scene(options)
    before = memory_of(builder).contents()
    log = DeltaLog(builder.store, pytest.fail)
    snapshot = log.snapshot()
    plan = plan_checkpoint(log, snapshot, options)
    assert plan.partitions
    plan = replace(plan, partitions=plan.partitions[:-1])
    context = RunContext(warn=pytest.fail, engine=LocalEngine(1), clock=FixedClock(NOW_MS))
    with pytest.raises(VerificationError, match="but the new checkpoint has"):
        write_checkpoint(log, snapshot, plan, options, context)
    assert memory_of(builder).contents() == before


def test_cleanup_stops_at_what_cannot_be_deleted() -> None:
    builder = set_scene(CLASSIC)

    class Refusing(ForwardingStore):
        def delete_many(self, names: Any) -> Any:
            kept = [name for name in names if name == commit_path(1)]
            failed = super().delete_many([name for name in names if name not in kept])
            return failed | {name: DeltactlError("no permission") for name in kept}

    refusing = Refusing(builder.store)
    with opened_as(refusing):
        report = run(refusing, CLASSIC)
    assert report.failed == ((commit_path(1), "no permission"),)
    assert f"{LOG}/{2:020d}.checkpoint.parquet" in memory_of(builder).contents()
