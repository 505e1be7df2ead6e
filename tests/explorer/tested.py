"""The operations under test as programs."""

from itertools import count
from typing import Any

from deltactl.clock import Clock
from deltactl.errors import DataFileError, SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import retry_after_log_cleanup
from deltactl.log.snapshot import Snapshot
from deltactl.operations.alter.run import AlterOptions, alter_table
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.operations.check.fixes.run import fix_table
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.clone.run import CloneOptions, clone_table
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.restore.run import RestoreOptions, restore_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.scan import scan_snapshot
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.explorer.programs import InlineEngine, Outcome, Program
from tests.explorer.reading import Reading
from tests.explorer.scenes import Scene
from tests.explorer.sim_dynamodb import log_of
from tests.explorer.world import Rules, Worlds
from tests.support.run import raise_error
from tests.support.stores import MemoryStore


def _quiet(message: str) -> None:
    """Warnings are not what is explored."""


def no_wait(seconds: float) -> None:
    """Time is the explorer's."""


def optimize(options: OptimizeOptions | None = None, batches: int = 1) -> Program:
    chosen = options or OptimizeOptions()

    def run(store: Store, clock: Clock) -> Outcome:
        report = optimize_table(
            log_of(store),
            chosen,
            RunContext(warn=_quiet, engine=InlineEngine(), clock=clock, sleep=no_wait),
        )
        return Outcome("done", report.versions)

    return Program("optimize", run, real=True, max_commits=batches)


def vacuum(mode: str, **options: Any) -> Program:
    fixed = {"mode": mode, "max_orphan_fraction": 1.0}
    chosen = VacuumOptions(**fixed, **options)  # type: ignore[arg-type]

    def run(store: Store, clock: Clock) -> Outcome:
        context = RunContext(warn=_quiet, engine=InlineEngine(), clock=clock, sleep=no_wait)
        try:
            report = vacuum_table(log_of(store), chosen, context, orphans="all")
        except SafetyError as error:
            if "the shallow clone" not in error.message:
                raise
            # Noted, and not committed yet, or never.
            return Outcome("conflict", value=error.message)
        return Outcome("done", report.versions)

    return Program(f"vacuum {mode}", run, real=True, counted=False, max_commits=2)


def checkpoint(**options: Any) -> Program:
    chosen = CheckpointOptions(**options)

    def run(store: Store, clock: Clock) -> Outcome:
        checkpoint_table(
            log_of(store), chosen, RunContext(warn=_quiet, engine=InlineEngine(), clock=clock)
        )
        return Outcome("done")

    return Program("checkpoint", run, real=True, max_commits=0)


def fix(**options: Any) -> Program:
    """A repair that changes no row, as far as rows can be read.

    Statistics are in two commits: an error after the first does not name its version.
    """
    chosen = FixOptions(**options)
    counted = chosen.kind is not Fix.STATS

    def run(store: Store, clock: Clock) -> Outcome:
        context = RunContext(warn=_quiet, engine=InlineEngine(), clock=clock, sleep=no_wait)
        report = raise_error(fix_table(log_of(store), chosen, context))
        return Outcome("done", report.versions)

    return Program(
        f"fix {chosen.kind}", run, real=True, counted=counted, max_commits=2, rearranges=False
    )


def restore(scene: Scene, version: int) -> Program:
    """Bring back a version of the scene, whose files nobody may remove."""
    worlds = Worlds(Rules("conditional"))
    files = scene.stored_in(worlds)
    reading = Reading(worlds, 0)
    (target,) = (it for it in reading.versions(files) if it.number == version)
    rows = reading.rows(files, target)

    def run(store: Store, clock: Clock) -> Outcome:
        report = restore_table(
            log_of(store),
            RestoreOptions(version),
            RunContext(warn=_quiet, engine=InlineEngine(), clock=clock, sleep=no_wait),
        )
        assert not report.gone, report.gone
        return Outcome("done", () if report.version_after is None else (report.version_after,))

    return Program("restore", run, lambda before: rows, real=True, rearranges=False)


def alter(max_commits: int = 4, **options: Any) -> Program:
    """Changes properties and features: three commits, and one more where others add files."""

    def run(store: Store, clock: Clock) -> Outcome:
        context = RunContext(warn=_quiet, engine=InlineEngine(), clock=clock, sleep=no_wait)
        report = raise_error(alter_table(log_of(store), AlterOptions(**options), context))
        return Outcome("done", () if report.version_after is None else (report.version_after,))

    return Program("alter", run, real=True, counted=False, max_commits=max_commits)


_clones = count()


def clone() -> Program:
    """Copies the latest version to a place of its own, which nobody else knows, and reads it."""

    def run(store: Store, clock: Clock) -> Outcome:
        target = MemoryStore(f"memory://explored-clone-{next(_clones)}")
        context = RunContext(warn=_quiet, engine=InlineEngine(), clock=clock, sleep=no_wait)
        try:
            report = clone_table(
                log_of(store), DeltaLog(target, context.warn), CloneOptions(deep=True), context
            )
            snapshot, rows = _read(target)
        finally:
            target.restore({})
        assert snapshot.version == 0
        return Outcome("read", (report.plan.version,), _sorted(rows))

    return Program("clone", run, real=True, counted=False, max_commits=0, only_looks=True)


_CLONE_URIS = {rules.uri: rules.clone_uri for rules in (Rules("link"), Rules("conditional"))}


def shallow_clone(version: int) -> Program:
    """Refers to the files of a version, which it notes in the table."""

    def run(store: Store, clock: Clock) -> Outcome:
        target = open_store(_CLONE_URIS[store.uri], {})
        context = RunContext(warn=_quiet, engine=InlineEngine(), clock=clock, sleep=no_wait)
        try:
            report = clone_table(
                log_of(store),
                DeltaLog(target, context.warn),
                CloneOptions(deep=False, version=version),
                context,
            )
        except DataFileError as error:  # a vacuum was faster
            return Outcome("conflict", value=error.message)
        # A record that could not be read counts as gone.
        gone = [it for it in report.gone if not it.problem.endswith("failed on purpose")]
        assert not gone, gone
        return Outcome("done")

    return Program("shallow clone", run, real=True, counted=False, max_commits=0)


def _sorted(rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    found = sorted(
        (*sorted((k, v) for k, v in row.items() if k != "p" and v is not None), ("p", row["p"]))
        for row in rows
    )
    return tuple(found)


def _read(store: Store) -> tuple[Snapshot, list[dict[str, Any]]]:
    snapshot = log_of(store).snapshot()
    return snapshot, scan_snapshot(snapshot).read_all().to_pylist()


def reader() -> Program:
    """Reads the latest version, its files one by one; again where a log cleanup was faster."""

    def run(store: Store, clock: Clock) -> Outcome:
        snapshot, rows = retry_after_log_cleanup(lambda: _read(store))
        return Outcome("read", (snapshot.version,), _sorted(rows))

    return Program("reader", run, real=True, counted=False, max_commits=0, only_looks=True)
