"""A table is deleted and created again during a run, or its last commit is written again."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import ConflictError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing.commit_base import CommitBase, read_concurrent_commits
from deltactl.operations.alter.run import AlterOptions, alter_table
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.storage.store import Store
from deltactl.units import DAY_MS
from tests.support.checkpoints import NOW_MS, memory_of, new_table
from tests.support.clock import FixedClock
from tests.support.forwarding import Call, InterceptingStore
from tests.support.run import run_on
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path, encode_lines


def build(id_: str, first: int, commits: int = 4) -> TableBuilder:
    builder = TableBuilder(fresh_store(), [Column("id")])
    builder.commit(builder.metadata_action(id=id_))
    for number in range(first, first + commits):
        builder.append([{"id": number}])
    return builder


class _Recreated(InterceptingStore):
    """Another program changes the log at the first call that a condition accepts."""

    def __init__(self, inner: Store, when: Callable[[Call], bool], change: Callable[[], None]):
        super().__init__(inner)
        self._when, self._change = when, change
        self.was_changed = False

    def _intercept(self, call: Call) -> Any:
        if not self.was_changed and self._when(call):
            self.was_changed = True
            self._change()
        return call.do()


def log_of(store: Store) -> dict[str, bytes]:
    return {info.name: store.read(info.name) for info in store.list_from(LOG)}


def is_first_write(call: Call) -> bool:
    return call.method in ("open_output", "open_replacement")


def is_before_commit(call: Call) -> bool:
    return call.method == "stat_many" and call.names[0] == commit_path(5)


def is_commit(call: Call) -> bool:
    return call.method == "put_if_absent" and call.names[0] == commit_path(6)


_OPTIMIZE: Final = (optimize_table, OptimizeOptions())
_ALTER: Final = (alter_table, AlterOptions(properties={"a": "b"}))


@pytest.mark.parametrize("seconds", [0, 3])
@pytest.mark.parametrize(
    ("operation", "options", "when", "commits"),
    [
        (*run, commits)
        for run in [
            (*_OPTIMIZE, is_first_write),
            (checkpoint_table, CheckpointOptions(), is_first_write),
            (checkpoint_table, CheckpointOptions(kind="v2"), is_first_write),
            (*_ALTER, is_before_commit),
        ]
        for commits in (4, 6)
    ]
    + [(*run, is_commit, 6) for run in (_OPTIMIZE, _ALTER)],
)
def test_nothing_of_the_old_table_gets_into_the_new_one(
    operation: Any, options: Any, when: Callable[[Call], bool], seconds: int, commits: int
) -> None:
    """The commits have the same size in both tables if ``seconds``, and else the same time."""
    features = ["v2Checkpoint"] if getattr(options, "kind", None) == "v2" else []
    builder = TableBuilder(fresh_store(), [Column("id")], features=features)
    builder.commit(builder.metadata_action(id="old"))
    for number in range(4):
        builder.append([{"id": number}])
    store = builder.store
    assert isinstance(store, MemoryStore)
    before = log_of(store)
    new = {name: data.replace(b'"old"', b'"new"') for name, data in before.items()}
    new |= {commit_path(v): encode_lines([{"commitInfo": {}}]) for v in range(6, 2 + commits)}

    def create_again() -> None:
        for name, data in new.items():
            time_ms = store.stat_many([name])[0]
            store.put(name, data if seconds else data + b"\n")
            if time_ms is not None:
                store.set_modified(name, time_ms.modified_ms + 1000 * seconds)

    acting = _Recreated(store, when, create_again)
    with pytest.raises(ConflictError, match="the table was created again"):
        run_on(acting, operation, options, engine=LocalEngine(workers=1))
    assert acting.was_changed
    wanted = new if seconds else {n: d + b"\n" for n, d in new.items()}
    assert log_of(store) == wanted


def test_concurrent_commits_of_another_table_are_refused() -> None:
    """A vacuum reads them too."""
    builder = build("old", 0)
    base = CommitBase.of(DeltaLog(builder.store, ignore_warning).snapshot())
    new = log_of(build("new", 10, commits=6).store)

    def create_again() -> None:
        for name, data in new.items():
            builder.store.put(name, data + b"\n")

    acting = _Recreated(builder.store, lambda call: call.method == "list_from", create_again)
    with pytest.raises(ConflictError, match="the table was created again"):
        read_concurrent_commits(DeltaLog(acting, ignore_warning), base)


def test_a_commit_that_was_written_again_is_the_same() -> None:
    """Each writer may complete a commit that another one began in DynamoDB."""
    builder = build("same", 0)
    store, name = builder.store, commit_path(builder.version)
    assert isinstance(store, MemoryStore)

    def write_again() -> None:
        store.put(name, store.read(name))
        store.set_modified(name, 2_000_000_000_000)

    acting = _Recreated(store, is_first_write, write_again)
    report = run_on(acting, optimize_table, OptimizeOptions(), engine=LocalEngine(workers=1))
    assert (acting.was_changed, report.versions) == (True, (builder.version + 1,))


@pytest.mark.parametrize("is_read_before", [True, False])
def test_a_later_version_may_have_another_id(is_read_before: bool) -> None:
    builder = build("before", 0)
    store, version = builder.store, builder.version
    builder.checkpoint(version)
    log = DeltaLog(store, ignore_warning)
    found = CommitBase.of(log.snapshot()) if is_read_before else None
    builder.commit(builder.metadata_action(id="after"))
    store.delete_many([commit_path(number) for number in range(version + 1)])
    log.update()
    (found or CommitBase.of(log.snapshot(version))).ensure_same_table(log)


@pytest.mark.parametrize("ensure", [CommitBase.ensure_same_table, CommitBase.ensure_table_is_there])
@pytest.mark.parametrize("id_", ["before", "after"])
def test_the_latest_version_tells_if_a_log_cleanup_deleted_the_earlier_ones(
    id_: str, ensure: Callable[..., object]
) -> None:
    builder = build("before", 0)
    store, version = builder.store, builder.version
    base = CommitBase.of(DeltaLog(store, ignore_warning).snapshot())
    builder.commit(builder.metadata_action(id=id_))
    builder.checkpoint(version + 1)
    builder.append([{"id": 9}])
    store.delete_many([commit_path(number) for number in range(version + 1)])
    other = nullcontext() if id_ == "before" else pytest.raises(ConflictError, match="replaced")
    with other:
        ensure(base, DeltaLog(store, ignore_warning))


def test_a_log_cleanup_deletes_nothing_of_the_new_table() -> None:
    builder = new_table()
    builder.commit(builder.metadata_action(id="old"))
    for _ in range(7):
        builder.commit()
    builder.checkpoint(5)
    store = memory_of(builder)
    before = log_of(store)
    for version in range(builder.version + 1):
        store.set_modified(commit_path(version), NOW_MS - (90 - version) * DAY_MS)
    plans = iter(range(9))

    def ends_second_plan(call: Call) -> bool:
        is_end = call.method == "list_from" and call.names[0].endswith("_staged_commits")
        return is_end and next(plans) == 1

    def create_again() -> None:
        store.delete_many(list(before))
        for version in range(builder.version + 1):
            name = commit_path(version)
            store.put(name, before[name].replace(b'"old"', b'"new"'))

    acting, clock = _Recreated(store, ends_second_plan, create_again), FixedClock(NOW_MS)
    options = CheckpointOptions(cleanup_only=True)
    with pytest.raises(ConflictError, match="the table was created again"):
        run_on(acting, checkpoint_table, options, engine=LocalEngine(workers=1), clock=clock)
    assert acting.was_changed
    assert len(log_of(store)) == builder.version + 1
