"""The simulated store: worlds that never change, calls as values, and what a call makes of a world.

A world is a number; equal contents have equal numbers, so that states of a search compare by it.
"""

import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

LOG: Final = "_delta_log"
ITEMS: Final = "dynamodb:"
CATALOG: Final = "catalog:"
"""What a catalog knows of the table, as JSON: see ``sim_catalog``."""
DECISIONS: Final = (ITEMS, CATALOG)
"""Below these names is what decides commits: in no directory, so that no listing shows it."""
CLONE: Final = "clone:"
"""Below it are the files of a clone of the table, at an address of its own."""
MOST_UNPUBLISHED: Final = 2
"""So many commits a catalog keeps before it refuses more of them."""
COMMIT: Final = re.compile(rf"{LOG}/(\d{{20}})\.json")

Model = Literal["link", "conditional", "dynamodb", "staged", "plain"]
"""``link``: a local file system, whose listings are not atomic and whose files grow in sight;
``conditional``: an object store with conditional puts; ``dynamodb``: one without, whose writers
agree through a DynamoDB table; ``staged``: one whose writers agree through a catalog, which
knows commits before they are published; ``plain``: one whose writers do not, so that they
overwrite."""


class Violation(BaseException):
    """An invariant does not hold: no code under test may catch it. ``rule`` names it."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class Call(NamedTuple):
    """One request. ``data`` is the number of a content, ``other`` a second name or a start.

    An ``update`` replaces what is there and has the text ``other`` in it. ``ratify`` asks a catalog
    to accept a commit, ``report`` tells it the version up to which commits are published.
    """

    op: str
    name: str = ""
    data: int = -1
    other: str = ""


class Reply(NamedTuple):
    """What came back: the kind of an error, or a value."""

    error: str
    value: Hashable = None


class Entry(NamedTuple):
    """A stored file: the number of its content, and its time (ms)."""

    data: int
    modified_ms: int


OK: Final = Reply("")
MISSING: Final = Reply("missing")
EXISTS: Final = Reply("exists")
FAILED: Final = Reply("failed")
BACKLOG: Final = Reply("backlog")
REFUSED: Final = Reply("refused")
MUTATING: Final = frozenset(
    {"open", "output", "put", "create", "update", "delete", "move", "ratify", "report"}
)


@dataclass(frozen=True)
class Rules:
    """What the kind of store decides."""

    model: Model

    @property
    def uri(self) -> str:
        return "file:///explored" if self.model == "link" else "explored://table"

    @property
    def clone_uri(self) -> str:
        return "file:///clone" if self.model == "link" else "explored://clone"

    @property
    def has_items(self) -> bool:
        """Whether writers agree by items in DynamoDB, since puts have no conditions."""
        return self.model == "dynamodb"

    @property
    def has_catalog(self) -> bool:
        """Whether a catalog decides commits, and they are published later."""
        return self.model == "staged"

    @property
    def overwrites_commits(self) -> bool:
        return self.model == "plain"

    @property
    def files_grow(self) -> bool:
        return self.model == "link"

    @property
    def listings_take_time(self) -> bool:
        return self.model == "link"

    @property
    def requests_repeat(self) -> bool:
        """Whether a client's library may send a request twice, or one may arrive late."""
        return self.model != "link"

    @property
    def fault_kinds(self) -> frozenset[str]:
        """All that may go wrong at one call or another."""
        anywhere = {"crash", "fail", "ambiguous", "outage"}
        torn = {"tear"} if self.files_grow else set[str]()
        repeated = {"lie", "late"} if self.requests_repeat else set[str]()
        return frozenset(anywhere | torn | repeated)


class Worlds:
    """All contents and worlds met so far."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._data: list[bytes] = []
        self._data_ids: dict[bytes, int] = {}
        self._worlds: list[Mapping[str, Entry]] = []
        self._world_ids: dict[frozenset[tuple[str, Entry]], int] = {}
        self._memo: dict[tuple[int, Call, int], tuple[Reply, int]] = {}

    def __len__(self) -> int:
        return len(self._worlds)

    def keep(self, data: bytes) -> int:
        """The number of a content."""
        found = self._data_ids.get(data)
        if found is None:
            found = self._data_ids[data] = len(self._data)
            self._data.append(data)
        return found

    def data(self, number: int) -> bytes:
        return self._data[number]

    def world(self, files: Mapping[str, Entry]) -> int:
        """The number of a world."""
        key = frozenset(files.items())
        found = self._world_ids.get(key)
        if found is None:
            found = self._world_ids[key] = len(self._worlds)
            self._worlds.append(files)
        return found

    def files(self, world: int) -> Mapping[str, Entry]:
        return self._worlds[world]

    def apply(self, world: int, call: Call, now_ms: int) -> tuple[Reply, int]:
        """Carry a call out.

        Raises:
            Violation: it changed a commit that was there.
        """
        key = (world, call, now_ms)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._carry_out(world, call, now_ms)
        return found

    def _carry_out(self, world: int, call: Call, now_ms: int) -> tuple[Reply, int]:
        if call.op not in MUTATING:
            return self._look(world, call, now_ms), world
        files = self._worlds[world]
        entry = files.get(call.name)
        match call.op:
            case "delete":
                return OK, self.world({n: e for n, e in files.items() if n != call.name})
            case "move":
                return self._move(world, call, now_ms)
            case "ratify" | "report":
                assert entry is not None
                reply, known = self._decide(call, json.loads(self._data[entry.data]))
                data = self.keep(json.dumps(known).encode())
                return reply, self.world({**files, call.name: Entry(data, entry.modified_ms)})
            case "create" if entry is not None and not self.rules.overwrites_commits:
                return EXISTS, world
            case "update" if entry is None or call.other.encode() not in self._data[entry.data]:
                return EXISTS, world
        self._ensure_commit_stays(call, entry)
        return OK, self.world({**files, call.name: Entry(call.data, now_ms)})

    def _look(self, world: int, call: Call, now_ms: int) -> Reply:
        files = self._worlds[world]
        entry = files.get(call.name)
        match call.op:
            case "clock":
                return Reply("", now_ms)
            case "sync" | "enter" | "leave":
                return OK
            case "read" if call.name == CATALOG and entry is not None:
                return Reply("", self._tell(json.loads(self._data[entry.data])))
            case "read":
                return MISSING if entry is None else Reply("", entry.data)
            case "stat":
                return Reply("", self._fact(call.name, entry))
            case "latest":
                found = self.listing(call, files).value
                assert isinstance(found, tuple)
                return Reply("", files[found[-1][0]].data if found else None)
            case "list" | "walk":
                return self.listing(call, files)
        raise AssertionError(f"no such call: {call.op}")

    def _tell(self, known: dict[str, Any]) -> int:
        """What a catalog says of what it knows: it names no commit that is reported."""
        commits = [it for it in known["commits"] if it["version"] > known["reported"]]
        return self.keep(json.dumps({"latest": known["latest"], "commits": commits}).encode())

    def _ensure_commit_stays(self, call: Call, entry: Entry | None) -> None:
        if COMMIT.fullmatch(call.name) and entry is not None and entry.data != call.data:
            raise Violation("one winner per version", f"{call.name} was overwritten")

    def _decide(self, call: Call, known: dict[str, Any]) -> tuple[Reply, dict[str, Any]]:
        """The answer of a catalog, and what it knows then."""
        if call.op == "report":
            version = int(call.other)
            if version > known["latest"]:
                return REFUSED, known
            return OK, {**known, "reported": max(version, known["reported"])}
        commit = json.loads(self._data[call.data])
        if commit["version"] <= known["latest"]:
            return EXISTS, known
        if commit["version"] > known["latest"] + 1:
            return REFUSED, known
        if known["latest"] - known["reported"] >= MOST_UNPUBLISHED:
            return BACKLOG, known
        commits = [*known["commits"], commit]
        return OK, {**known, "latest": commit["version"], "commits": commits}

    def _move(self, world: int, call: Call, now_ms: int) -> tuple[Reply, int]:
        files = dict(self._worlds[world])
        if call.name not in files:
            return MISSING, world
        if call.other in files:
            return EXISTS, world
        files[call.other] = Entry(files.pop(call.name).data, now_ms)
        return OK, self.world(files)

    def _fact(self, name: str, entry: Entry | None) -> tuple[str, int, int] | None:
        return None if entry is None else (name, len(self._data[entry.data]), entry.modified_ms)

    def listing(self, call: Call, files: Mapping[str, Entry]) -> Reply:
        """Facts of the files that a listing covers, sorted by name."""
        prefix = f"{call.name}/" if call.name else ""
        chosen = sorted(name for name in files if name.startswith(prefix))
        if call.op == "walk" and not prefix:
            chosen = [name for name in chosen if not name.startswith((*DECISIONS, CLONE))]
        elif call.op == "walk":
            pass
        else:
            skip = len(prefix)
            chosen = [n for n in chosen if "/" not in n[skip:] and n[skip:] >= call.other]
        return Reply("", tuple(self._fact(name, files[name]) for name in chosen))
