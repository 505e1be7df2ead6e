"""Of any history: restore, then restore back."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.table import Table
from tests.support.restores import keys, latest, memory_table, restore
from tests.support.table_builder import Column, TableBuilder

pytestmark = pytest.mark.thorough

STEPS = ("append", "remove", "vector", "both", "property", "checkpoint", "nothing")
STEP = st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.sampled_from("uip"))


def take_step(builder: TableBuilder, step: tuple[str, int, str], number: int) -> None:
    what, chance, kind = step
    live = sorted(key[0] for key in builder.state.files)
    path = live[chance % len(live)] if live else None
    if what == "append":
        rows = [{"p": "ab"[chance % 2], "id": number * 10 + n} for n in range(3)]
        builder.append(rows)
    elif what == "remove" and path:
        builder.remove(path)
    elif what in ("vector", "both") and path:
        old = builder.find(path).get("deletionVector")
        deleted = [0] if old is None else [0, 1]
        actions = builder.delete_actions(path, deleted, kind)
        if what == "both":
            rows = [{"p": "a", "id": number * 10 + n} for n in range(3)]
            actions.append(builder.write_file(rows))
        builder.commit(*actions, operation="DELETE")
    elif what == "property":
        builder.change_metadata(configuration={"number": str(number)})
    elif what == "checkpoint":
        builder.checkpoint()
    elif what == "nothing":
        builder.commit(operation="VACUUM END")


def state_of(builder: TableBuilder, version: int | None = None) -> tuple[Any, Any, Any]:
    """Rows, (path, vector) pairs, and properties of a version."""
    table = Table("x", store=builder.store)
    rows = sorted(map(str, table.scan(version).read_all().to_pylist()))
    metadata = table.snapshot(version).metadata
    return rows, keys(builder.store, version), dict(metadata.configuration)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=1, max_size=6), st.data())
def test_restore_and_restore_back(steps: list[tuple[str, int, str]], data: st.DataObject) -> None:
    columns = [Column("p", "string"), Column("id")]
    builder = memory_table(*columns, partition_by=["p"], features=["deletionVectors"])
    builder.append([{"p": "a", "id": n} for n in (1, 2, 3)])
    for number, step in enumerate(steps, 1):
        take_step(builder, step, number)
    last = builder.version
    before = {version: state_of(builder, version) for version in range(last + 1)}
    target = data.draw(st.integers(0, last), "target")
    there = restore(builder.store, target)
    assert (there.version_after is None) == (before[target] == before[last])
    assert state_of(builder) == before[target]
    restore(builder.store, last)
    assert state_of(builder) == before[last]
    assert latest(builder.store) <= last + 2
    # Time travel works as before; the versions of the restores are whole too.
    for version, state in before.items():
        assert state_of(builder, version) == state
    if there.version_after is not None:
        assert state_of(builder, there.version_after) == before[target]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=1, max_size=6), st.data())
def test_some_partitions_and_back(steps: list[tuple[str, int, str]], data: st.DataObject) -> None:
    columns = [Column("p", "string"), Column("id")]
    builder = memory_table(*columns, partition_by=["p"], features=["deletionVectors"])
    builder.append([{"p": "a", "id": n} for n in (1, 2, 3)], [{"p": "b", "id": n} for n in (4, 5)])
    for number, step in enumerate(steps, 1):
        take_step(builder, step, number)
    last = builder.version
    now = state_of(builder)
    target = data.draw(st.integers(0, last), "target")
    then = state_of(builder, target)
    restore(builder.store, target, where="p = 'a'")
    rows, _, configuration = state_of(builder)
    wanted = [row for row in then[0] if "'a'" in row] + [row for row in now[0] if "'b'" in row]
    assert rows == sorted(wanted)
    assert configuration == now[2]
    restore(builder.store, last, where="p = 'a'")
    assert state_of(builder) == now
