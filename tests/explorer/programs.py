"""Programs, run one call at a time, and all that is known of them.

A program is deterministic: what it asks next follows from the answers it got. So a tree of answers
holds everything it can ever do, and the real code runs only where the tree ends; the search over
interleavings moves through trees of several programs.

What a program does after a section of its code depends on the result of the section alone: see
``as_section``. So its histories that end a section with one result lead to one node, and the code
runs on from there once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltactl.clock import Clock
from deltactl.engine.base import CancelToken, Done, Engine, Failed, OnProgress, P, R, Task, Worker
from deltactl.errors import (
    CommitDamagedError,
    CommitOutcomeUnknownError,
    ConflictError,
    DeltactlError,
)
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes
from tests.explorer.sim_catalog import CatalogStore, SimCatalog
from tests.explorer.sim_dynamodb import agreeing_store
from tests.explorer.sim_store import SimStore, use_in_this_thread
from tests.explorer.world import OK, Call, Reply, Violation, Worlds

_MOST_SESSIONS = 64
_SECTION = frozenset({"enter", "leave"})  # marks, not requests


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: ``kind`` is done, conflict, unknown, damaged, refused or broken."""

    kind: str
    versions: tuple[int, ...] = ()
    value: Hashable = None


@dataclass(frozen=True, slots=True)
class Program:
    """Somebody at work on the table. ``run(store, clock)`` gives the versions it committed.

    ``effect`` says what rows a commit makes of the rows before it. A ``counted`` program's
    acknowledged commits are exactly those in the log that carry its ids. ``real`` ones are the
    code under test, ``max_commits`` is the most that a run of it may commit. One that
    ``only_looks`` asks the store alone, and a catalog if there is one. One that ``rearranges`` says
    in its commits that no data changes.
    """

    name: str
    run: Callable[[Store, Clock], Outcome]
    effect: Callable[[tuple[Any, ...]], tuple[Any, ...]] = lambda rows: rows
    counted: bool = True
    real: bool = False
    max_commits: int = 1
    only_looks: bool = False
    rearranges: bool = True


class InlineEngine(Engine):
    """Tasks on the calling thread: one thread of control."""

    name, reason, is_local = "local", "explored", True

    def run(
        self,
        worker: Worker[P, R],
        tasks: Any,
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        task: Task[P]
        for task in tasks:
            try:
                yield Done(task.id, 0, worker(task.payload, 0))
            except Exception as error:
                yield Failed(task.id, 0, error)


def program_id(program: int, number: int) -> str:
    """The ``number``-th fresh id of a program; tells whose it is."""
    # Both ends tell whose it is: some names take only the last digits of an id.
    return f"{program + 1:08d}-0000-4000-8000-{number:04d}{program + 1:08d}"


def owner_of(text: str) -> int | None:
    """Whose id stands in a name or a transaction's id; what was there before is nobody's."""
    at = text.find("-0000-4000-8000-")
    number = 0 if at < 8 else int(text[at - 8 : at])
    return number - 1 if number else None


class _Clock:
    def __init__(self, ask: Callable[[Call], Reply], program: int) -> None:
        self._ask, self._program, self.num_ids = ask, program, 0

    def now_ms(self) -> int:
        now = self._ask(Call("clock")).value
        assert isinstance(now, int)
        return now

    def monotonic(self) -> float:
        return 0.0

    def new_id(self) -> str:
        self.num_ids += 1
        return program_id(self._program, self.num_ids)


def run_program(
    program: Program, number: int, worlds: Worlds, ask: Callable[[Call], Reply]
) -> Outcome:
    """Run to the end on this thread; errors of ours are outcomes.

    Raises:
        Violation: it tried to leave the root.
    """
    store = SimStore(worlds, ask)
    use_in_this_thread(store)
    clock = _Clock(ask, number)
    store.num_ids = lambda: clock.num_ids
    try:
        outcome = program.run(_store_for(program, store, worlds, ask, clock), clock)
    except CommitOutcomeUnknownError:
        outcome = Outcome("unknown")
    except CommitDamagedError as error:
        outcome = Outcome("damaged", value=f"{error.code}: {error.message}")
    except ConflictError as error:
        outcome = Outcome("conflict", value=error.message)
    except DeltactlError as error:
        outcome = Outcome("refused", value=f"{error.code}: {error.message}")
    if store.trespasses:
        raise Violation("nothing outside the root is touched", ", ".join(store.trespasses))
    return outcome


def _store_for(
    program: Program, store: Store, worlds: Worlds, ask: Callable[[Call], Reply], clock: Clock
) -> Store:
    rules = worlds.rules
    reached: Store = refuse_changes(store) if program.only_looks else store
    if rules.has_catalog:
        catalog = SimCatalog(worlds, ask)
        return CatalogStore(reached, catalog, clock, only_looks=program.only_looks)
    if rules.has_items and not program.only_looks:
        return agreeing_store(store, worlds, ask, clock)
    return reached


@dataclass(eq=False, slots=True, repr=False)
class Node:
    """A point in a program's life: what it asks next, or how it ended.

    ``future`` is what was seen to be asked from here on, ``verdicts`` whether it lets a call of
    somebody else commute: see ``commuting``. ``section`` is where the section began that a node is
    in, ``results`` has the nodes after it; those have ``others``, all parents but one.
    """

    parent: Node | None = None
    reply: Reply | None = None
    call: Call | None = None
    outcome: Outcome | None = None
    fault: BaseException | None = None
    children: dict[Reply, Node] = field(default_factory=dict)
    known: bool = False
    depth: int = 0
    clocks: int = 0
    learned: bool = False
    future: set[Call] = field(default_factory=set)
    verdicts: dict[tuple[Call, bool], bool] = field(default_factory=dict)
    others: list[Node] = field(default_factory=list)
    section: Node | None = None
    results: dict[tuple[Call, int], Node] = field(default_factory=dict)

    def path(self) -> list[tuple[Call, Reply]]:
        """The calls so far with their answers."""
        steps: list[tuple[Call, Reply]] = []
        node = self
        while node.parent is not None and node.reply is not None:
            assert node.parent.call is not None
            steps.append((node.parent.call, node.reply))
            node = node.parent
        return steps[::-1]


class _Abandoned(BaseException):
    """The run is no longer wanted: unwind."""


class _Session:
    """A run of the real code that waits at its next call."""

    def __init__(self, start: Callable[[_Session], Outcome], past: Sequence[tuple[Call, Reply]]):
        self._past, self._at = past, 0
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._answer: Reply | None = None
        self._stopped = False
        self.call: Call | None = None
        self.outcome: Outcome | None = None
        self.fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(start,), daemon=True)
        self._thread.start()
        self._back.acquire()

    def _run(self, start: Callable[[_Session], Outcome]) -> None:
        try:
            self.outcome = start(self)
        except _Abandoned:
            pass
        except BaseException as error:
            self.fault = error
        self.call = None
        self._back.release()

    def ask(self, call: Call) -> Reply:
        """On the program's own thread: give the recorded answer, or wait for one."""
        if self._stopped:
            raise _Abandoned
        if self._at < len(self._past):
            recorded, reply = self._past[self._at]
            if recorded != call:
                raise AssertionError(f"not deterministic: {recorded} was {call} before")
            self._at += 1
            return reply
        self.call = call
        self._back.release()
        self._go.acquire()
        return self._take_answer()

    def _take_answer(self) -> Reply:
        if self._stopped or self._answer is None:
            raise _Abandoned
        return self._answer

    def answer(self, reply: Reply) -> None:
        """Let the program go on to its next call."""
        self._answer = reply
        self._go.release()
        self._back.acquire()

    def stop(self) -> None:
        self._stopped = True
        self._go.release()
        self._thread.join()


class Tree:
    """All that a program was seen to do."""

    def __init__(self, program: Program, number: int, worlds: Worlds) -> None:
        self.program, self._number, self._worlds = program, number, worlds
        self.root = Node()
        self.runs = 0
        self.dead = Node(known=True)
        self.joined: list[tuple[Node, Node]] = []
        self._ends: dict[Outcome, Node] = {}
        self._live: OrderedDict[Node, _Session] = OrderedDict()

    def look(self, node: Node) -> Node:
        """Go on to where the program sends a request, or ends."""
        while True:
            if not node.known:
                self._grow(node)
            if node.call is None or node.call.op not in _SECTION:
                return node
            node = self.child(node, OK)

    def rest(self, node: Node) -> Node:
        """One node for all ways to the same end: nothing follows, so they do not differ."""
        return node if node.outcome is None else self._ends.setdefault(node.outcome, node)

    def child(self, node: Node, reply: Reply) -> Node:
        """Where an answer leads."""
        found = node.children.get(reply)
        if found is None:
            found = node.children[reply] = self._new_child(node, reply)
        return found

    def _new_child(self, node: Node, reply: Reply) -> Node:
        call, section = node.call, node.section
        assert call is not None
        clocks = node.clocks + (call.op == "clock")
        if call.op == "leave":
            assert section is not None
            known = section.results.get((call, clocks))
            if known is not None:
                known.others.append(node)
                self.joined.append((known, node))
                return known
        after = {"enter": node, "leave": section and section.section}.get(call.op, section)
        found = Node(node, reply, section=after, depth=node.depth + 1, clocks=clocks)
        if call.op == "leave":
            assert section is not None
            section.results[call, clocks] = found
        return found

    def close(self) -> None:
        """End all runs that wait."""
        for session in self._live.values():
            session.stop()
        self._live.clear()

    def _grow(self, node: Node) -> None:
        session = None if node.parent is None else self._live.pop(node.parent, None)
        if session is not None and node.reply is not None:
            session.answer(node.reply)
        else:
            self.runs += 1
            session = _Session(self._start, node.path())
        node.call, node.outcome, node.fault = session.call, session.outcome, session.fault
        node.known = True
        if node.call is not None:
            self._live[node] = session
            if len(self._live) > _MOST_SESSIONS:
                self._live.popitem(last=False)[1].stop()

    def _start(self, session: _Session) -> Outcome:
        try:
            return run_program(self.program, self._number, self._worlds, session.ask)
        except Violation:
            raise
        except Exception as error:
            return Outcome("broken", value=f"{type(error).__name__}: {error}"[:300])
