"""Find the calls whose order makes no difference to the calls of other programs.

If a program waits at such a call, the search executes the call at once, and does not try orders in
which another program makes a call first (a persistent set of one call). Calls that change what an
invariant reads are an exception. Each skipped order differs from a searched order only by exchanges
of two calls that commute, and no invariant reads what one of the two calls changes. So the skipped
order leads to the same results, and the invariants read the same data.

The search learns which calls a program can still make: each node of a program's tree collects the
calls that followed the node. If the search learns of a call that conflicts with a call that was
executed at once, it searches the state again, and tries the calls of all programs there. In the
end, no call that was executed at once conflicts with a call that the search knows.

Proof that the search has learned enough, by contradiction:

1. Assume that an order exists in which a call C was executed at once, and a later call D of another
   program conflicts with C. Take the shortest such order.
2. The part of this order before D contains no such conflict, because the order is the shortest one.
   So the search has searched an order that is equal to this part, except that calls that commute
   can be exchanged.
3. In the searched order, the program of D came to D. So the search has learned that D conflicts
   with C, and has searched the state before C again with the calls of all programs.
4. So C was not executed at once there, which contradicts step 1.

No order is infinite, so no call is put off forever.
"""

from collections.abc import Iterable, Sequence, Set
from typing import Final

from tests.explorer.programs import Node
from tests.explorer.world import CLONE, DECISIONS, LOG, MUTATING, Call, Worlds

_LISTING: Final = frozenset({"list", "walk", "latest", "tail"})


Reliance = tuple[Node, Call, bool]
"""That nothing which follows from a node meets a call, on a name that is taken or is not."""


class Meetings:
    """What is known of who may meet whom."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._relied: list[Reliance] = []
        self._wrong: list[Reliance] = []

    def take_reliances(self) -> list[Reliance]:
        """What was relied on since the last time."""
        found, self._relied = self._relied, []
        return found

    def take_wrong(self) -> list[Reliance]:
        """What turned out to be wrong since the last time, relied on or not."""
        found, self._wrong = self._wrong, []
        return found

    def learn(self, node: Node) -> None:
        """Let all nodes on the way to this one know what is asked here."""
        if node.learned or node.call is None:
            return
        node.learned = True
        self._tell(node, {node.call._replace(data=-1)})

    def join(self, joined: list[tuple[Node, Node]]) -> None:
        """Let the second parents of nodes know what follows from these."""
        while joined:
            node, parent = joined.pop()
            self._tell(parent, node.future)

    def _tell(self, node: Node, calls: Set[Call]) -> None:
        waiting = [(node, calls)]
        while waiting:
            at, told = waiting.pop()
            new = told - at.future
            if not new:
                continue
            at.future |= new
            for (other, exists), commutes in at.verdicts.items():
                if commutes and any(self._meet(other, call, exists) for call in new):
                    at.verdicts[other, exists] = False
                    self._wrong.append((at, other, exists))
            if at.parent is not None:
                waiting += [(parent, new) for parent in (at.parent, *at.others)]

    def commutes(
        self, call: Call, world: int, others: Iterable[Node], late: Sequence[Call]
    ) -> bool:
        """Whether the order of a call and of all that others do from here makes no difference."""
        if call.op in ("sync", "clock"):
            return True
        if call.data != -1:
            call = call._replace(data=-1)
        exists = call.name in self._worlds.files(world)
        if any(self._meet(call, landing, exists) for landing in late):
            return False
        asked = list(others)
        if not all(self._allows(node, call, exists) for node in asked):
            return False
        self._relied += [(node, call, exists) for node in asked]
        return True

    def _allows(self, node: Node, call: Call, exists: bool) -> bool:
        found = node.verdicts.get((call, exists))
        if found is None:
            found = not any(self._meet(call, other, exists) for other in node.future)
            node.verdicts[call, exists] = found
        return found

    def _meet(self, call: Call, other: Call, exists: bool) -> bool:
        """Whether the order of two calls may matter; ``exists``: the first one's name is taken."""
        if call.op == "create" and exists and not self._worlds.rules.overwrites_commits:
            call = call._replace(op="stat")  # it changes nothing
        if call.op not in MUTATING:
            return other.op in MUTATING and self._notices(call, other, exists)
        if other.op in MUTATING:
            return not _names(call).isdisjoint(_names(other))
        return self._notices(other, call, exists=False)

    def _notices(self, look: Call, change: Call, exists: bool) -> bool:
        """Whether the answer to a look may depend on a change."""
        if look.op in _LISTING:
            return any(_covers(look, name) for name in _names(change))
        if look.name not in _names(change):
            return False
        if change.op == "create" and exists and not self._worlds.rules.overwrites_commits:
            return False
        # Who reads a data file knows its name from a commit, which is put after the file.
        return not (look.op == "read" and change.op in ("open", "output") and _is_data(look.name))


def is_seen(call: Call) -> bool:
    """Whether an invariant may tell the world after a call from the one before.

    None looks at journals and leases, nor at a new data file before a commit names it.
    """
    if call.op not in MUTATING or call.name.startswith("_deltactl/"):
        return False
    return not (call.op in ("open", "output") and _is_data(call.name))


def _names(change: Call) -> frozenset[str]:
    return frozenset({change.name, change.other} if change.op == "move" else {change.name})


def _covers(look: Call, name: str) -> bool:
    prefix = f"{look.name}/" if look.name else ""
    if not name.startswith(prefix):
        return False
    rest = name[len(prefix) :]
    return look.op == "walk" or ("/" not in rest and rest >= look.other)


def _is_data(name: str) -> bool:
    return not name.startswith((LOG, *DECISIONS, CLONE, "_deltactl/"))
