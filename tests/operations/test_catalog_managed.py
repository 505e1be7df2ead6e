"""Commands on tables whose commits a catalog decides."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from deltactl import SafetyError, UnsupportedFeatureError
from deltactl.engine.local import LocalEngine
from deltactl.log.delta_log import DeltaLog
from deltactl.log.upkeep.cleanup import plan_cleanup
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.run import alter_table
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.run import check_table
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.repair import repair_checkpoints
from deltactl.operations.checkpoint.run import checkpoint_table
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.run import clone_table
from deltactl.operations.maintain.observe import observe_table
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.maintain.run import MaintainOptions, Maintenance
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.run import optimize_table
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.run import restore_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.scan import scan_snapshot
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.purge import purge_quarantine
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.protocol.features import CATALOG_MANAGED, has_feature
from deltactl.units import DAY_MS
from tests.support.clock import FixedClock
from tests.support.managed_scene import STAGED, Scene
from tests.support.stores import fresh_store
from tests.support.table_builder import START_MS, commit_path

CONTEXT = RunContext(
    warn=pytest.fail, engine=LocalEngine(workers=1), clock=FixedClock(), sleep=lambda seconds: None
)


def ids(scene: Scene) -> list[int]:
    found = scan_snapshot(scene.log().snapshot(), None).read_all()["id"]
    return sorted(found.to_pylist())


def full_vacuum() -> VacuumOptions:
    return VacuumOptions(mode="full", retain_ms=0, force_retention=True, max_orphan_fraction=1.0)


def test_maintenance_keeps_what_only_the_catalog_knows() -> None:
    scene = Scene()
    for _ in range(3):
        scene.store.put(f"_delta_log/{scene.append():020}.crc", b"{}")
    before = ids(scene)
    vacuumed = vacuum_table(scene.log(), full_vacuum(), CONTEXT, orphans="all")
    assert not vacuumed.plan.files.num_rows
    assert ids(scene) == before
    assert optimize_table(scene.log(), OptimizeOptions(), CONTEXT).versions == (scene.first + 3,)
    scene.store.put("left.parquet", b"x")
    scene.store.set_modified("left.parquet", 0)  # type: ignore[attr-defined]
    staged = scene.staged()
    versions = vacuum_table(scene.log(), full_vacuum(), CONTEXT, orphans="all").versions
    assert versions == (scene.first + 4, scene.first + 5)
    assert set(scene.staged()) > set(staged)
    report = checkpoint_table(scene.log(), CheckpointOptions(compact_log=True), CONTEXT)
    assert report.written is not None and report.written.version == scene.catalog.latest
    assert ids(scene) == before


def test_what_a_catalog_does_not_allow_is_refused_but_not_as_a_dry_run() -> None:
    scene = Scene(allowed=frozenset())
    scene.append()
    expired = CheckpointOptions(cleanup=True)
    dry = scene.log(read_only=True)
    optimize_table(dry, OptimizeOptions(), CONTEXT, dry_run=True)
    vacuum_table(dry, full_vacuum(), CONTEXT, orphans="all", dry_run=True)
    checkpoint_table(dry, expired, CONTEXT, dry_run=True)
    latest = scene.catalog.latest
    with pytest.raises(UnsupportedFeatureError, match="DATA_REORGANIZATION"):
        optimize_table(scene.log(), OptimizeOptions(), CONTEXT)
    scene.store.put("left.parquet", b"x")
    scene.store.set_modified("left.parquet", 0)  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedFeatureError, match="DATA_CLEANUP"):
        vacuum_table(scene.log(), full_vacuum(), CONTEXT, orphans="all")
    with pytest.raises(UnsupportedFeatureError, match="METADATA_CLEANUP"):
        checkpoint_table(scene.log(), expired, CONTEXT)
    scene.catalog.allowed = frozenset({"DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP"})
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        generate_manifests(scene.log(), ManifestOptions(), CONTEXT)
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged") as refused:
        restore_table(scene.log(), RestoreOptions(0), CONTEXT)
    assert "drop" not in (refused.value.hint or "")
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        alter_table(scene.log(), AlterOptions({"a": "1"}), CONTEXT)
    assert scene.catalog.latest == latest
    checkpoint_table(scene.log(), CheckpointOptions(compact_log=True), CONTEXT)


def test_a_clone_belongs_to_no_catalog() -> None:
    scene = Scene()
    scene.append()
    target = DeltaLog(fresh_store(), pytest.fail)
    clone_table(scene.log(read_only=True), target, CloneOptions(deep=True), CONTEXT)
    clone = DeltaLog(target.store, pytest.fail).snapshot()
    assert not has_feature(clone.protocol, *CATALOG_MANAGED)
    assert clone.num_files == 2
    with pytest.raises(UnsupportedFeatureError, match="without its catalog"):
        clone_table(
            DeltaLog(scene.store, pytest.fail),
            DeltaLog(fresh_store(), pytest.fail),
            CloneOptions(deep=True),
            CONTEXT,
        )


def test_log_cleanup_keeps_the_staged_files_that_the_catalog_lists() -> None:
    scene = Scene()
    for _ in range(6):
        scene.append(publishes=True)
    checkpoint_table(scene.log(), CheckpointOptions(), CONTEXT)
    for number, info in enumerate(scene.store.list_from("_delta_log")):
        scene.store.set_modified(info.name, START_MS + number)  # type: ignore[attr-defined]
    for keeps, number in ((3, 0), (0, 6)):
        scene.catalog.keeps = keeps
        log = scene.log()
        plan = plan_cleanup(log, log.snapshot(), START_MS + 90 * DAY_MS)
        assert len(plan.staged) == number, "the checkpoint is at a listed version, then not"
        assert len(plan.commits) == (7 if number else 0)


def test_maintain_plans_what_is_allowed() -> None:
    warnings: list[str] = []
    context = RunContext(
        warn=warnings.append,
        engine=LocalEngine(workers=1),
        clock=FixedClock(),
        sleep=lambda seconds: None,
    )
    scene, policy = Scene(allowed=frozenset({"DATA_CLEANUP"})), MaintainPolicy()
    for _ in range(11):
        scene.append(publishes=True)
        scene.catalog.reported += 1
    seen = observe_table("t", scene.log(read_only=True), policy, context)
    assert {action.name for action in seen.actions} <= {"checkpoint", "vacuum"}
    assert "checkpoint" in {action.name for action in seen.actions}
    assert "log-cleanup, manifest, optimize" in warnings[0] and len(warnings) == 1


RUNS: dict[str, Callable[[DeltaLog, RunContext, bool], object]] = {
    "optimize": lambda log, context, dry: optimize_table(
        log, OptimizeOptions(), context, dry_run=dry
    ),
    "vacuum": lambda log, context, dry: vacuum_table(
        log, full_vacuum(), context, orphans="all", dry_run=dry
    ),
    "purge": lambda log, context, dry: purge_quarantine(log, context, dry_run=dry),
    "checkpoint": lambda log, context, dry: checkpoint_table(
        log, CheckpointOptions(), context, dry_run=dry
    ),
    "cleanup": lambda log, context, dry: checkpoint_table(
        log, CheckpointOptions(cleanup=True), context, dry_run=dry
    ),
    "repair": lambda log, context, dry: repair_checkpoints(log, context, dry_run=dry),
}


def restored_scene() -> Scene:
    """The catalog is of an earlier time than the log, which has two more versions."""
    scene = Scene()
    for _ in range(2):
        scene.append(publishes=True)
    scene.builder.checkpoint()
    scene.builder.hint(scene.builder.version)
    scene.catalog.ratified.clear()
    scene.catalog.latest = scene.catalog.reported = scene.first - 1
    return scene


@pytest.mark.parametrize("run", RUNS)
def test_no_run_changes_a_table_of_which_the_log_has_more_than_the_catalog(run: str) -> None:
    scene, warnings = restored_scene(), list[str]()
    before = scene.store.contents()  # type: ignore[attr-defined]
    with pytest.raises(SafetyError, match="has versions 2 to 3, but the latest .* is 1") as refused:
        RUNS[run](scene.log(), CONTEXT, False)
    context = replace(CONTEXT, warn=warnings.append)
    RUNS[run](scene.log(warnings.append, read_only=True), context, True)
    assert f"a real run would be refused: {refused.value.message}" in warnings[-1]
    assert all("ratif" in text or "real run" in text for text in warnings), "no lost commits"
    assert scene.store.contents() == before  # type: ignore[attr-defined]


def test_maintain_refuses_a_table_of_which_the_log_has_more_than_the_catalog() -> None:
    scene = restored_scene()
    policy = MaintainPolicy(actions=["checkpoint"])
    with pytest.raises(SafetyError, match="versions 2 to 3"):
        observe_table("t", scene.log(lambda _: None, read_only=True), policy, CONTEXT)


def test_maintain_fails_if_the_commits_that_a_checkpoint_needs_cannot_be_published() -> None:
    scene, context = Scene(most=12), replace(CONTEXT, warn=lambda _: None)
    for _ in range(12):
        scene.append()
    scene.store.put(commit_path(scene.first), b"{}")
    name, policy = "memory", MaintainPolicy(actions=["checkpoint"])
    for _ in range(2):
        run = Maintenance(MaintainOptions(), context.clock)
        run.observe(name, scene.log(context.warn, read_only=True), policy, context)
        run.decide([name])
        report = run.act(name, scene.log(context.warn), context)
    assert [type(error) for error in report.errors] == [SafetyError]


def check_codes(scene: Scene) -> list[tuple[str, int]]:
    report = check_table(scene.log(), CheckOptions(), CONTEXT)
    return [(row["code"], row["version"]) for row in report.findings.to_pylist()]


def test_check_compares_the_log_with_the_catalog() -> None:
    scene = Scene()
    for _ in range(8):
        scene.append()
    first, latest = scene.first, scene.catalog.latest
    assert check_codes(scene) == [("COMMITS_NOT_PUBLISHED", first)]
    scene.store.put(commit_path(first), b"{}")
    scene.store.put(commit_path(latest + 1), b"{}")
    for version in (first, latest):
        name = f"{STAGED}/{version:020d}.lost.json"
        scene.store.put(name, b"{}")
        scene.store.set_modified(name, 0)  # type: ignore[attr-defined]
    scene.store.put(f"{STAGED}/{latest + 1:020d}.young.json", b"{}")
    assert check_codes(scene) == [
        ("COMMIT_NOT_RATIFIED", first),
        ("COMMIT_NOT_RATIFIED", latest + 1),
        ("STAGED_NOT_RATIFIED", first),
    ]
    report = check_table(scene.log(), CheckOptions(depth=Depth.DATA), CONTEXT)
    assert report.version == latest, "the version that nobody ratified is no part of the table"
