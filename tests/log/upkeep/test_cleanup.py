"""Log cleanup: what goes, what stays, and that no version inside the retention is lost."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.errors import DeltactlError, SafetyError, StorageError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import list_log
from deltactl.log.upkeep.cleanup import CleanupPlan, execute_cleanup, plan_cleanup
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.checkpoint.repair import repair_checkpoints
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from tests.support.checkpoints import DAY_MS, NOW_MS, fail, log_names, memory_of, new_table
from tests.support.clock import FixedClock
from tests.support.damage import edit_parquet
from tests.support.run import run_on
from tests.support.stores import CountingStore
from tests.support.table_builder import LOG, Action, TableBuilder, commit_path

MIDNIGHT = NOW_MS // DAY_MS * DAY_MS


def make_log(days_old: list[float], **options: Any) -> TableBuilder:
    """A table whose versions were committed so many days before the last midnight."""
    builder = new_table(**options)
    for number in range(1, len(days_old)):
        builder.append([{"id": number, "p": None}])
    for version, days in enumerate(days_old):
        set_age(builder, commit_path(version), days)
    return builder


def set_age(builder: TableBuilder, name: str, days: float) -> None:
    memory_of(builder).set_modified(name, int(MIDNIGHT - days * DAY_MS))


def plan(builder: TableBuilder, **options: Any) -> CleanupPlan:
    log = DeltaLog(builder.store, fail)
    log.ensure_exists()
    return plan_cleanup(log, log.snapshot(), NOW_MS, **options)


def delete_planned(builder: TableBuilder, found: CleanupPlan) -> dict[str, StorageError]:
    log = DeltaLog(builder.store, fail)
    return execute_cleanup(log, CommitBase.of(log.snapshot()), found)


def names(found: CleanupPlan) -> list[str]:
    return [info.name.removeprefix(f"{LOG}/") for info in found.files]


def commits(*versions: int) -> list[str]:
    return [f"{version:020d}.json" for version in versions]


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def test_everything_before_the_checkpoint_at_the_boundary_goes() -> None:
    """Commits 0 to 5 are past 30 days, 5 is the boundary: 3 is what remains to stand on."""
    builder = make_log([40, 39, 38, 37, 36, 31, 5, 1])
    builder.checkpoint(1)
    builder.checkpoint(3)
    builder.checkpoint(6)
    builder.compact(0, 2)
    builder.compact(3, 5)
    builder.compact(4, 5)
    for version in (0, 1, 2, 3):
        builder.store.put(f"{LOG}/{version:020d}.crc", b"{}")
    for other in ("_last_vacuum_info", "unknown.txt", "00000000000000000001.json.bak"):
        builder.store.put(f"{LOG}/{other}", b"x")
    builder.store.put(f"{LOG}/_staged_commits/{2:020d}.{'a' * 8}.json", b"{}")
    builder.store.put(f"{LOG}/_staged_commits/{5:020d}.{'a' * 8}.json", b"{}")
    found = plan(builder)
    assert (found.checkpoint_version, found.lost) == (3, ((0, 2),))
    assert names(found) == [
        f"{0:020d}.{2:020d}.compacted.json",
        f"{3:020d}.{5:020d}.compacted.json",
        *commits(0, 1, 2),
        *(f"{version:020d}.crc" for version in (0, 1, 2)),
        classic(1),
        f"_staged_commits/{2:020d}.{'a' * 8}.json",
    ]
    assert delete_planned(builder, found) == {}
    for version in range(3, 8):
        snapshot = DeltaLog(builder.store, fail).snapshot(version)
        assert snapshot.num_files == version
    assert plan(builder).is_empty
    assert "unknown.txt" in log_names(builder.store)


def test_the_cutoff_is_a_midnight() -> None:
    """29.9 days before midnight is 30 days and some hours before now: it stays the whole day."""
    for days, base in ((30.0, 2), (29.9, 1)):
        builder = make_log([50, 45, days, 1])
        builder.checkpoint(1)
        builder.checkpoint(2)
        assert plan(builder).checkpoint_version == base


def test_a_version_is_kept_whose_time_the_next_one_needs() -> None:
    """Two files of one time: the second's is a millisecond later only while the first is there."""
    builder = make_log([50, 45, 45, 40, 1])
    builder.checkpoint(1)
    builder.checkpoint(2)
    assert plan(builder).checkpoint_version == 1
    set_age(builder, commit_path(2), 44)
    assert plan(builder).checkpoint_version == 2


def test_without_a_checkpoint_nothing_goes() -> None:
    builder = make_log([50, 45, 40, 1])
    found = plan(builder)
    assert found.is_empty
    assert found.reason is not None
    builder.checkpoint(3)
    assert plan(builder).is_empty, "the only checkpoint is inside the retention"


@pytest.mark.parametrize("damage", ["truncated", "no sidecar", "no commit"])
def test_nothing_is_built_on_a_checkpoint_that_is_invalid(damage: str) -> None:
    builder = make_log([50, 45, 40, 35, 1], features=["v2Checkpoint"])
    builder.checkpoint(1)
    builder.checkpoint(3, "v2-json")
    if damage == "truncated":
        builder.checkpoint(3)
        whole = builder.store.read(f"{LOG}/{classic(3)}")
        start = whole.index(b"PAR1", 4) if b"PAR1" in whole[4:-4] else 4
        builder.store.put(f"{LOG}/{classic(3)}", whole[:start] + bytes(400) + whole[start + 400 :])
    elif damage == "no sidecar":
        sidecar = next(builder.store.list_from(f"{LOG}/_sidecars"))
        builder.store.delete_many([sidecar.name])
    else:
        builder.store.delete_many([commit_path(3)])
        builder.checkpoint(4)
    found = plan_with_warnings(builder)
    assert found.checkpoint_version == 1
    assert bool(found.warnings) == (damage != "no commit")


def test_sidecars_stay_while_a_remaining_checkpoint_names_them() -> None:
    builder = make_log([60, 55, 50, 45, 1], features=["v2Checkpoint"])
    for version, kind in ((1, "v2-json"), (2, "v2-parquet"), (3, "v2-classic")):
        builder.checkpoint(version, kind)
    sidecars = sorted(info.name for info in builder.store.list_from(f"{LOG}/_sidecars"))
    for name in sidecars:
        set_age(builder, name, 50)
    fresh = f"{LOG}/_sidecars/somebody-is-writing.parquet"
    builder.store.put(fresh, b"x")
    set_age(builder, fresh, 0.5)
    found = plan(builder)
    assert found.checkpoint_version == 3
    gone = {info.name for info in found.sidecars}
    assert gone == {name for name in sidecars if f"/{3:020d}" not in name}
    delete_planned(builder, found)
    assert DeltaLog(builder.store, fail).snapshot().num_files == 4


def test_sidecars_stay_where_a_checkpoint_cannot_be_read() -> None:
    builder = make_log([60, 55, 50, 45, 1], features=["v2Checkpoint"])
    builder.checkpoint(1, "v2-json")
    builder.checkpoint(2)
    builder.store.put(f"{LOG}/{4:020d}.checkpoint.{'b' * 36}.json", b"{torn")
    for info in list(builder.store.list_from(f"{LOG}/_sidecars")):
        set_age(builder, info.name, 50)
    found = plan_with_warnings(builder)
    assert found.checkpoint_version == 2
    assert found.sidecars == ()
    assert "no sidecars are deleted" in found.warnings[0]


def plan_with_warnings(builder: TableBuilder) -> CleanupPlan:
    log = DeltaLog(builder.store, ignore_warning)
    log.ensure_exists()
    return plan_cleanup(log, log.snapshot(), NOW_MS)


def test_in_commit_timestamps_count_as_well() -> None:
    """Files that were copied late or early: a version has to be old by both clocks."""
    builder = make_log([60, 55, 50, 45, 1], features=["inCommitTimestamp"])
    for version in (1, 2, 3):
        builder.checkpoint(version)
    text = builder.store.read(commit_path(3)).decode()
    info = json.loads(text.splitlines()[0])
    info["commitInfo"]["inCommitTimestamp"] = NOW_MS - DAY_MS
    rest = text.splitlines()[1:]
    builder.store.put(commit_path(3), "\n".join([json.dumps(info), *rest]).encode())
    set_age(builder, commit_path(3), 45)
    assert plan(builder).checkpoint_version == 2


def test_asking_for_a_version_inside_the_retention_is_refused() -> None:
    builder = make_log([60, 55, 20, 10, 1])
    for version in (1, 3):
        builder.checkpoint(version)
    with pytest.raises(SafetyError, match="make versions 1 to 2 unreadable"):
        plan(builder, up_to=3)
    assert plan(builder, up_to=1).checkpoint_version == 1
    with pytest.raises(SafetyError, match="has no valid checkpoint"):
        plan(builder, up_to=0)
    assert plan(builder, up_to=0, planned=0).is_empty


PROTECTED = {"delta.requireCheckpointProtectionBeforeVersion": "4"}


def test_checkpoint_protection() -> None:
    """Version 4 and later are free; before it only all at once, or by who knows all protocols."""
    features = ["checkpointProtection"]
    ages = [60.0, 55, 50, 45, 40, 35, 1]
    builder = make_log(ages, features=features, properties=PROTECTED)
    builder.checkpoint(2)
    assert plan(builder).checkpoint_version == 2, "no checkpoint goes"
    builder.checkpoint(1)
    assert plan(builder).checkpoint_version == 2, "all protocols are known"
    builder.checkpoint(5)
    assert plan(builder).checkpoint_version == 5, "everything protected goes at once"


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        (TableBuilder.protocol_action(["checkpointProtection", "notYet"]), "notYet"),
        (
            {"protocol": {"minReaderVersion": float("inf"), "minWriterVersion": 2}},
            "it has a protocol that deltactl does ",
        ),
    ],
    ids=["unknown", "unreadable"],
)
def test_checkpoint_protection_refuses_what_it_cannot_know(protocol: Action, said: str) -> None:
    features = ["checkpointProtection"]
    builder = make_log([60, 55, 50, 1], features=features, properties=PROTECTED)
    for version, action in ((1, protocol), (2, TableBuilder.protocol_action(features))):
        text = builder.store.read(commit_path(version)).decode()
        builder.store.put(commit_path(version), (text + json.dumps(action) + "\n").encode())
        set_age(builder, commit_path(version), 60 - 5 * version)
    builder.checkpoint(0)
    builder.checkpoint(2)
    with pytest.raises(SafetyError, match=said):
        plan(builder)


@pytest.mark.parametrize("text", ["interval 1 year", "12 months", "90", "-1 days", ""])
def test_a_retention_that_cannot_be_understood_deletes_no_history(text: str) -> None:
    """Whoever wrote it meant something else than the default."""
    builder = make_log([60, 55, 50, 1], properties={"delta.logRetentionDuration": text})
    builder.checkpoint(1)
    with pytest.raises(SafetyError, match="logRetentionDuration"):
        plan(builder)


def test_a_protected_version_that_cannot_be_understood_deletes_no_history() -> None:
    properties = {"delta.requireCheckpointProtectionBeforeVersion": "v4"}
    builder = make_log([60, 55, 50, 1], features=["checkpointProtection"], properties=properties)
    builder.checkpoint(1)
    with pytest.raises(SafetyError, match="the table property .* is invalid"):
        plan(builder)


def test_cleanup_and_the_property_that_switches_it_off() -> None:
    """By hand it is asked for: told, and done."""
    builder = make_log([60, 55, 50], properties={"delta.enableExpiredLogCleanup": "false"})
    said: list[str] = []
    chosen, clock = CheckpointOptions(cleanup=True), FixedClock(NOW_MS)
    report = run_on(builder.store, checkpoint_table, chosen, warn=said.append, clock=clock)
    assert len(set(said)) == 1
    assert report.cleanup is not None
    assert report.cleanup.checkpoint_version == 2
    assert log_names(builder.store) == [classic(2), *commits(2), "_last_checkpoint"]


def test_a_checkpoint_at_the_boundary_is_written_first() -> None:
    builder = make_log([60, 55, 50, 1])
    clean(builder.store, version=2, cleanup=True)
    assert log_names(builder.store) == [classic(2), *commits(2, 3), "_last_checkpoint"]
    with pytest.raises(SafetyError):
        clean(builder.store, version=3, cleanup=True)


def clean(store: Store, *, dry_run: bool = False, **options: Any) -> None:
    chosen, clock = CheckpointOptions(**options), FixedClock(NOW_MS)
    run_on(store, checkpoint_table, chosen, clock=clock, dry_run=dry_run)


@pytest.mark.parametrize(
    ("checkpoints", "wrong", "gone", "added"),
    [
        pytest.param([4], [4], [], 3, id="commits-from-0"),
        pytest.param([1, 3, 4], [3, 4], [], 2, id="two-checkpoints-with-the-same-defect"),
        pytest.param([1, 4], [4], [0], 1, id="file-of-the-older-checkpoint"),
        pytest.param([4], [4], [0, 1], 3, id="no-older-checkpoint"),
    ],
)
def test_commits_stay_if_the_checkpoint_that_would_remain_lacks_a_live_file(
    checkpoints: list[int], wrong: list[int], gone: list[int], added: int
) -> None:
    builder = make_log([60, 58, 56, 54, 52, 1])
    lines = builder.store.read(commit_path(added)).splitlines()
    (path,) = (a["add"]["path"] for a in map(json.loads, lines) if "add" in a)
    for version in checkpoints:
        builder.checkpoint(version)
    for version in wrong:
        edit_parquet(
            builder.store,
            f"{LOG}/{classic(version)}",
            lambda rows: [row for row in rows if not row["add"] or row["add"]["path"] != path],
        )
    builder.store.delete_many([commit_path(version) for version in gone])
    before = memory_of(builder).contents()
    for dry_run in (True, False):
        with pytest.raises(SafetyError, match="checkpoint of version 4 .* files instead of"):
            clean(builder.store, dry_run=dry_run, cleanup_only=True)
    assert memory_of(builder).contents() == before
    if not gone:
        repair_checkpoints(DeltaLog(builder.store, ignore_warning), RunContext(warn=fail))
        clean(builder.store, cleanup_only=True)
        assert set(log_names(builder.store)) >= {classic(4), *commits(4, 5)}
        assert commits(3)[0] not in log_names(builder.store)
        assert DeltaLog(builder.store, fail).snapshot().num_files == 5


def test_commits_stay_if_a_new_checkpoint_repeats_the_defect_of_an_older_one() -> None:
    builder = make_log([60, 58, 56, 54])
    builder.checkpoint(2)
    edit_parquet(builder.store, f"{LOG}/{classic(2)}", lambda rows: rows[:-1])
    before = memory_of(builder).contents()
    for dry_run in (True, False):
        with pytest.raises(SafetyError, match="checkpoint of version 3 "):
            clean(builder.store, dry_run=dry_run, cleanup=True)
    assert memory_of(builder).contents() == before


@pytest.mark.parametrize("kind", ["cleanup_only", "cleanup"])
@pytest.mark.parametrize("days", [1, 50])
def test_a_cleanup_reads_each_commit_once(kind: str, days: int) -> None:
    builder = make_log([60, 58, 56, 54, 52, days])
    builder.checkpoint(2)
    builder.checkpoint(4)
    store = CountingStore(builder.store)
    clean(store, **{kind: True})
    read = [name for name in store.names["read_many"] if name.endswith(".json")]
    assert sorted(read) == [commit_path(version) for version in range(6)]
    base = 5 if days == 50 and kind == "cleanup" else 4
    assert log_names(builder.store)[0] == classic(base)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_version_inside_the_retention_is_lost(data: st.DataObject) -> None:
    """Random ages (clocks that go back, too) and checkpoints: every reading that time travel into
    the retention can ask for is the same after a cleanup.
    """
    ages = data.draw(st.lists(st.integers(0, 70), min_size=2, max_size=7))
    if data.draw(st.booleans()):
        ages.sort(reverse=True)
    builder = make_log([float(age) for age in ages])
    for version in data.draw(st.sets(st.integers(0, builder.version), max_size=3)):
        builder.checkpoint(version)
    found = plan(builder)
    cutoff = found.cutoff_ms
    adjusted: list[int] = []
    for version in range(len(ages)):
        own = int(MIDNIGHT - ages[version] * DAY_MS)
        adjusted.append(max(own, adjusted[-1] + 1) if adjusted else own)
    needed = max((v for v, time in enumerate(adjusted) if time <= cutoff), default=0)
    before = {v: set(DeltaLog(builder.store, fail).snapshot(v).files["path"].to_pylist())
              for v in range(len(ages))}  # fmt: skip
    delete_planned(builder, found)
    lost = {v for first, last in found.lost for v in range(first, last + 1)}
    for version, files in before.items():
        try:
            snapshot = DeltaLog(builder.store, fail).snapshot(version)
        except DeltactlError:
            assert version in lost
            assert version < needed
        else:
            assert version not in lost
            assert set(snapshot.files["path"].to_pylist()) == files
    for version, info in list_log(builder.store).commits.items():
        earlier = [v for v in list_log(builder.store).commits if v < version]
        if not earlier:
            assert info.modified_ms == adjusted[version], "the first commit's time is its own"
