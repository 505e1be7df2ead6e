"""A world: places in a space, the time, deltactl's runs in progress, and what must hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from deltactl.errors import TransientStorageError
from tests.support.stores import Crash
from tests.world.model import Model
from tests.world.reader import COMMIT, LOG, Reader, Row, State
from tests.world.spaces import Kind, Space, set_store_time

if TYPE_CHECKING:
    from tests.world.stores import WorldStore

R = TypeVar("R")

START_MS = 1_577_836_800_000
_CALL_MS = 3
_WRITES = frozenset(
    [
        "close", "copy_files", "delete_many", "move_many", "open_assembly", "open_output", "put",
        "put_if_absent", "remove_directories",
    ]
)  # fmt: skip
_IN_PARTS = frozenset(["close", "copy_files", "delete_many", "move_many"])
"""A kill may come in the middle of these."""


class Chance(random.Random):
    """What is chance in a step. A draw that is made apart does not move the others."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self._seed = seed

    def apart(self, name: str) -> Chance:
        return Chance(f"{name} of {self._seed}")


PointKind = Literal["call", "write", "commit", "later", "link", "sync", "copy"]
"""Calls of the store; those that write; that put a commit; all calls after the first commit. And on
disks three calls of the operating system: the link that gives a commit its name, the fsync of a
directory, and the copy of a part of a file."""


@dataclass(frozen=True)
class Point:
    """The ``number``-th call of a kind in a run, from 1."""

    kind: PointKind
    number: int


Action = Literal["kill before", "kill after", "tear", "error before", "error after"]
"""What goes wrong at a point; ``tear`` kills, and leaves half of what is written."""


@dataclass(frozen=True)
class Fault:
    point: Point
    action: Action


@dataclass
class Run:
    """A run of deltactl in progress: its clock, what happens meanwhile, and what it may change.

    ``lost_rows`` are of files that others deleted since it began; ``changed_rows`` are rows of
    files that others wrote again, with what they were; ``target`` is the version that is
    restored, which a log cleanup may remove before the commit.
    ``vacuumed`` are files that another program took before the run committed.
    ``commits`` are those that are in a log; ``acknowledged`` those that the store confirmed;
    ``replaced`` is one that another writer replaced. ``looked_ms`` is when the run last looked at
    data files.
    """

    place: str
    began_ms: int
    offset_ms: int = 0
    meanwhile: list[tuple[Point, Callable[[], None]]] = field(default_factory=list)
    fault: Fault | None = None
    source: str | None = None
    where: str | None = None
    ignores_missing: bool = False
    target: State | None = None
    listed: frozenset[str] = frozenset()
    is_attended: bool = False
    is_dead: bool = False
    is_disturbed: bool = False
    links_commit: bool = False
    is_unsynced: bool = False
    lost_rows: set[Row] = field(default_factory=set)
    changed_rows: dict[Row, Row] = field(default_factory=dict)
    vacuumed: set[str] = field(default_factory=set)
    commits: list[str] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)
    replaced: str | None = None
    looked_ms: int = 0
    counts: dict[PointKind, int] = field(default_factory=dict)


class Failed(Exception):
    """Something does not hold that must; ``kind`` names the rule."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


class World:
    """Everything there is. All chance comes from ``ids`` and from what steps are given."""

    def __init__(
        self,
        space: Space,
        kind: Kind,
        seed: int,
        take: Callable[[World, str, int], None],
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.space, self.kind, self.without = space, kind, without
        self.take = partial(take, self)
        self.ids = random.Random(f"ids of {seed}")
        self.now_ms = START_MS
        self.runs: list[Run] = []
        self.places = ["t"]
        self.shallow: set[str] = set()
        self.copies: set[str] = set()
        self.deep: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.seconds: dict[str, str] = {}
        self.clock_was_wrong = False
        self.reader = Reader(space, self.locate)
        self.model = Model(self)
        self.lines: list[str] = []
        self.failure: Failed | None = None
        self._rows = 0
        self._names = 0

    def say(self, text: str) -> None:
        """Add a line to the story."""
        self.lines.append("    " * len(self.runs) + text)

    def fail(self, kind: str, detail: str) -> None:
        """Note what does not hold; the first is what counts. Raised where a step ends."""
        if self.failure is None:
            self.failure = Failed(kind, detail)

    def new_rows(self, count: int) -> list[int]:
        """Ids that no row has had."""
        self._rows += count
        return list(range(self._rows - count, self._rows))

    def new_name(self, prefix: str) -> str:
        """The name of a place that never was."""
        self._names += 1
        return f"{prefix}{self._names}"

    def rename(self, place: str, target: str) -> None:
        """A place has another address from now on, and knows those that it had."""
        self.model.move(place, target)
        self.places[self.places.index(place)] = target
        self.moved.pop(target, None)
        self.moved[place] = target
        for kind in (self.shallow, self.copies):
            if place in kind:
                kind.add(target)
        renamed = {place: target}
        self.deep = {renamed.get(t, t): renamed.get(s, s) for t, s in self.deep.items()}

    def locate(self, address: str) -> str:
        """The path of a file by an absolute address, wherever its place was moved since."""
        first, slash, rest = self.space.path_of(address).partition("/")
        while first in self.moved:
            first = self.moved[first]
        return first + slash + rest

    @property
    def run(self) -> Run | None:
        """The innermost run in progress."""
        return self.runs[-1] if self.runs else None

    @property
    def is_one_machine(self) -> bool:
        """Whether the clock of who writes also dates files."""
        return self.kind in ("disk", "folding")

    def clock_ms(self) -> int:
        """What the clock shows to who acts now."""
        return self.now_ms + (self.run.offset_ms if self.run else 0)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        set_store_time(self.now_ms)

    def stamp(self) -> None:
        """Date the files that were written since the last call."""
        self.space.stamp(self.clock_ms() if self.is_one_machine else self.now_ms)

    # -- calls of deltactl ----------------------------------------------------------------------

    def call(
        self,
        store: WorldStore,
        method: str,
        name: str,
        effect: Callable[[], R],
        tear: Callable[[], None] | None,
    ) -> R:
        """Carry out a call of a run, and what happens at this point.

        Raises:
            Crash: the run is dead.
            TransientStorageError: the store failed on purpose.
        """
        run = self.run
        if run is None or name.startswith("file://"):  # as many as the disk has directories above
            return effect()
        self.pass_time(_CALL_MS)
        is_commit = method == "put_if_absent" and COMMIT.search(name) is not None
        kinds: list[PointKind] = ["call"]
        kinds += ["write"] if method in _WRITES else []
        kinds += ["commit"] if is_commit else []
        action = self._reach(run, kinds)
        if action in ("kill before", "tear"):
            run.is_dead = True
            if action == "tear" and tear is not None and method in _IN_PARTS:
                tear()
                self.stamp()
            raise Crash(f"killed before {method} of {name}")
        if action == "error before":
            raise TransientStorageError(f"cannot {method} {name!r}: failed on purpose")
        self._look(run, store, method, name)
        try:
            found = effect()
        finally:
            if method in _WRITES:
                self.stamp()
        if is_commit:
            run.commits.append(self.locate(f"{store.uri}/{name}"))
            self.model.sync(self.locate(store.uri))
        if action == "kill after":
            run.is_dead = True
            raise Crash(f"killed after {method} of {name}")
        if action == "error after":
            raise TransientStorageError(f"cannot {method} {name!r}: the answer was lost on purpose")
        return found

    def _look(self, run: Run, store: WorldStore, method: str, name: str) -> None:
        """Note what a run looks at."""
        if method == "list_from" and name == LOG and len(self.runs) == 1:
            self.model.list_log(self.locate(store.uri))
        if method in ("list_from", "stat_many") and LOG not in name:
            run.looked_ms = self.now_ms

    def system_call(self, kind: PointKind) -> bool:
        """A call of the operating system in a run; gives whether it is to fail."""
        run = self.run
        if run is None:
            return False
        self.stamp()
        action = self._reach(run, [kind])
        if kind != "copy" and action is not None and action.startswith(("kill", "tear")):
            run.is_dead = True
            raise Crash(f"killed at a {kind}")
        return action is not None

    def _reach(self, run: Run, kinds: list[PointKind]) -> str | None:
        if run.is_dead:
            raise Crash("a dead process does nothing")
        here = set()
        if run.commits:
            kinds = [*kinds, "later"]
        for kind in kinds:
            run.counts[kind] = run.counts.get(kind, 0) + 1
            here.add(Point(kind, run.counts[kind]))
        due = [act for point, act in run.meanwhile if point in here]
        run.meanwhile = [(point, act) for point, act in run.meanwhile if point not in here]
        for act in due:
            run.is_disturbed = True
            act()
        return run.fault.action if run.fault and run.fault.point in here else None
