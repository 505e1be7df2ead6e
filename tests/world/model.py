"""What is known: rows of each version, versions that stay readable, files that nobody may delete.

Times are true times: no clock of an actor counts. What a table promises:

- Its latest version has exactly the rows that writers gave it.
- An earlier version can be read for as long as both retentions of the table say, counted from the
  time when it was replaced. So do its change data, from its commit on.
- A file that nobody named in a log stays, unless its name is one that writers of Delta give, the
  table was never converted, and it is older than the retention.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.world.reader import LOG, Action, Row, State, UnreadableError
from tests.world.upkeep import DAY_MS, interval_ms
from tests.world.writer import TIMES, properties_of

if TYPE_CHECKING:
    from tests.world.world import Run, World

_VECTOR_FILE = re.compile(r"(?:^|/)deletion_vector_[^/]*\.bin$")


@dataclass(frozen=True)
class Version:
    """The rows of a version, when it was committed and replaced, and its files of change data."""

    rows: tuple[Row, ...]
    committed_ms: int
    replaced_ms: int | None = None
    feed: frozenset[str] = frozenset()


@dataclass
class Table:
    """All that is known of a table.

    ``promised`` are the earlier versions that must be readable; ``recorded`` those that the log
    must tell, though their files may be gone. ``unlisted_ms`` is the retention of files before the
    properties changed, if the run in progress has not listed the log since. ``taken_in`` are files
    with names of no Delta writer, which writers took in: they show, while the log names them, that
    other programs write to the directory. ``unlisted_names`` are those that the run in progress has
    not seen in the log.
    """

    versions: dict[int, Version] = field(default_factory=dict)
    promised: set[int] = field(default_factory=set)
    recorded: set[int] = field(default_factory=set)
    properties: dict[str, str] = field(default_factory=dict)
    is_converted: bool = False
    taken_in: set[str] = field(default_factory=set)
    unlisted_names: set[str] = field(default_factory=set)
    txns: dict[str, tuple[int, int]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    unlisted_ms: int | None = None

    def copy(self) -> Table:
        return replace(
            self,
            versions=dict(self.versions),
            promised=set(self.promised),
            recorded=set(self.recorded),
            txns=dict(self.txns),
            lost=set(self.lost),
            taken_in=set(self.taken_in),
            unlisted_names=set(self.unlisted_names),
        )

    @property
    def latest(self) -> int:
        return max(self.versions, default=-1)

    @property
    def file_retention_ms(self) -> int:
        return interval_ms(self.properties, "delta.deletedFileRetentionDuration", 7 * DAY_MS)

    @property
    def log_retention_ms(self) -> int:
        return interval_ms(self.properties, "delta.logRetentionDuration", 30 * DAY_MS)

    @property
    def cleans_up(self) -> bool:
        return self.properties.get("delta.enableExpiredLogCleanup", "true") == "true"


@dataclass(frozen=True)
class Landed:
    """A file that a producer landed, and that no log names."""

    ident: object
    content: bytes
    modified_ms: int
    like_delta: bool


class Model:
    """The tables by place, and single files by path."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tables: dict[str, Table] = {}
        self.landed: dict[str, Landed] = {}
        self.quarantined: dict[str, int] = {}
        self.produced: set[str] = set()
        self.rewritten: dict[int, int] = {}
        self.slack_ms = 0
        self.is_over = False
        self._announced: dict[tuple[str, int], Iterable[Row]] = {}
        self._before: dict[str, Table] = {}
        self._gone: dict[tuple[str, str], dict[int, Counter[Row]]] = {}

    def announce(self, place: str, version: int, rows: Iterable[Row]) -> None:
        """A writer of the world committed a version."""
        self._announced[place, version] = sorted(rows, key=repr)
        self.sync(place)

    def rows(self, place: str) -> tuple[Row, ...]:
        """The rows of the latest version."""
        table = self.tables[place]
        return table.versions[table.latest].rows

    def sync_all(self) -> None:
        """Take in the commits that are new in any place."""
        for place in self._world.places:
            self.sync(place)

    def sync(self, place: str) -> None:
        """Take in the commits of a place that are new."""
        commits = self._world.reader.commits(place)
        if not commits and place not in self.tables:
            return
        table = self.tables.setdefault(place, Table())
        self._take_back(place, table)
        for version in sorted(v for v in commits if v > table.latest):
            self._take(place, table, version)

    def _take(self, place: str, table: Table, version: int) -> None:
        world = self._world
        actions = world.reader.commit(place, version)
        rows = self._announced.pop((place, version), None)
        self._before[place] = table.copy()
        is_dated_early = False
        if rows is None:
            is_dated_early = world.run is not None and world.run.offset_ms < 0
            self._check_time(place, table, version, actions)
            rows = self._derive(place, table, version, actions)
        before, kept_ms = table.latest, table.file_retention_ms
        now_ms = self._date(actions)
        if before >= 0:
            replaced = table.versions[before]
            # The date of tombstones, for others who vacuum: the previous commit at the earliest.
            date_ms = replaced.committed_ms if is_dated_early else now_ms
            table.versions[before] = replace(replaced, replaced_ms=date_ms)
            table.promised.add(before)
            table.recorded.add(before)
        feed = frozenset(
            world.reader.file_path(place, action["cdc"]["path"])
            for action in actions
            if "cdc" in action
        )
        table.versions[version] = Version(tuple(rows), now_ms, feed=feed)
        self.expire()  # by the properties before
        for action in actions:
            self._note(place, table, action)
        if any("metaData" in action for action in actions):
            self._forget_feeds(table, kept_ms)
            before_ms = table.unlisted_ms
            table.unlisted_ms = kept_ms if before_ms is None else min(before_ms, kept_ms)
        if not world.runs:
            self.list_log(place)

    def list_log(self, place: str) -> None:
        """The log is listed: from now on, a run goes by the properties that it has."""
        table = self.tables.get(place)
        if table is None:
            return
        table.taken_in |= table.unlisted_names
        table.unlisted_names.clear()
        if table.unlisted_ms is not None:
            self._promise_again(place, table, table.unlisted_ms)
            table.unlisted_ms = None

    def forget_latest(self, place: str) -> None:
        """A writer is about to replace the latest commit."""
        self.tables[place] = self._before[place]

    def _check_time(self, place: str, table: Table, version: int, actions: list[Action]) -> None:
        """In-commit timestamps increase; a commit that has none is not built on."""
        if not version or properties_of(actions, table.properties).get(TIMES) != "true":
            return
        before, own = (self._world.reader.time(place, v) for v in (version - 1, version))
        is_first = table.properties.get(TIMES) != "true"
        if own is None or (own <= before if before is not None else not is_first):
            self._world.fail("in-commit timestamp", f"{place} {version}: {before}, {own}")

    def _date(self, actions: list[Action]) -> int:
        """The true time of a commit: when the run says, which may have stopped just before it."""
        run, now_ms = self._world.run, self._world.now_ms
        dated_ms = _info(actions).get("timestamp", 0) - (run.offset_ms if run else 0)
        return dated_ms if run is not None and run.began_ms <= dated_ms <= now_ms else now_ms

    def _note(self, place: str, table: Table, action: Action) -> None:
        if "metaData" in action:
            table.properties = dict(action["metaData"].get("configuration") or {})
            table.is_converted |= "deltactl.converted" in table.properties
        if "txn" in action:
            body = action["txn"]
            dated_ms = min(body["lastUpdated"], self._world.now_ms)
            table.txns[body["appId"]] = body["version"], dated_ms
        if "add" in action:
            path = self._world.reader.file_path(place, action["add"]["path"])
            named = self.landed.pop(self._world.space.actual(path), None)
            if named is not None and not named.like_delta:
                table.unlisted_names.add(path)

    def _promise_again(self, place: str, table: Table, kept_ms: int) -> None:
        """The properties changed: what is there by now stays as long as the new ones say.

        A file whose tombstone expired by the old ones, after ``kept_ms``, stays unpromised; so does
        one whose tombstone is forgotten.
        """
        reader = self._world.reader
        states = reader.states(place)
        table.recorded |= set(states) & set(table.versions) - {table.latest}
        named = reader.named(place, states[max(states)])
        whole = {
            v for v in table.recorded
            if v in states and not self.missing(place, states[v])
            and reader.paths(place, states[v]) <= named
        }  # fmt: skip
        table.promised |= self._within(table, whole, kept_ms)
        self.expire()

    def _forget_feeds(self, table: Table, kept_ms: int) -> None:
        """A longer retention does not bring back change data that expired by the one before."""
        since_ms = self._world.now_ms - kept_ms + self.slack_ms
        for version, facts in table.versions.items():
            if facts.committed_ms < since_ms:
                feed = frozenset(path for path in facts.feed if self._world.space.entry(path))
                table.versions[version] = replace(facts, feed=feed)

    def _derive(
        self, place: str, table: Table, version: int, actions: list[Action]
    ) -> Iterable[Row]:
        """The rows that a commit of deltactl must have."""
        world, run = self._world, self._world.run
        info = _info(actions)
        parameters = info.get("operationParameters", {})
        before = table.versions[table.latest].rows if table.versions else ()
        match info.get("operation"):
            case "CONVERT":
                return self._convert(place, version)
            case "CLONE":
                assert run is not None
                assert run.source is not None
                source = self.tables[run.source]
                rows = source.versions[int(parameters["sourceVersion"])].rows
                before = tuple(row for row in rows if run.where in (None, row[1]))
            case "RESTORE":
                assert run is not None
                target = int(parameters["version"])
                rows = table.versions[target].rows
                if run.ignores_missing:
                    state = world.reader.states(place).get(target, run.target)
                    rows = self._present(place, state, rows)
                if run.where is None:
                    return rows
                kept = [row for row in before if row[1] != run.where]
                return sorted([*kept, *(row for row in rows if row[1] == run.where)], key=repr)
        if run is None or not (run.lost_rows or run.changed_rows):
            return before
        # The run may have read files before others deleted them or wrote them again.
        state = world.reader.states(place)[version]
        gone = self.missing(place, state) | table.lost
        found = world.reader.rows(place, state, frozenset(gone))
        before = tuple(_as_read(row, run.changed_rows, {*found}) for row in before)
        more = Counter(found) - Counter(before)
        read_before = (row for row in more.elements() if row in run.lost_rows)
        return sorted([*before, *read_before], key=repr)

    def _convert(self, place: str, version: int) -> Iterable[Row]:
        world, run = self._world, self._world.run
        state = world.reader.states(place)[version]
        named = {name.removeprefix(f"{place}/") for name in world.reader.paths(place, state)}
        files = world.space.files(place)
        if vectors := [name for name in files if _VECTOR_FILE.search(name)]:
            world.fail("deleted rows came back", f"{place} was converted, and has {vectors[0]}")
        if run is not None and (left := sorted(run.listed - named)):
            world.fail("convert left a file out", f"{place}/{left[0]}")
        for add in state.files.values():
            self._check_statistics(place, add)
        try:
            return world.reader.rows(place, state)
        except UnreadableError:
            if place not in world.copies:
                raise
            # A copy can have the wrong output of a run that refused it later.
            self.is_over = True
            return ()

    def _check_statistics(self, place: str, add: Action) -> None:
        """Readers skip a file by its statistics: they must be those of its content.

        But if it was written again after the last look, nobody could know.
        """
        run = self._world.run
        path = self._world.reader.file_path(place, add["path"])
        entry, stats = self._world.space.entry(path), json.loads(add.get("stats") or "{}")
        if entry is None or (run is not None and entry.modified_ms > run.looked_ms):
            return
        ids = self._world.reader.rows_of(path)
        found = {"numRecords": len(ids), "minValues": min(ids), "maxValues": max(ids)}
        said = {name: stats.get(name) for name in found}
        said |= {name: stats.get(name, {}).get("id") for name in ("minValues", "maxValues")}
        if said != found or add["size"] != entry.size:
            self._world.fail("statistics of another content", f"{path}: {said}, not {found}")

    def _present(self, place: str, state: State | None, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """The rows of a version without those of files that are missing now."""
        if state is None:
            return rows
        gone = self.missing(place, state) | self.tables[place].lost
        return tuple(self._world.reader.rows(place, state, frozenset(gone)))

    def lose(self, path: str, spared: str | None = None) -> None:
        """Others delete a file: its rows are gone from all tables, but the one that is spared."""
        # It may have come back from a quarantine.
        self.quarantined = {q: ms for q, ms in self.quarantined.items() if original(q) != path}
        for place in set(self.tables) - {spared}:
            for name in self._names_of(place, path):
                before = dict(self.tables[place].versions)
                self._change_rows(place, name, {})
                self.tables[place].lost.add(name)
                after = self.tables[place].versions
                self._gone[place, name] = {
                    version: Counter(facts.rows) - Counter(after[version].rows)
                    for version, facts in before.items()
                }

    def _take_back(self, place: str, table: Table) -> None:
        """A lost file may be there again: a sync of a clone copies it a second time.

        Versions that were committed without its rows may name it too.
        """
        for path in [path for path in table.lost if self._world.space.entry(path)]:
            table.lost.remove(path)
            gone = self._gone.pop((place, path), {})
            for version, facts in table.versions.items():
                state = self._world.reader.states(place).get(version)
                names_it = state is not None and path in self._world.reader.paths(place, state)
                rows = gone.get(version, gone[max(gone)] if gone and names_it else Counter())
                both = tuple(sorted([*facts.rows, *rows.elements()], key=repr))
                table.versions[version] = replace(facts, rows=both)

    def change_rows(self, path: str, changed: dict[int, int]) -> None:
        """The rows of a file change, outside of the log."""
        self.rewritten |= changed
        for place in self.tables:
            for name in self._names_of(place, path):
                self._change_rows(place, name, changed)

    def follow_rewrites(self, place: str) -> None:
        """A sync may have replaced copies whose originals were written again, in all versions.

        Shallow clones may have the same files, and copies of directories those of half a sync.
        """
        for table in {place, *self._world.shallow, *self._world.copies} & self.tables.keys():
            self._follow_rewrites(table)

    def _follow_rewrites(self, place: str) -> None:
        reader, table = self._world.reader, self.tables[place]
        for version, state in reader.states(place).items():
            facts, gone = table.versions.get(version), self.missing(place, state) | table.lost
            if facts is not None:
                found = {*reader.rows(place, state, frozenset(gone))}
                rows = tuple(sorted((self.as_copied(row, found) for row in facts.rows), key=repr))
                table.versions[version] = replace(facts, rows=rows)

    def as_copied(self, row: Row, found: set[Row]) -> Row:
        number, value = row
        while (number, value) not in found and number in self.rewritten:
            number = self.rewritten[number]
        return number, value

    def _names_of(self, place: str, path: str) -> set[str]:
        """The file as a table names it: in other case, where case is folded."""
        reader, space = self._world.reader, self._world.space
        states = reader.states(place).values() if space.folds else ()
        needed = {name for state in states for name in reader.paths(place, state)}
        return {path} | {name for name in needed if space.actual(name) == path}

    def _change_rows(self, place: str, path: str, changed: dict[int, int]) -> None:
        """Those that have no new id are gone."""
        world, reader, table = self._world, self._world.reader, self.tables[place]
        for version, state in reader.states(place).items():
            if version not in table.versions:
                continue
            for add in state.files.values():
                if path not in reader.paths_of(place, add):
                    continue
                rows = Counter(table.versions[version].rows)
                # A table that was made of the files of another may have a row in several files.
                here = rows & Counter(self._rows_of(place, add))
                rows -= here
                for run in world.runs:
                    run.lost_rows |= {row for row in here if row[0] not in changed}
                    run.changed_rows |= {(changed[n], p): (n, p) for n, p in here if n in changed}
                kept = [(changed[n], p) for n, p in here.elements() if n in changed]
                new = tuple(sorted([*rows.elements(), *kept], key=repr))
                table.versions[version] = replace(table.versions[version], rows=new)

    def _rows_of(self, place: str, add: Action) -> list[Row]:
        try:
            return self._world.reader.rows_of_add(place, add)
        except UnreadableError:  # others deleted it, or its deletion vector
            return []

    def move(self, place: str, target: str) -> None:
        """A place has another address from now on."""
        if place in self.tables:
            self.tables[target] = _moved_table(self.tables.pop(place), place, target)
        for other in self.tables.values():
            other.lost = {_moved(path, place, target) for path in other.lost}
        self._gone = {
            (target if at == place else at, _moved(path, place, target)): rows
            for (at, path), rows in self._gone.items()
        }
        self.landed = {_moved(p, place, target): it for p, it in self.landed.items()}
        self.quarantined = {_moved(p, place, target): it for p, it in self.quarantined.items()}
        self.produced = {_moved(path, place, target) for path in self.produced}

    def copy(self, place: str, target: str, *, with_log: bool) -> None:
        """A place was copied: the copy must hold the same."""
        if with_log and place in self.tables:
            self.tables[target] = _moved_table(self.tables[place], place, target)
        for path, facts in list(self.landed.items()):
            moved = _moved(path, place, target)
            entry = self._world.space.entry(moved)
            if moved != path and entry is not None:
                self.landed[moved] = replace(facts, ident=entry.ident)

    def expire(self) -> None:
        """Forget what was promised until now."""
        for table in self.tables.values():
            if table.cleans_up:
                table.recorded = self._within(table, table.recorded, table.log_retention_ms)
            kept = self._within(table, table.promised, table.file_retention_ms)
            table.promised = kept & table.recorded

    def accept_reported(self, text: str) -> None:
        """A run failed and named missing files: others deleted them in the middle of its commit.

        Or it could not look for them.
        """
        for place, table in self.tables.items():
            states = self._world.reader.states(place)
            for version in table.versions.keys() & states.keys():
                for path in self.missing(place, states[version]):
                    if path.rpartition("/")[2] in text or "it is not known whether" in text:
                        self.is_over = True

    def accept_killed(self, run: Run) -> None:
        """A run was killed after its commit, and cannot say what another vacuum took before."""
        spelled = str.casefold if self._world.space.folds else str
        vacuumed = {spelled(path) for path in run.vacuumed}
        for place, table in self.tables.items():
            states = self._world.reader.states(place)
            for version in table.versions.keys() & states.keys():
                is_own = f"{place}/{LOG}/{version:020d}.json" in run.commits
                missing = {spelled(path) for path in self.missing(place, states[version])}
                if is_own and missing & vacuumed:
                    self.is_over = True

    def allow_cleanup(self, planned: Mapping[str, int] | None = None) -> dict[str, int]:
        """Somebody asks for a cleanup, whatever the table says of cleanups by themselves.

        ``planned`` are the retentions when the run began, which it may have gone by. Give those of
        now.
        """
        now = {place: table.log_retention_ms for place, table in self.tables.items()}
        for place, table in self.tables.items():
            kept_ms = min(now[place], (planned or now).get(place, now[place]))
            table.recorded = self._within(table, table.recorded, kept_ms)
        return now

    def missing(self, place: str, state: State) -> set[str]:
        """The files of a version that are not there, but those that others deleted."""
        paths = self._world.reader.paths(place, state) - self.tables[place].lost
        return {path for path in paths if self._world.space.entry(path) is None}

    def _within(self, table: Table, versions: set[int], kept_ms: int) -> set[int]:
        """Those of the versions that were replaced no longer ago."""
        since_ms = self._world.now_ms - kept_ms + self.slack_ms
        chosen = {version: table.versions[version].replaced_ms for version in versions}
        return {version for version, ms in chosen.items() if ms is None or ms >= since_ms}


def original(quarantined: str) -> str:
    """Where a file in quarantine was before."""
    return (
        quarantined.split("/_deltactl/quarantine/", maxsplit=1)[0]
        + "/"
        + quarantined.split("/", 4)[4]
    )


def _info(actions: list[Action]) -> Action:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _as_read(row: Row, changed: dict[Row, Row], found: set[Row]) -> Row:
    """What a run read of a row before it changed, if that is what it wrote."""
    while row not in found and row in changed:
        row = changed[row]
    return row


def _moved_table(table: Table, place: str, target: str) -> Table:
    table = deepcopy(table)
    for version, facts in table.versions.items():
        feed = frozenset(_moved(path, place, target) for path in facts.feed)
        table.versions[version] = replace(facts, feed=feed)
    table.lost |= {_moved(path, place, target) for path in table.lost}
    table.taken_in |= {_moved(path, place, target) for path in table.taken_in}
    table.unlisted_names |= {_moved(path, place, target) for path in table.unlisted_names}
    return table


def _moved(path: str, place: str, target: str) -> str:
    return target + path[len(place) :] if path.startswith(f"{place}/") else path
