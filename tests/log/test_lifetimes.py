"""One pass over the commits: when each file was live, against a model of dictionaries."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.errors import CorruptLogError
from deltactl.log.commits.events import EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.log.lifetimes import Lifetimes, version_ranges
from tests.log.commits.test_events import build as build_random
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path


def build() -> TableBuilder:
    return TableBuilder(
        fresh_store(),
        [Column("id"), Column("p", "string")],
        partition_by=["p"],
        features=["deletionVectors"],
    )


def lifetimes_of(builder: TableBuilder, first: int | None = None) -> Lifetimes:
    log = DeltaLog(builder.store, lambda message: None)
    scan = log.events(log.snapshot(), log.listing.first_commit, EventCollector())
    return Lifetimes.of(scan, log.first_rebuildable() if first is None else first)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 25), st.booleans())
def test_live_files_of_every_version_as_the_model_has_them(
    seed: int, steps: int, forgets: bool
) -> None:
    chance, builder = random.Random(seed), build_random(seed, steps)
    first = 0
    if forgets:
        first = chance.randint(0, builder.version)
        builder.checkpoint(first)
        builder.forget_commits(first)
        first = first if builder.store.stat_many([commit_path(0)]) == [None] else 0
    found = lifetimes_of(builder)
    assert found.first == first
    everything = np.ones(len(found.born), np.bool_)
    counts = found.count(everything)
    known = set(zip(found.files["path"].to_pylist(), found.files["key"].to_pylist(), strict=True))
    for version in range(first, builder.version + 1):
        files = builder.state_at(version).files
        untouched = [
            add
            for (path, _), add in files.items()
            if all(path != known_path for known_path, _ in known)
        ]
        assert counts[version - first] == len(files) - len(untouched)


def test_vectors_are_needed_by_the_versions_that_name_them() -> None:
    builder = build()
    (path,) = builder.append([{"id": i, "p": "a"} for i in range(3)])
    builder.delete_rows(path, [0])
    builder.delete_rows(path, [1])
    vectors = sorted(n for batch in builder.store.walk() for n in batch if n.endswith(".bin"))
    found = lifetimes_of(builder)
    needed = {name: found.count(found.mask(pa.array([name]))).tolist() for name in vectors}
    assert sorted(needed.values()) == [[0, 0, 0, 1], [0, 0, 1, 0]]
    assert found.count(found.mask(pa.array([path]))).tolist() == [0, 1, 1, 1]


def test_the_tombstone_of_a_vector_is_no_file_of_earlier_versions() -> None:
    builder = build()
    (path,) = builder.append([{"id": 1, "p": "a"}])
    name = "deletion_vector_8ae95578-9748-4be0-8035-39701ca74081.bin"
    tombstone = {"path": name, "deletionTimestamp": 1, "dataChange": False}
    builder.commit({"remove": tombstone})  # as DROP FEATURE of Delta on Spark
    found = lifetimes_of(builder)
    assert found.files["path"].to_pylist() == [path]


def test_change_files_are_returned_with_their_version() -> None:
    builder = build()
    builder.append([{"id": 1, "p": "a"}])
    builder.commit({"cdc": {"path": "_change_data/a%20b.parquet", "partitionValues": {}}})
    log = DeltaLog(builder.store, pytest.fail)
    scan = log.events(log.snapshot(), 0, EventCollector())
    assert scan.change_files.to_pylist() == [{"path": "_change_data/a b.parquet", "version": 2}]


def test_a_broken_commit_is_named() -> None:
    builder = build()
    builder.append([{"id": 1, "p": "a"}])
    builder.store.put(commit_path(1), b'{"add":{"path"')
    with pytest.raises(CorruptLogError, match="1.json"):
        DeltaLog(builder.store, pytest.fail).scan([0, 1], EventCollector())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], []),
        ([False], []),
        ([True], [(5, 5)]),
        ([True, True, False, True], [(5, 6), (8, 8)]),
        ([False, True, True], [(6, 7)]),
    ],
)
def test_flags_of_versions_become_ranges(
    flags: list[bool], expected: list[tuple[int, int]]
) -> None:
    assert version_ranges(5, np.array(flags, np.bool_)) == expected


@pytest.mark.parametrize("blank", ["\n", "\r\n", "\t\n", " \n", "\f\n", "   "])
def test_blank_lines_move_no_event_to_another_version(blank: str) -> None:
    builder = build()
    (path,) = builder.append([{"id": 1, "p": "a"}])
    builder.append([{"id": 2, "p": "a"}])
    text = builder.store.read(commit_path(2)).decode()
    builder.store.put(commit_path(2), f"{text}{blank * 3}".encode())
    removed = builder.remove(path)
    log = DeltaLog(builder.store, pytest.fail)
    events = log.events(log.snapshot(), 0, EventCollector()).events
    told = dict(zip(events["is_add"].to_pylist(), events["version"].to_pylist(), strict=True))
    assert told == {True: 2, False: removed}
