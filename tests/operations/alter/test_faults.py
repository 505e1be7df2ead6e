"""What dies or fails at any store call of an alter."""

from typing import Any

import pytest

from deltactl.errors import CommitOutcomeUnknownError, DeltactlError
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.run import alter_table
from deltactl.protocol.features import list_features
from deltactl.table import Table
from deltactl.units import HOUR_MS
from tests.support.clock import FixedClock
from tests.support.run import run_on
from tests.support.stores import Crash, Fault, FaultyStore, MemoryStore, States, fault_points
from tests.support.table_builder import START_MS, Column, TableBuilder

pytestmark = pytest.mark.thorough
SLOW = pytest.mark.slow

CHANGES: dict[str, dict[str, Any]] = {
    "row ids": {"properties": {"delta.enableRowTracking": "true"}},
    "timestamps": {"properties": {"delta.enableInCommitTimestamps": "true"}, "unset": ("a",)},
    "rowTracking": {"drop_feature": "rowTracking"},
    "deletionVectors": {"drop_feature": "deletionVectors"},
    "typeWidening": {"drop_feature": "typeWidening"},
    "columnMapping": {"drop_feature": "columnMapping"},
    "checkpointProtection": {"drop_feature": "checkpointProtection", "truncate_history": True},
}


def alter(store: Any, changes: dict[str, Any]) -> None:
    clock = FixedClock(START_MS + 26 * HOUR_MS)  # equal states have equal bytes
    run_on(store, alter_table, AlterOptions(**changes), clock=clock)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["crash", "error"])
@pytest.mark.parametrize(
    "name",
    [
        "row ids",
        "timestamps",
        "rowTracking",
        "checkpointProtection",
        pytest.param("deletionVectors", marks=SLOW),
        pytest.param("typeWidening", marks=SLOW),
        pytest.param("columnMapping", marks=SLOW),
    ],
)
def test_the_next_run_makes_the_rest(name: str, kind: Any, when: Any) -> None:
    changes = CHANGES[name]
    dropped = changes.get("drop_feature")
    store = MemoryStore(f"memory://alter-{kind}-{when}")
    store.delete_many([name for batch in store.walk() for name in batch])
    features = [dropped] if dropped else []
    builder = TableBuilder(
        store,
        [Column("id", "integer")],
        features=features,
        properties={"a": "1", "delta.requireCheckpointProtectionBeforeVersion": "1"},
        mapping="name" if dropped == "columnMapping" else "none",
    )
    path, _ = builder.append([{"id": 0}, {"id": 1}, {"id": 2}], [{"id": 3}])
    if dropped == "deletionVectors":
        builder.delete_rows(path, [0])
    if dropped == "typeWidening":
        changes_of_id = [{"fromType": "integer", "toType": "long"}]
        metadata = {"delta.typeChanges": changes_of_id}
        builder.change_metadata(columns=[Column("id", "long", metadata=metadata)])
        builder.append([{"id": 1 << 40}])
    old: list[str] = []
    if dropped == "checkpointProtection":
        builder.checkpoint(1)
        old = sorted(store.contents())
        builder.commit()
        store.advance(25 * HOUR_MS)
    rows = [row["id"] for row in builder.rows()]
    before = store.contents()
    counted = FaultyStore(store)
    alter(counted, changes)
    states = States(store)
    for at in fault_points(counted.calls, when, kind):
        store.restore(before)
        for late_ms, file in enumerate(old):
            store.set_modified(file, START_MS + late_ms)
        try:
            alter(FaultyStore(store, Fault(at, kind, when)), changes)
        except (Crash, DeltactlError) as error:
            is_unknown = isinstance(error, CommitOutcomeUnknownError)
            assert not is_unknown or kind == "error", counted.calls[at - 1]
        if not states.is_new():
            continue  # what the next run makes of it is shown above
        table = Table("x", store=store)
        assert sorted(table.scan().read_all()["id"].to_pylist()) == sorted(rows)
        alter(store, changes)
        snapshot = table.snapshot()
        assert dropped not in list_features(snapshot.protocol), counted.calls[at - 1]
        for key, value in changes.get("properties", {}).items():
            assert snapshot.metadata.configuration[key] == value, counted.calls[at - 1]
        if name == "row ids":
            assert len(set(snapshot.files["base_row_id"].to_pylist())) == 2
        assert table.check().is_sound
