"""Comparisons of random logs equal what a naive model of the log says."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.errors import DeltactlError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.history.diff import diff_versions
from deltactl.storage.open import open_store
from tests.support.random_logs import KINDS, logs
from tests.support.table_builder import TableBuilder

pytestmark = pytest.mark.thorough


def refuse(message: str) -> None:
    raise AssertionError(message)


def partitions(builder: TableBuilder, keys: Any, version: int) -> Counter[Any]:
    files = builder.state_at(version).files
    return Counter(files[key]["partitionValues"].get("p") or None for key in keys)


@settings(deadline=None, max_examples=15)
@given(logs(), st.data())
def test_a_diff_is_the_difference_of_two_sets(builder: TableBuilder, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, builder.version))
    last = data.draw(st.integers(first, builder.version))
    for version in {data.draw(st.integers(0, builder.version)) for _ in range(2)}:
        builder.checkpoint(version, data.draw(st.sampled_from(KINDS)))
    before, after = (set(builder.state_at(version).files) for version in (first, last))
    diff = diff_versions(DeltaLog(builder.store, refuse), first, last)
    assert diff.added.num_files == len(after - before)
    assert diff.removed.num_files == len(before - after)
    paths = {path for path, _ in before - after}
    assert diff.num_remarked == sum(path in paths for path, _ in after - before)
    for keys, version, side in (
        (after - before, last, "added"),
        (before - after, first, "removed"),
    ):
        counted: Counter[Any] = Counter()
        for part in diff.partitions:
            key = part.partition_values.get("p") or None
            counted[key] += getattr(part, side).num_files
        assert +counted == partitions(builder, keys, version)


@pytest.mark.corpus
def test_diffs_of_other_writers_tables_agree_with_snapshots(corpus: Path) -> None:
    compared = 0
    for place in sorted((corpus / "tables").iterdir())[::4]:
        store = open_store(str(place))
        try:
            latest = DeltaLog(store, lambda _message: None).snapshot()
        except DeltactlError:
            continue
        log = DeltaLog(store, lambda _message: None)
        oldest = log.first_rebuildable()
        first = DeltaLog(store, lambda _message: None).snapshot(oldest)
        diff = diff_versions(log, oldest, latest.version)
        net = diff.added.num_files - diff.removed.num_files
        assert net == latest.num_files - first.num_files, place
        compared += 1
    assert compared > 35
