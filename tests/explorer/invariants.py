"""What must hold, whatever the order of events; the names are those of ``docs/consistency.md``.

Checked by a naive reader in every world that is reached. ``ConsistentRead``: every version is the
serial application of the commits below it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.explorer import naive
from tests.explorer.machine import Checks, State
from tests.explorer.programs import Outcome, Program, owner_of
from tests.explorer.world import ITEMS, LOG, Entry, Violation, Worlds
from tests.support.table_builder import Action
from tests.support.table_builder import State as TableState

Rows = tuple[Any, ...]
_HINT = f"{LOG}/_last_checkpoint"
# A protocol that names this is beyond every writer that is explored.
UNKNOWN_FEATURE = "notYetInvented"


@dataclass(frozen=True)
class Promise:
    """What the retentions of a table promise.

    Versions from ``first_readable`` on can be rebuilt, the files of those from ``first_whole`` on
    are there, and so are those removed after ``removed_after_ms``. ``orphans`` are files that lay
    there from the beginning without a commit.
    """

    first_readable: int
    first_whole: int
    removed_after_ms: int
    orphans: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Version:
    """A version as a world holds it; ``key`` is equal where all below it is."""

    number: int
    key: int
    actions: Sequence[Action]


class TableChecks(Checks):
    """All invariants, with a memory of what was checked already."""

    def __init__(
        self,
        worlds: Worlds,
        programs: Sequence[Program],
        promise: Promise,
        recover: Callable[[int], int | None] | None = None,
    ) -> None:
        self._worlds, self._programs, self._promise = worlds, programs, promise
        self._recover = recover
        self._states: list[TableState] = [TableState()]
        self._keys: dict[tuple[int, int], int] = {}
        self._parsed: dict[int, list[Action]] = {}
        self._of_checkpoint: dict[tuple[Any, ...], int] = {}
        self._compared: set[tuple[Any, ...]] = set()
        self._rows_memo: dict[tuple[int, tuple[int, ...]], Rows] = {}
        self._stored: dict[int, list[dict[str, Any]]] = {}
        self._steps_checked: set[tuple[int, int, Rows, Rows]] = set()
        self._recovered: set[frozenset[str]] = set()

    # -- in every world -------------------------------------------------------------------------

    def world(self, world: int) -> None:
        files = self._worlds.files(world)
        versions = self._versions(files)
        self._check_readable(versions)
        before: Rows | None = None
        previous: Version | None = None
        for version in versions:
            if version.number >= self._promise.first_whole:
                rows = self._rows(files, version)
                if previous is not None and before is not None:
                    self._check_step(previous, version, before, rows)
                before = rows
            previous = version
        self._check_tombstones(files, versions[-1])
        self._check_hint(files)
        self._check_items(files)

    def _versions(self, files: Mapping[str, Entry]) -> list[Version]:
        """Every version from the oldest that can be rebuilt; checkpoints agree with commits."""
        commits = naive.commit_names(files)
        checkpoints = naive.checkpoint_names(files)
        last = max(commits, default=-1)
        low = last
        while low - 1 in commits:
            low -= 1
        found: list[Version] = []
        if low == 0:
            key, number = 0, -1
        else:
            number = min((v for v in checkpoints if v >= low - 1), default=-1)
            if number < 0:
                raise Violation("ConsistentRead", f"nothing leads up to version {last}")
            key = self._read_checkpoint(files, checkpoints[number][0])
            found.append(Version(number, key, ()))
        for version in range(number + 1, last + 1):
            data = files[commits[version]].data
            key = self._apply(key, data)
            found.append(Version(version, key, self._parsed[data]))
            for name in checkpoints.get(version, ()):
                self._compare_checkpoint(files, name, key)
        return found

    def _apply(self, key: int, data: int) -> int:
        after = self._keys.get((key, data))
        if after is None:
            if data not in self._parsed:
                self._parsed[data] = naive.parse_lines(self._worlds.data(data))
            state = naive.copy_state(self._states[key])
            state.apply(self._parsed[data])
            after = self._keys[key, data] = len(self._states)
            self._states.append(state)
        return after

    def _reader(self, files: Mapping[str, Entry]) -> naive.Read:
        def read(name: str) -> bytes:
            entry = files.get(name)
            if entry is None:
                raise Violation("nothing reachable is removed", f"{name} is gone")
            return self._worlds.data(entry.data)

        return read

    def _checkpoint_identity(self, files: Mapping[str, Entry], name: str) -> tuple[Any, ...]:
        sidecars = sorted(
            (n, e.data) for n, e in files.items() if n.startswith(f"{LOG}/_sidecars/")
        )
        return (name, files[name].data, tuple(sidecars))

    def _read_checkpoint(self, files: Mapping[str, Entry], name: str) -> int:
        identity = self._checkpoint_identity(files, name)
        key = self._of_checkpoint.get(identity)
        if key is None:
            state = naive.read_checkpoint(name, self._reader(files))
            key = self._of_checkpoint[identity] = len(self._states)
            self._states.append(state)
        return key

    def _compare_checkpoint(self, files: Mapping[str, Entry], name: str, key: int) -> None:
        identity = (*self._checkpoint_identity(files, name), key)
        if identity in self._compared:
            return
        found = self._states[self._read_checkpoint(files, name)]
        wanted = self._states[key]
        if _facts(found) != _facts(wanted):
            raise Violation("a checkpoint changes no row", f"{name} is not its version")
        self._compared.add(identity)

    def _check_readable(self, versions: Sequence[Version]) -> None:
        if versions[0].number > self._promise.first_readable:
            raise Violation(
                "nothing reachable is removed",
                f"version {self._promise.first_readable} cannot be rebuilt any more",
            )

    def _rows(self, files: Mapping[str, Entry], version: Version) -> Rows:
        state = self._states[version.key]
        data = []
        for add in state.files.values():
            for name in naive.file_names(add):
                entry = files.get(name)
                if entry is None:
                    raise Violation(
                        "nothing reachable is removed",
                        f"version {version.number} names {name}, which is gone",
                    )
                data.append(entry.data)
        memo = (version.key, tuple(data))
        rows = self._rows_memo.get(memo)
        if rows is None:
            rows = self._rows_memo[memo] = self._read_rows(files, state)
        return rows

    def _read_rows(self, files: Mapping[str, Entry], state: TableState) -> Rows:
        paths = [path for path, _ in state.files]
        if len(set(paths)) != len(paths):
            raise Violation("ConsistentRead", "a file is live twice")
        found: list[Any] = []
        for add in state.files.values():
            stored = self._read_stored(files[naive.file_names(add)[0]].data)
            vector = add.get("deletionVector")
            gone = naive.deleted_positions(vector, self._reader(files)) if vector else frozenset()
            _check_statistics(add, stored)
            part = tuple(sorted(add["partitionValues"].items()))
            found += [_row(row, part) for at, row in enumerate(stored) if at not in gone]
        return tuple(sorted(found))

    def _read_stored(self, data: int) -> list[dict[str, Any]]:
        if data not in self._stored:
            self._stored[data] = naive.stored_rows(self._worlds.data(data))
        return self._stored[data]

    # -- from one version to the next -----------------------------------------------------------

    def _check_step(self, previous: Version, version: Version, before: Rows, rows: Rows) -> None:
        memo = (previous.key, version.key, before, rows)
        if memo in self._steps_checked:
            return
        self._steps_checked.add(memo)
        self._check_times(previous, version)
        owner = owner_of(_info(version).get("txnId", ""))
        if owner is None:
            return
        program = self._programs[owner]
        if rows != program.effect(before):
            raise Violation(
                "ConsistentRead",
                f"version {version.number}, by {program.name}, is not what it says: "
                f"{len(before)} rows before, {len(rows)} after",
            )
        protocol = self._states[previous.key].protocol or {}
        if UNKNOWN_FEATURE in protocol.get("writerFeatures", ()):
            raise Violation(
                "no commit beyond the protocol", f"version {version.number}, by {program.name}"
            )
        if program.real:
            self._check_rearrangement(previous, version)

    def _check_times(self, previous: Version, version: Version) -> None:
        older, newer = (_info(v).get("inCommitTimestamp") for v in (previous, version))
        if older is not None and newer is not None and older >= newer:
            raise Violation("times ascend", f"version {version.number} is not younger than before")

    def _check_rearrangement(self, previous: Version, version: Version) -> None:
        before = self._states[previous.key]
        for action in version.actions:
            for kind in action.keys() & {"add", "remove"}:
                body = action[kind]
                if body.get("dataChange", True):
                    raise Violation("a rearrangement says so", f"{body['path']}: dataChange")
            if "add" in action and "baseRowId" in action["add"]:
                domain = before.domains["delta.rowTracking"]
                mark = json.loads(domain["configuration"])["rowIdHighWaterMark"]
                if action["add"]["baseRowId"] <= mark:
                    raise Violation("row ids are fresh", f"version {version.number}")

    # -- retention and hint ---------------------------------------------------------------------

    def _check_tombstones(self, files: Mapping[str, Entry], last: Version) -> None:
        """What was removed a short while ago stays for readers of older versions."""
        for remove in self._states[last.key].tombstones.values():
            for name in naive.file_names(remove):
                young = remove.get("deletionTimestamp", 0) > self._promise.removed_after_ms
                if young and name not in files:
                    raise Violation("nothing reachable is removed", f"{name} was just removed")

    def _check_hint(self, files: Mapping[str, Entry]) -> None:
        entry = files.get(_HINT)
        if entry is None:
            return
        version = int(json.loads(self._worlds.data(entry.data))["version"])
        newest = max(naive.checkpoint_names(files), default=-1)
        if version > newest:
            raise Violation(
                "a hint follows its checkpoint", f"it names {version}, the newest is {newest}"
            )

    def _check_items(self, files: Mapping[str, Entry]) -> None:
        """A commit has the content of its item, and is there once the item says so."""
        for item in naive.items(files, self._worlds.data):
            stored = files.get(item.commit)
            if stored is None:
                if item.complete and item.version not in _cleaned_up(files):
                    raise Violation("an item tells the truth", f"{item.commit} is not there")
            elif item.temporary in files and files[item.temporary].data != stored.data:
                raise Violation(
                    "one winner per version", f"{item.commit} is not what its item names"
                )

    def _decided(self, files: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """With the commits that are won, and that the next one who lists the log will finish."""
        found = dict(files)
        for item in naive.items(files, self._worlds.data):
            if item.commit not in files and item.version not in _cleaned_up(files):
                if item.temporary not in files:
                    raise Violation("an item tells the truth", f"{item.temporary} is gone")
                found[item.commit] = files[item.temporary]
        return found

    # -- where somebody, or everybody, has ended ------------------------------------------------

    def finished(self, world: int, program: int, outcome: Outcome) -> None:
        who = self._programs[program].name
        if outcome.kind == "broken":
            raise Violation("no unforeseen error", f"{who}: {outcome.value}")
        files = self._worlds.files(world)
        mine = self._commits_of(files, program)
        lost = set(outcome.versions) - mine - _cleaned_up(files)
        if lost and outcome.kind == "done":
            raise Violation("an acknowledged commit stays", f"{who}: {sorted(lost)}")
        if outcome.kind == "read":
            self._check_read(files, outcome)

    def _check_read(self, files: Mapping[str, Entry], outcome: Outcome) -> None:
        (number,) = outcome.versions
        for version in self._versions(files):
            if version.number == number and self._rows(files, version) != outcome.value:
                raise Violation("ConsistentRead", f"a reader saw other rows in version {number}")

    def end(self, state: State) -> None:
        files = self._decided(self._worlds.files(state.world))
        for number, program in enumerate(self._programs):
            outcome = state.nodes[number].outcome
            mine = self._commits_of(files, number)
            if len(mine) > program.max_commits:
                raise Violation("a commit appears at most once", f"{program.name}: {sorted(mine)}")
            if outcome is None:
                continue
            self._check_refusal(state, program, outcome)
            if outcome.kind == "unknown" or not program.counted:
                continue
            if mine - set(outcome.versions):
                raise Violation(
                    "what was not acknowledged is not there",
                    f"{program.name} ended with {outcome.kind}, and yet {sorted(mine)} is its",
                )
        self._check_orphans(state, files)

    @staticmethod
    def _check_refusal(state: State, program: Program, outcome: Outcome) -> None:
        """Only the protocol is a reason to give up, unless something went wrong but a crash."""
        if state.faults > state.dead.bit_count() or outcome.kind not in ("refused", "unknown"):
            return
        reason = str(outcome.value)
        if not reason.startswith("UNSUPPORTED_FEATURE"):
            rule = "who crashed stops nobody" if state.dead else "no false alarm"
            raise Violation(rule, f"{program.name} ended with {outcome.kind}: {reason}")

    def _commits_of(self, files: Mapping[str, Entry], program: int) -> set[int]:
        found = set()
        for version, name in naive.commit_names(files).items():
            data = files[name].data
            if data not in self._parsed:
                self._parsed[data] = naive.parse_lines(self._worlds.data(data))
            info = _info(Version(version, 0, self._parsed[data]))
            if owner_of(info.get("txnId", "")) == program:
                found.add(version)
        return found

    def _check_orphans(self, state: State, files: Mapping[str, Entry]) -> None:
        orphans = self._orphans(files)
        for name in orphans:
            owner = owner_of(name)
            outcome = None if owner is None else state.nodes[owner].outcome
            if owner is None or not (
                state.faulty >> owner & 1 or (outcome is not None and outcome.kind == "unknown")
            ):
                raise Violation("nobody leaves files behind", name)
        if orphans and self._recover is not None and orphans not in self._recovered:
            self._recovered.add(orphans)
            recovered = self._recover(state.world)
            if recovered is not None:
                self._check_recovery(recovered, files)

    def _check_recovery(self, world: int, before: Mapping[str, Entry]) -> None:
        after = self._worlds.files(world)
        left = self._orphans(after)
        if left:
            raise Violation("the next vacuum removes what is left", ", ".join(sorted(left)))
        old, new = self._versions(before)[-1], self._versions(after)[-1]
        if self._rows(before, old) != self._rows(after, new):
            raise Violation("the next vacuum removes what is left", "and rows besides")

    def _orphans(self, files: Mapping[str, Entry]) -> frozenset[str]:
        named = set(self._promise.orphans)
        for version in self._versions(files):
            for action in version.actions:
                for body in (action.get("add"), action.get("remove")):
                    named.update([] if body is None else naive.file_names(body))
            for state in (self._states[version.key],):
                for body in (*state.files.values(), *state.tombstones.values()):
                    named.update(naive.file_names(body))
        return frozenset(n for n in files if not n.startswith(("_", ".", ITEMS))) - named


def _row(row: Mapping[str, Any], partition: Sequence[tuple[str, Any]]) -> Rows:
    """A row without nulls (a column added later is null, or not there) and hidden columns."""
    shown = ((k, v) for k, v in row.items() if v is not None and not k.startswith("_"))
    return (*sorted(shown), *partition)


def _info(version: Version) -> Action:
    for action in version.actions:
        if "commitInfo" in action:
            body: Action = action["commitInfo"]
            return body
    return {}


def _cleaned_up(files: Mapping[str, Entry]) -> set[int]:
    return set(range(min(naive.commit_names(files), default=0)))


def _facts(state: TableState) -> Any:
    """What a checkpoint must keep of a version."""
    kept = ("path", "partitionValues", "size", "baseRowId", "defaultRowCommitVersion", "tags")
    return (
        {key: [add.get(k) or None for k in kept] for key, add in state.files.items()},
        (state.metadata or {})["id"],
        (state.metadata or {})["schemaString"],
        (state.metadata or {}).get("configuration") or {},
        {k: sorted(v) if isinstance(v, list) else v for k, v in (state.protocol or {}).items()},
        {app: txn["version"] for app, txn in state.txns.items()},
        {name: domain["configuration"] for name, domain in state.domains.items()},
    )


def _check_statistics(add: Action, stored: Sequence[Mapping[str, Any]]) -> None:
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    if stats.get("numRecords", len(stored)) != len(stored):
        raise Violation("statistics are true", f"{add['path']}: numRecords")
    for column, wrong in _bounds(stats, stored):
        if wrong:
            raise Violation("statistics are true", f"{add['path']}: {column}")


def _bounds(
    stats: Mapping[str, Any], stored: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, bool]]:
    for column, least in stats.get("minValues", {}).items():
        yield column, any(row[column] is not None and row[column] < least for row in stored)
    for column, most in stats.get("maxValues", {}).items():
        yield column, any(row[column] is not None and row[column] > most for row in stored)
    for column, nulls in stats.get("nullCount", {}).items():
        yield column, nulls != sum(1 for row in stored if row[column] is None)
