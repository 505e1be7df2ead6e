"""``check --fix checksum`` and ``last-checkpoint`` write files of the log anew."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from deltactl import CheckpointOptions, Table
from deltactl.errors import DeltactlError, StorageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME
from deltactl.operations.check.fixes.log_files import LogFileReport
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.operations.check.fixes.report import FixReport
from deltactl.operations.check.fixes.run import fix_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from tests.support.damage import edit_action
from tests.support.forwarding import ForwardingStore
from tests.support.restores import ids
from tests.support.stores import (
    Crash,
    Fault,
    FaultyStore,
    MemoryStore,
    States,
    fault_points,
    fresh_store,
)
from tests.support.table_builder import LOG, Column, TableBuilder

CHECKSUM = f"{LOG}/{2:020}.crc"
NAMES = {"checksum": CHECKSUM, "last-checkpoint": HINT_NAME}


def fix(store: Store, kind: Any, **options: Any) -> LogFileReport:
    report = Table("x", store=store, warn=lambda _: None).fix(kind=kind, **options)
    assert isinstance(report, LogFileReport)
    return report


@pytest.fixture
def store() -> MemoryStore:
    """Version 2, with a checkpoint, its hint, and a checksum."""
    made = fresh_store()
    builder = TableBuilder(made, [Column("id")])
    edit_action(builder, 0, "commitInfo", engineInfo="Apache-Spark/4.2.0 Delta-Lake/4.4.0")
    for number in (1, 2):
        builder.commit(builder.write_file([{"id": number}]), operationMetrics={"numFiles": "1"})
    Table("x", store=made).checkpoint(CheckpointOptions())
    assert fix(made, "checksum").is_repaired
    return made


def damage(store: MemoryStore, kind: str, how: str) -> None:
    name = NAMES[kind]
    node = json.loads(store.read(name))
    if how == "missing":
        store.delete_many([name])
    elif how == "broken":
        store.put(name, store.read(name)[:-3])
    else:
        key = "numFiles" if kind == "checksum" else "version"
        store.put(name, json.dumps({**node, "checksum": None, key: 1}).encode())


@pytest.mark.parametrize("how", ["missing", "broken", "wrong"])
@pytest.mark.parametrize("kind", NAMES)
def test_a_file_is_repaired_anew(store: MemoryStore, kind: str, how: str) -> None:
    good = store.read(NAMES[kind])
    assert fix(store, kind).is_empty
    damage(store, kind, how)
    assert fix(store, kind, dry_run=True).problem
    assert how == "missing" or store.read(NAMES[kind]) != good
    report = fix(store, kind)
    assert (report.is_repaired, report.num_left, report.version_after) == (True, 0, None)
    if kind == "checksum":
        assert store.read(NAMES[kind]) == good
    assert Table("x", store=store).check(checkpoints=True).is_sound
    assert fix(store, kind).is_empty


def test_a_checksum_that_may_be_right_stays(store: MemoryStore) -> None:
    """The commits that would prove the checkpoint are gone."""
    damage(store, "checksum", "wrong")
    store.delete_many([f"{LOG}/{version:020}.json" for version in (0, 1)])
    before = store.contents()
    report = fix(store, "checksum")
    assert (report.is_empty, report.num_left) == (True, 1)
    assert "it is unknown whether this file or" in (report.obstacle or "")
    assert store.contents() == before


def test_a_file_of_lost_commits_stays_if_it_is_needed_again(store: MemoryStore) -> None:
    commit = store.read(f"{LOG}/{2:020}.json")
    names = [f"{LOG}/{version:020}.crc" for version in (3, 4)]
    for name in names:
        store.put(name, b"{}")
    assert [row["name"] for row in fix(store, "last-checkpoint", dry_run=True).rows] == names

    def bring_back(report: FixReport) -> bool:
        store.put(f"{LOG}/{3:020}.json", commit)
        return True

    options, context = FixOptions(kind=Fix.LAST_CHECKPOINT), RunContext(warn=pytest.fail)
    log = DeltaLog(store, pytest.fail)
    assert fix_table(log, options, context, confirm=bring_back).num_left == 0
    assert [name in store.contents() for name in names] == [True, False]


def test_a_file_of_lost_commits_that_cannot_be_deleted(store: MemoryStore) -> None:
    name = f"{LOG}/{3:020}.crc"
    store.put(name, b"{}")
    damage(store, "last-checkpoint", "wrong")
    before = store.contents()

    class Kept(ForwardingStore):
        def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
            return {name: StorageError("denied") for name in names}

    report = fix(Kept(store), "last-checkpoint")
    assert (report.num_left, report.obstacle) == (1, f"{name} could not be deleted: denied")
    assert store.contents() == before


@pytest.mark.thorough
@pytest.mark.parametrize("kind", NAMES)
def test_faults_at_every_call(store: MemoryStore, kind: str) -> None:
    damage(store, kind, "wrong")
    before, wanted = store.contents(), ids(store)
    counted = FaultyStore(store)
    fix(counted, kind)
    states = States(store)
    for action in ("crash", "error"):
        for at in fault_points(counted.calls, "before", action):
            store.restore(before)
            with pytest.raises((Crash, DeltactlError)):
                fix(FaultyStore(store, Fault(at, action)), kind)
            if not states.is_new():
                continue  # what the next run makes of it is shown above
            assert before.keys() - store.contents().keys() <= {NAMES[kind]}
            assert ids(store) == wanted
            fix(store, kind)
            assert Table("x", store=store).check(checkpoints=True).is_sound


def test_a_missing_hint_is_a_note_with_each_option(store: MemoryStore) -> None:
    store.delete_many([f"{LOG}/_last_checkpoint"])
    for checkpoints in (False, True):
        report = Table("x", store=store).check(checkpoints=checkpoints)
        assert report.is_sound
        (note,) = report.notes
        assert note == f"{LOG}/_last_checkpoint is missing; readers do not need this file"
