"""What is explored: who meets whom, over which table and which kind of store."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from deltactl.log.checkpoint import read as checkpoint_read
from deltactl.log.checkpoint import verify as checkpoint_verify
from deltactl.log.commits.parser import CommitParser
from deltactl.log.committers.catalog_managed import CatalogManaged
from deltactl.log.committers.dynamodb import DynamoDb
from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing import concurrent_deletes, transaction
from deltactl.operations.check.fixes import stats as fixes_stats
from deltactl.operations.check.fixes.options import Fix
from deltactl.operations.checkpoint import tasks as checkpoint_tasks
from deltactl.operations.optimize.run import OptimizeOptions
from deltactl.operations.vacuum import tasks as vacuum_tasks
from deltactl.storage import copying, parallel
from deltactl.storage.parallel import A, R
from tests.explorer import tested, writers
from tests.explorer.invariants import TableChecks
from tests.explorer.machine import Machine, Setting
from tests.explorer.programs import Program, run_program
from tests.explorer.remembered import remember_chunks, remember_parquet
from tests.explorer.scenes import (
    DAY,
    NOW,
    Scene,
    long_log,
    lost_file,
    old_log,
    one_back,
    one_due,
    quiet_log,
    short_log,
    small_files,
    two_bins,
)
from tests.explorer.sim_store import as_section, explored_stores
from tests.explorer.world import Call, Model, Reply, Rules, Worlds

Make = Callable[[Scene], Program]
# What committers keep and use later is the same in all answers: the id of the table, what a catalog
# allows, and how addresses are spelled.
SECTIONS: Sequence[tuple[object, str]] = (
    (CatalogManaged, "tail"),
    (CatalogManaged, "find"),
    (CatalogManaged, "commit"),
    (CatalogManaged, "_publish"),
    (DynamoDb, "tail"),
    (DynamoDb, "commit"),
    (DeltaLog, "_list_once"),
    (DeltaLog, "published_up_to"),
    (transaction, "settle_commit"),
)
HOUR = 3_600_000
RECOVERER = 90  # whose ids nobody at work has


@dataclass(frozen=True)
class Scenario:
    """Programs that meet over a scene.

    ``tick_ms`` lets time pass once after the program ``ticks_after`` read its clock. The more
    states, the more ``weight``: from 1 on nothing goes wrong on ``dynamodb``, from 2 on ``link``,
    and from 3 on it is not searched on ``dynamodb``. ``--stage long`` is for what is left out.
    From 5 on, nothing goes wrong. With an ``only`` it is searched on this model alone;
    ``unmanaged``: a catalog allows it not.
    """

    name: str
    scene: Callable[..., Scene]
    programs: Sequence[Make]
    shared_data: bool = False
    tick_ms: int = 0
    ticks_after: int = 0
    weight: int = 0
    only: Model | None = None
    unmanaged: bool = False

    def is_for(self, model: Model) -> bool:
        """Whether it is searched on a model."""
        return self.only in (None, model) and not (self.unmanaged and model == "staged")

    @property
    def _twins(self) -> frozenset[int]:
        return frozenset(n for n, make in enumerate(self.programs) if make in self.programs[:n])

    def on(self, model: Model, max_faults: int = 0, kinds: frozenset[str] | None = None) -> Machine:
        """The machine that explores this; ``kinds`` of faults: all that the model has."""
        worlds = Worlds(rules := Rules(model))
        features = ("catalogManaged", "inCommitTimestamp") if rules.has_catalog else ()
        scene = self.scene(*features)
        programs = [make(scene) for make in self.programs]
        files = scene.stored_in(worlds)
        setting = Setting(
            files,
            worlds,
            programs,
            NOW,
            shared_data=self.shared_data,
            tick_ms=self.tick_ms,
            ticks_after=self.ticks_after,
            max_faults=max_faults,
            spared=self._twins if max_faults == 1 else frozenset(),
            kinds=rules.fault_kinds if kinds is None else kinds,
        )
        checks = TableChecks(worlds, programs, scene.promise, lambda world: _recover(worlds, world))
        return Machine(setting, checks)


def _recover(worlds: Worlds, world: int) -> int | None:
    """The world after a vacuum that comes when all retentions are over.

    ``None`` where the protocol is beyond this program by now.
    """
    now = NOW + 30 * DAY
    held = [world]

    def ask(call: Call) -> Reply:
        reply, held[0] = worlds.apply(held[0], call, now)
        return reply

    outcome = run_program(tested.vacuum("full"), RECOVERER, worlds, ask)
    if outcome.kind == "refused" and str(outcome.value).startswith("UNSUPPORTED_FEATURE"):
        return None
    assert outcome.kind == "done", outcome
    return held[0]


@contextmanager
def _sections() -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name in SECTIONS:
            stack.enter_context(as_section(owner, name))
        yield


class _SameThread(Executor):
    """Does the work of threads at once, in the order in which it is given."""

    def __init__(self, *_: object, **__: object) -> None:
        """The number and the names of threads do not matter."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        done: Future[R] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the code under test stay on its thread, wait for nothing, and parse equal bytes once."""
    waits = {"sleep": tested.no_wait}

    def one_after_another(work: Callable[[A], R], items: Iterable[A], **_: object) -> Iterator[R]:
        return map(work, items)

    with (
        explored_stores(),
        _sections(),
        patch.object(CommitParser, "_parse_chunk", remember_chunks(CommitParser._parse_chunk)),
        patch.object(
            checkpoint_read, "_open_parquet", remember_parquet(checkpoint_read._open_parquet)
        ),
        # A file for each vector, which can be left behind.
        patch.object(concurrent_deletes, "_MOST_INLINE_BYTES", 0),
        patch.object(fixes_stats, "_FILES_A_COMMIT", 2),
        patch.object(checkpoint_tasks, "read_ahead", iter),
        patch.object(checkpoint_verify, "read_ahead", iter),
        patch.object(copying, "each_in_parallel", one_after_another),
        patch.object(parallel, "each_in_parallel", one_after_another),
        patch.object(parallel, "ThreadPoolExecutor", _SameThread),
        patch.object(vacuum_tasks._persist, "__defaults__", (waits["sleep"],)),
    ):
        yield


def _fixed(make: Callable[[], Program]) -> Make:
    return lambda scene: make()


OPTIMIZE = _fixed(tested.optimize)
READER = _fixed(tested.reader)
FULL = _fixed(lambda: tested.vacuum("full"))
LITE = _fixed(lambda: tested.vacuum("lite"))
CHECKPOINT = _fixed(lambda: tested.checkpoint(cleanup=True))
V2_CHECKPOINT = _fixed(lambda: tested.checkpoint(cleanup=True, kind="v2"))
APPEND = _fixed(writers.append)
PUBLICATION = _fixed(writers.publish)
LAZY_APPEND = _fixed(lambda: writers.lazily(writers.append(3)))
IN_BATCHES = _fixed(lambda: tested.optimize(OptimizeOptions(commit_every_bytes=1), batches=2))


def _delete(which: str) -> Make:
    return lambda scene: writers.delete(scene, which)


def _delete_row(which: str) -> Make:
    return lambda scene: writers.delete_row(scene, which)


FIX_FILES = _fixed(lambda: tested.fix(kind=Fix.MISSING_FILES, expect_files=1))
FIX_STATS = _fixed(lambda: tested.fix(kind=Fix.STATS))
CLONE = _fixed(tested.clone)
OLD_CLONE = _fixed(lambda: tested.shallow_clone(2))


def _restore(version: int) -> Make:
    return lambda scene: tested.restore(scene, version)


def _timed(*features: str) -> Scene:
    return small_files(*{"inCommitTimestamp", *features})


FOREIGN: Mapping[str, Make] = {
    "append": APPEND,
    "delete": _delete("other"),
    "delete of the same file": _delete("second"),
    "deletion vector": _delete_row("first"),
    "overwrite": _fixed(writers.overwrite),
    "property": _fixed(
        lambda: writers.change_metadata(
            configuration={"delta.logRetentionDuration": "interval 9 days"}
        )
    ),
    "added column": _fixed(writers.add_column),
    "new table id": _fixed(lambda: writers.change_metadata(id="another")),
    "protocol upgrade": _fixed(writers.upgrade_protocol),
    "known feature": _fixed(lambda: writers.upgrade_protocol("vacuumProtocolCheck")),
}


def _with_vectors(*features: str) -> Scene:
    return small_files(*features, **{"delta.enableDeletionVectors": "true"})


# Who changes inputs of an optimize that may write deletion vectors.
CHANGING: Mapping[str, Make] = {
    "deletion vector": _delete_row("first"),
    "deletion vector of the next file": _delete_row("second"),
    "delete of the same file": _delete("second"),
    "update": lambda scene: writers.update(scene, "second"),
    "overwrite": FOREIGN["overwrite"],
    "restore": writers.restore,
    "optimize": OPTIMIZE,
}


def _alter(key: str) -> Make:
    return _fixed(lambda: tested.alter(properties={key: "true"}))


DROP = _fixed(lambda: tested.alter(drop_feature="rowTracking"))
DROP_VECTORS = _fixed(lambda: tested.alter(7, drop_feature="deletionVectors"))


def _tracked(*features: str) -> Scene:
    return small_files("rowTracking", *features)


PAIRS: Sequence[Scenario] = (
    Scenario("append against append", small_files, (APPEND, _fixed(lambda: writers.append(2)))),
    *(
        Scenario(f"optimize against {name}", small_files, (OPTIMIZE, other))
        for name, other in FOREIGN.items()
    ),
    *(
        Scenario(f"optimize with vectors against {name}", _with_vectors, (OPTIMIZE, other))
        for name, other in CHANGING.items()
    ),
    Scenario("optimize against append, with times", _timed, (OPTIMIZE, APPEND)),
    Scenario("optimize against append, with row ids", _tracked, (OPTIMIZE, APPEND)),
    Scenario("optimize against optimize", small_files, (OPTIMIZE, OPTIMIZE)),
    Scenario(
        "optimize in batches against delete", two_bins, (IN_BATCHES, _delete("third")), weight=1
    ),
    *(
        Scenario(f"{name} against vacuum {mode}", small_files, (make, other), shared_data=True)
        for mode, other in (("full", FULL), ("lite", LITE))
        for name, make in (
            ("optimize", OPTIMIZE),
            ("append", APPEND),
            ("deletion vector", _delete_row("first")),
        )
    ),
    Scenario(
        "append against vacuum full, while time passes",
        small_files,
        (APPEND, FULL),
        shared_data=True,
        tick_ms=8 * DAY,
        ticks_after=1,
        weight=3,
    ),
    Scenario("vacuum against vacuum", one_due, (FULL, FULL), shared_data=True, weight=3),
    *(
        Scenario(f"restore against {name}", one_back, (_restore(2), make), unmanaged=True)
        for name, make in (
            ("append", APPEND),
            ("delete", _delete("other")),
            ("deletion vector", _delete_row("other")),
            ("property", FOREIGN["property"]),
            ("protocol upgrade", FOREIGN["protocol upgrade"]),
            ("optimize", OPTIMIZE),
            ("restore", _restore(1)),
        )
    ),
    Scenario(
        "restore against vacuum full",
        one_back,
        (_restore(2), FULL),
        shared_data=True,
        weight=1,
        unmanaged=True,
    ),
    Scenario(
        "restore against checkpoint and cleanup",
        long_log,
        (_restore(4), CHECKPOINT),
        weight=1,
        unmanaged=True,
    ),
    *(
        Scenario(f"{does} against {name}", small_files, (_alter(key), make), unmanaged=True)
        for does, key, others in (
            ("property", "delta.enableInCommitTimestamps", ("property", "protocol upgrade")),
            ("row ids", "delta.enableRowTracking", ("append",)),
        )
        for name, make in {"append": APPEND, **FOREIGN}.items()
        if name in others
    ),
    Scenario("drop of row ids against append", _tracked, (DROP, APPEND), unmanaged=True),
    Scenario(
        "drop of vectors against deletion vector",
        _with_vectors,
        (DROP_VECTORS, _delete_row("first")),
        weight=5,
        only="conditional",
    ),
    *(
        Scenario(
            f"drop of vectors against vacuum {mode}",
            one_due,
            (DROP_VECTORS, make),
            shared_data=True,
            weight=5,
            only="conditional",
        )
        for mode, make in (("full", FULL), ("lite", LITE))
    ),
    *(
        Scenario(f"clone against {name}", small_files, (CLONE, make))
        for name, make in (
            ("append", APPEND),
            ("delete", _delete("other")),
            ("deletion vector", _delete_row("first")),
            ("optimize", OPTIMIZE),
        )
    ),
    Scenario("clone against vacuum full", one_due, (CLONE, FULL), shared_data=True, weight=1),
    Scenario("clone against checkpoint and cleanup", long_log, (CLONE, CHECKPOINT), weight=1),
    *(
        Scenario(
            f"shallow clone against vacuum {mode}",
            one_due,
            (OLD_CLONE, make),
            shared_data=True,
            weight=1,
        )
        for mode, make in (("full", FULL), ("lite", LITE))
    ),
    Scenario("append against checkpoint and cleanup", long_log, (APPEND, CHECKPOINT)),
    Scenario("optimize against checkpoint and cleanup", long_log, (OPTIMIZE, CHECKPOINT)),
    Scenario("optimize against the first checkpoint and cleanup", old_log, (OPTIMIZE, CHECKPOINT)),
    Scenario("first checkpoint against first checkpoint", old_log, (CHECKPOINT, CHECKPOINT)),
    Scenario("append against V2 checkpoint and cleanup", long_log, (APPEND, V2_CHECKPOINT)),
    Scenario("checkpoint against checkpoint", short_log, (CHECKPOINT, CHECKPOINT)),
    *(
        Scenario(f"{name} against checkpoint of a quiet log", quiet_log, (make, CHECKPOINT))
        for name, make in (("append", APPEND), ("optimize", OPTIMIZE), ("checkpoint", CHECKPOINT))
    ),
    *(
        Scenario(f"{name} against publication", scene, (make, PUBLICATION), only="staged")
        for name, scene, make in (
            ("append", small_files, APPEND),
            ("optimize", small_files, OPTIMIZE),
            ("checkpoint and cleanup", long_log, CHECKPOINT),
        )
    ),
    *(
        Scenario(
            f"{name} against a writer that never publishes",
            small_files,
            (make, LAZY_APPEND),
            only="staged",
        )
        for name, make in (("append", APPEND), ("optimize", OPTIMIZE))
    ),
    *(
        Scenario(name, scene, (FULL, CHECKPOINT), shared_data=True, weight=weight)
        for name, scene, weight in (
            ("vacuum full against checkpoint and cleanup", short_log, 2),
            ("vacuum full against checkpoint of a quiet log", quiet_log, 4),
        )
    ),
)

# Of which the files need statistics: ``first`` and ``second`` in one commit, ``other`` in the next.
STATS: Sequence[Scenario] = tuple(
    Scenario(f"statistics against {name}", _with_vectors, (FIX_STATS, make), only="conditional")
    for name, make in (
        ("append", APPEND),
        ("deletion vector", _delete_row("second")),
        ("deletion vector of the last file", _delete_row("other")),
        ("delete", _delete("other")),
        ("optimize", OPTIMIZE),
        ("property", FOREIGN["property"]),
        ("restore", writers.restore),
        ("the same", FIX_STATS),
    )
)
# Without readers: they need the file that was lost.
LOST: Sequence[Scenario] = tuple(
    Scenario(f"missing files against {name}", lost_file, (FIX_FILES, make), only="conditional")
    for name, make in (
        ("append", APPEND),
        ("overwrite", FOREIGN["overwrite"]),
        ("property", FOREIGN["property"]),
        ("the same", FIX_FILES),
    )
)
TRIPLES: Sequence[Scenario] = (
    Scenario("optimize, append and delete of the same file", small_files,
        (OPTIMIZE, APPEND, _delete("second"))),
    Scenario("optimize, deletion vector and vacuum", small_files,
        (OPTIMIZE, _delete_row("first"), FULL), shared_data=True),
    Scenario("optimize with vectors against two winners", _with_vectors,
        (OPTIMIZE, _delete_row("first"), _delete_row("second"))),
    Scenario("optimize, append and checkpoint", long_log, (OPTIMIZE, APPEND, CHECKPOINT)),
    Scenario("append, append and optimize", small_files,
        (APPEND, _fixed(lambda: writers.append(2)), OPTIMIZE)),
    *(
        Scenario(f"optimize, {name} and a writer that never publishes", small_files,
            (OPTIMIZE, make, LAZY_APPEND), only="staged")
        for name, make in (("append", APPEND), ("optimize", OPTIMIZE))
    ),
)  # fmt: skip


def with_reader(scenario: Scenario) -> Scenario:
    """The same with a reader beside, at every step."""
    return replace(
        scenario, name=f"{scenario.name}, and a reader", programs=(*scenario.programs, READER)
    )


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for plain in (*PAIRS, *STATS, *TRIPLES)
    for scenario in (plain, with_reader(plain))
} | {scenario.name: scenario for scenario in LOST}
