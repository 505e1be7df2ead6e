"""Programs over a simulated store as a machine: its states, and the steps from each.

A state is the world, the time, where every program is, and what has gone wrong so far. Programs
being trees of answers, a step costs a few look-ups; the real code runs only for answers that it
was never given before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from deltactl.operations.clone_notes import CLONES_DIR
from tests.explorer.commuting import Meetings, is_seen
from tests.explorer.programs import Node, Outcome, Program, Tree
from tests.explorer.schedule import ENVIRONMENT, Step
from tests.explorer.world import (
    DECISIONS,
    FAILED,
    LOG,
    MUTATING,
    Call,
    Entry,
    Reply,
    Rules,
    Violation,
    Worlds,
)

# A program whose clean-up or writing failed may leave files behind.
_LEAVING: Final = frozenset({"delete", "open", "output", "move"})


class State(NamedTuple):
    """Everything that the future depends on. ``begun`` is what listings under way saw at first."""

    world: int
    ticks: int
    nodes: tuple[Node, ...]
    dead: int
    faulty: int
    faults: int
    begun: tuple[frozenset[str] | None, ...]
    late: tuple[Call, ...] = ()
    cut_off: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Setting:
    """What is explored: programs over a table that is there already.

    ``shared_data`` tells that programs meet at data files too, since one lists or deletes them;
    else only the log is a meeting point, and what concerns a data file alone goes on at once.
    ``tick_ms`` lets that much time pass, once, after the program ``ticks_after`` read its clock.
    Nothing goes wrong in ``spared`` programs: each is the twin of another, which may as well be the
    one in which it does, if it is but one thing. (Names of files tell whose they are; which twin's
    sort first must not matter.)
    """

    files: Mapping[str, Entry]
    worlds: Worlds
    programs: Sequence[Program]
    now_ms: int
    shared_data: bool = False
    tick_ms: int = 0
    ticks_after: int = 0
    max_faults: int = 0
    spared: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()


class Checks:
    """What must hold; see ``invariants``."""

    def world(self, world: int) -> None:
        """In every world."""

    def finished(self, world: int, program: int, outcome: Outcome) -> None:
        """Where a program ends."""

    def end(self, state: State) -> None:
        """Where nobody goes on."""


class Machine:
    """The states of a setting, and what follows from each."""

    def __init__(self, setting: Setting, checks: Checks) -> None:
        self.setting, self.checks = setting, checks
        self.worlds = setting.worlds
        self.rules: Rules = setting.worlds.rules
        self.trees = [Tree(p, number, self.worlds) for number, p in enumerate(setting.programs)]
        self._checked: set[int] = set()
        self._writers: dict[str, int] = {}
        self._ended: set[tuple[int, Node]] = set()
        self._seen_listed: dict[frozenset[str], frozenset[str]] = {}
        self.meetings: Meetings | None = None

    def close(self) -> None:
        for tree in self.trees:
            tree.close()

    @property
    def runs(self) -> int:
        """How often real code was started from its beginning."""
        return sum(tree.runs for tree in self.trees)

    def start(self) -> State:
        world = self.worlds.world(self.setting.files)
        nodes = tuple(tree.look(tree.root) for tree in self.trees)
        return State(world, 0, nodes, 0, 0, 0, (None,) * len(nodes))

    def look(self, state: State) -> None:
        """Check what holds everywhere.

        Raises:
            Violation: it does not.
        """
        if state.world not in self._checked:
            self.checks.world(state.world)
            self._checked.add(state.world)
        for number, node in enumerate(state.nodes):
            if self.meetings is not None:
                self.meetings.learn(node)
            if node.fault is not None:
                if isinstance(node.fault, Violation):
                    raise node.fault
                raise AssertionError(f"program {number} broke the explorer") from node.fault
            if node.outcome is not None and (state.world, node) not in self._ended:
                self.checks.finished(state.world, number, node.outcome)
                self._ended.add((state.world, node))

    def steps(self, state: State) -> list[Step]:
        """What is to be tried next; empty where nobody goes on."""
        going = _going(state)
        for number in going:
            if self._goes_on(state, number, going):
                return self._options(state, number)
        return self.possible(state)

    def possible(self, state: State) -> list[Step]:
        """What may happen next, whether or not its order matters."""
        found = [step for number in _going(state) for step in self._options(state, number)]
        if found and self._may_tick(state):
            found.append(Step(ENVIRONMENT, "tick"))
        found += [Step(ENVIRONMENT, f"land{n}") for n in range(len(state.late))]
        return found

    def now_ms(self, state: State) -> int:
        return self.setting.now_ms + state.ticks * self.setting.tick_ms

    def follow(self, state: State, step: Step) -> State:
        """The state after a step.

        Raises:
            Violation: the step itself breaks a rule.
        """
        if step.program == ENVIRONMENT:
            return self._environment(state, step.choice)
        number, call = step.program, self._call(state, step.program)
        match step.choice:
            case "":
                return self._plain(state, number, call)
            case "crash":
                return self._die(state, number, state.world)
            case "tear":
                half = self.worlds.keep(self.worlds.data(call.data)[: _half(self.worlds, call)])
                _, world = self.worlds.apply(
                    state.world, call._replace(data=half), self.now_ms(state)
                )
                return self._die(state, number, world)
            case "some" | "gap":
                return self._end_listing(state, number, call, step.choice)
        return self._fail(state, number, call, step.choice)

    def _call(self, state: State, number: int) -> Call:
        call = state.nodes[number].call
        assert call is not None
        return call

    def _plain(self, state: State, number: int, call: Call) -> State:
        if (number, call.name) in state.cut_off:
            return self._answer(state, number, FAILED, state.world)
        if self._takes_time(call):
            if state.begun[number] is None:
                seen = self._covered(state, call)
                return state._replace(begun=_put(state.begun, number, seen))
            return self._end_listing(state, number, call, "")
        reply, world = self.worlds.apply(state.world, call, self.now_ms(state))
        return self._answer(state, number, reply, world)

    def _fail(self, state: State, number: int, call: Call, choice: str) -> State:
        state = state._replace(faults=state.faults + 1)
        if choice in ("late", "outage") or call.op in _LEAVING:
            state = state._replace(faulty=state.faulty | 1 << number)
        if choice == "fail":
            return self._answer(state, number, FAILED, state.world)
        if choice == "late":
            state = state._replace(late=tuple(sorted((*state.late, call))))
            return self._answer(state, number, FAILED, state.world)
        _, world = self.worlds.apply(state.world, call, self.now_ms(state))
        if choice == "lie":
            return self._answer(state, number, Reply("exists"), world)
        if choice == "outage":
            state = state._replace(cut_off=(*state.cut_off, (number, call.name)))
        return self._answer(state, number, FAILED, world)

    def _answer(self, state: State, number: int, reply: Reply, world: int) -> State:
        tree, node = self.trees[number], state.nodes[number]
        child = tree.rest(tree.look(tree.child(node, reply)))
        if self.meetings is not None:
            self.meetings.join(tree.joined)
        begun = state.begun if state.begun[number] is None else _put(state.begun, number, None)
        # `_replace` takes four times as long, and this is done for nearly every step.
        _, ticks, nodes, dead, faulty, faults, _, late, cut_off = state
        nodes = _put(nodes, number, child)
        state = State(world, ticks, nodes, dead, faulty, faults, begun, late, cut_off)
        return state if child.call is not None else _reconnect(state, number)

    def _die(self, state: State, number: int, world: int) -> State:
        state = state._replace(
            world=world,
            nodes=_put(state.nodes, number, self.trees[number].dead),
            dead=state.dead | 1 << number,
            faulty=state.faulty | 1 << number,
            faults=state.faults + 1,
            begun=_put(state.begun, number, None),
        )
        return _reconnect(state, number)

    def _environment(self, state: State, choice: str) -> State:
        if choice == "tick":
            return state._replace(ticks=state.ticks + 1)
        number = int(choice.removeprefix("land"))
        late = (*state.late[:number], *state.late[number + 1 :])
        _, world = self.worlds.apply(state.world, state.late[number], self.now_ms(state))
        return state._replace(world=world, late=late)

    def _may_tick(self, state: State) -> bool:
        if not self.setting.tick_ms or state.ticks:
            return False
        return state.nodes[self.setting.ticks_after].clocks > 0

    def _goes_on(self, state: State, number: int, going: Sequence[int]) -> bool:
        """Whether a call commutes with all that may come before it: then its order is no choice."""
        call = self._call(state, number)
        if self.meetings is None:
            return self._is_private(number, call)
        if self.setting.tick_ms and not state.ticks and (call.op == "clock" or call.op in MUTATING):
            return False
        others = [state.nodes[other] for other in going if other != number]
        if is_seen(call) and (others or state.late):
            return False
        return self.meetings.commutes(call, state.world, others, state.late)

    def _is_private(self, number: int, call: Call) -> bool:
        """Whether nobody else can notice the call, nor it anybody else."""
        if call.op == "sync" or (call.op == "clock" and not self.setting.tick_ms):
            return True
        if call.op == "clock" or call.name.startswith((LOG, *DECISIONS)) or not call.name:
            return False
        if self.setting.shared_data and not call.name.startswith("_deltactl/"):
            return False
        if call.name.startswith(CLONES_DIR):  # the notes of clones, which vacuums read
            return False
        self._ensure_alone(number, call)
        return True

    def _ensure_alone(self, number: int, call: Call) -> None:
        """What the reduction rests on: nobody else writes, moves or deletes a private name.

        Others may read it: they know the name from a commit, which is put after the file. Were it
        deleted then, the world in which a commit names what is gone would be told anyhow.
        """
        if call.op in MUTATING and self._writers.setdefault(call.name, number) != number:
            raise AssertionError(f"{call.name} is not private: programs meet there")

    def _options(self, state: State, number: int) -> list[Step]:
        call = self._call(state, number)
        found = [Step(number)]
        if self._takes_time(call) and state.begun[number] is not None:
            found += [Step(number, kind) for kind in self._views(state, number, call)]
        if self._may_fail(state, number, call):
            found += [Step(number, k) for k in _faults(call) if k in self.setting.kinds]
        return found

    def _may_fail(self, state: State, number: int, call: Call) -> bool:
        if number in self.setting.spared or state.faults >= self.setting.max_faults:
            return False
        return (number, call.name) not in state.cut_off

    # -- listings that take their time ----------------------------------------------------------

    def _takes_time(self, call: Call) -> bool:
        return call.op in ("list", "walk") and self.rules.listings_take_time

    def _views(self, state: State, number: int, call: Call) -> list[str]:
        new = self._news(state, number, call)
        if not new:
            return []
        return ["some", "gap"] if len(new) > 1 else ["some"]

    def _covered(self, state: State, call: Call) -> frozenset[str]:
        """The names that a listing covers: the same set is the same object."""
        facts = self.worlds.listing(call, self.worlds.files(state.world)).value
        assert isinstance(facts, tuple)
        names = frozenset(fact[0] for fact in facts)
        return self._seen_listed.setdefault(names, names)

    def _news(self, state: State, number: int, call: Call) -> list[str]:
        """What was created since a listing was begun."""
        return sorted(self._covered(state, call) - (state.begun[number] or frozenset()))

    def _end_listing(self, state: State, number: int, call: Call, view: str) -> State:
        """Give what was there all the time; of what is new, all, nothing, or not the first."""
        new = self._news(state, number, call)
        hidden = {"": set[str](), "some": set(new), "gap": set(new[:1])}[view]
        files = {n: e for n, e in self.worlds.files(state.world).items() if n not in hidden}
        return self._answer(state, number, self.worlds.listing(call, files), state.world)


def _faults(call: Call) -> Iterator[str]:
    """What may go wrong at a call, on one kind of store or another."""
    if call.op == "clock":
        return
    yield "crash"
    if call.op != "sync":
        yield "fail"
    if call.op == "output":
        yield "tear"
    if call.op in MUTATING - {"open"}:
        yield "ambiguous"
    if call.op in ("create", "ratify"):
        yield "outage"
        yield "lie"
    if call.op in ("create", "put", "update", "ratify", "report"):
        yield "late"


def _going(state: State) -> list[int]:
    """The programs that go on."""
    nodes = enumerate(state.nodes)
    return [n for n, node in nodes if node.call is not None and not state.dead >> n & 1]


def _half(worlds: Worlds, call: Call) -> int:
    return len(worlds.data(call.data)) // 2


def _reconnect(state: State, number: int) -> State:
    """Forget what a program that is over could not reach."""
    if not state.cut_off:
        return state
    return state._replace(cut_off=tuple(cut for cut in state.cut_off if cut[0] != number))


def _put(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])
