"""What the tests of checkpoints share: small tables, a run, and what lies in the files."""

import io
import json
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltactl.engine.base import CancelToken, Done, Engine, Failed, OnProgress, P, R, Task, Worker
from deltactl.engine.local import LocalEngine
from deltactl.errors import ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import read_hint
from deltactl.operations.checkpoint.run import CheckpointOptions, CheckpointReport, checkpoint_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from tests.support.clock import FixedClock
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import LOG, START_MS, Column, TableBuilder

DAY_MS = 24 * 60 * 60 * 1000
NOW_MS = START_MS + 400 * DAY_MS


def new_table(*columns: Column, **options: Any) -> TableBuilder:
    """A table in memory with the given columns, else `id` and `p`."""
    store = fresh_store()
    store.advance(NOW_MS - START_MS)
    return TableBuilder(store, columns or (Column("id"), Column("p", "string")), **options)


def memory_of(builder: TableBuilder) -> MemoryStore:
    assert isinstance(builder.store, MemoryStore)
    return builder.store


class PicklingEngine(Engine):
    """Threads, to which everything travels in bytes, as it does to processes elsewhere."""

    name = "pickling"
    reason = "the tests"

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        shipped, copies = pickle.loads(pickle.dumps((worker, list(tasks))))
        yield from LocalEngine(2).run(shipped, copies, cancel=cancel, on_progress=on_progress)


def fail(message: str) -> None:
    pytest.fail(message)


def checkpoint(store: Store, **options: Any) -> CheckpointReport:
    """Run `checkpoint` at a fixed time; any warning fails the test."""
    return checkpoint_table(
        DeltaLog(store, ignore_warning),
        CheckpointOptions(**options),
        RunContext(warn=fail, engine=PicklingEngine(), clock=FixedClock(NOW_MS)),
    )


def read_rows(store: Store, name: str, column: str | None = None) -> list[dict[str, Any]]:
    """The actions of a Parquet file in order, each with its one column; or of one column."""
    rows = pq.read_table(io.BytesIO(store.read(name))).to_pylist()
    actions = [{key: value for key, value in row.items() if value is not None} for row in rows]
    assert all(len(action) == 1 for action in actions)
    if column is None:
        return actions
    return [action[column] for action in actions if column in action]


def log_names(store: Store) -> list[str]:
    """Names in the log, without its folder."""
    return [info.name.removeprefix(f"{LOG}/") for info in store.list_from(LOG)]


def hint_of(store: Store) -> dict[str, Any]:
    """The hint, whose checksum has to hold."""
    assert read_hint(store, fail) is not None
    found: dict[str, Any] = json.loads(store.read(f"{LOG}/_last_checkpoint"))
    assert "checksum" in found
    return found
