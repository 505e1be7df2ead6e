"""The events that a snapshot kept while it was read, beside those of a reading of their own."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.log.commits.events import LogSweep
from deltactl.log.lifetimes import sweep_commits
from deltactl.log.listing import list_log
from deltactl.log.replay import Collect
from deltactl.log.snapshot import load_snapshot
from tests.support.stores import CountingStore, MemoryStore
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path

_NUMBERS = itertools.count()


def build(seed: int, steps: int) -> TableBuilder:
    chance = random.Random(seed)
    builder = TableBuilder(
        MemoryStore(f"memory://events/{next(_NUMBERS)}"),
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
    listing = list_log(builder.store)
    snapshot = load_snapshot(builder.store, warn=print, listing=listing, collect=Collect.EVENTS)
    known = snapshot.tail.sweep
    last = snapshot.version
    alone = sweep_commits(builder.store, listing, snapshot.metadata, start, last)
    joined = sweep_commits(builder.store, listing, snapshot.metadata, start, last, known=known)
    assert (joined.first, joined.last) == (alone.first, alone.last) == (start, last)
    assert rows_of(joined.events) == rows_of(alone.events)
    assert rows_of(joined.change_files) == rows_of(alone.change_files)


def test_no_commit_is_read_twice() -> None:
    builder = build(1, 6)
    counting = CountingStore(builder.store)
    listing = list_log(counting)
    snapshot = load_snapshot(counting, warn=print, listing=listing, collect=Collect.EVENTS)
    last = snapshot.version
    sweep = sweep_commits(
        *(counting, listing, snapshot.metadata, listing.first_commit, last),
        known=snapshot.tail.sweep,
    )
    assert sweep.events.num_rows
    assert counting.names["read_many"] == [commit_path(version) for version in range(last + 1)]


def test_a_compacted_file_has_no_events_of_single_commits() -> None:
    builder = build(2, 6)
    texts = [builder.store.read(commit_path(version)) for version in range(1, 4)]
    builder.store.put(f"{LOG}/{1:020}.{3:020}.compacted.json", b"".join(texts))
    listing = list_log(builder.store)
    snapshot = load_snapshot(builder.store, warn=print, listing=listing, collect=Collect.EVENTS)
    known = snapshot.tail.sweep
    assert isinstance(known, LogSweep)
    assert (known.first, known.last) == (4, builder.version)
    last = snapshot.version
    alone = sweep_commits(builder.store, listing, snapshot.metadata, 0, last)
    joined = sweep_commits(builder.store, listing, snapshot.metadata, 0, last, known=known)
    assert rows_of(joined.events) == rows_of(alone.events)
