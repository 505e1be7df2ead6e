"""Events that were collected while a snapshot was read are those of a scan alone."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.log.commits.events import CommitScan, EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.storage.store import Store
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder


def build(seed: int, steps: int) -> TableBuilder:
    chance = random.Random(seed)
    builder = TableBuilder(
        fresh_store(),
        [Column("id"), Column("p", "string")],
        partition_by=["p"],
        features=["deletionVectors"],
    )
    for number in range(steps):
        live = [add["path"] for add in builder.state.files.values()]
        choice = chance.randrange(5)
        if choice == 0 and live:
            builder.remove(chance.choice(live))
        elif choice == 1 and live:
            builder.delete_rows(chance.choice(live), [chance.randrange(3)])
        elif choice == 2:
            builder.commit({"cdc": {"path": f"_change_data/{number}%20.parquet"}})
        else:
            builder.append([{"id": 3 * number + i, "p": chance.choice("ab")} for i in range(3)])
    return builder


def scan(store: Store, first: int, *, with_snapshot: bool = True) -> CommitScan:
    """The events since a version: with those that were collected for a snapshot, or alone."""
    log, events = DeltaLog(store, pytest.fail), EventCollector()
    snapshot = log.snapshot(visitors=[events] if with_snapshot else [])
    return log.events(snapshot, first, events)


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 12), st.booleans(), st.integers(0, 12))
def test_the_same_events_by_either_reading(
    seed: int, steps: int, has_checkpoint: bool, start: int
) -> None:
    builder = build(seed, steps)
    if has_checkpoint:
        builder.checkpoint(seed % (builder.version + 1))
    start = min(start, builder.version)
    joined = scan(builder.store, start)
    alone = scan(builder.store, start, with_snapshot=False)
    assert (joined.first, joined.last) == (alone.first, alone.last) == (start, builder.version)
    assert rows_of(joined.events) == rows_of(alone.events)
    assert rows_of(joined.change_files) == rows_of(alone.change_files)
