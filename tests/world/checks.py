"""Compare a world with what is known of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.histories.readers import _read_delta_rs, _read_duckdb
from tests.world.model import Landed, Model, Table, Version, original
from tests.world.reader import State, UnreadableError
from tests.world.spaces import Disk
from tests.world.upkeep import DAY_MS, interval_ms

if TYPE_CHECKING:
    from tests.world.world import World


class Checks:
    """What must hold after each step."""

    def __init__(self, world: World, model: Model) -> None:
        self._world, self._model = world, model

    def check(self) -> None:
        """Compare everything with what is there."""
        self._model.expire()
        for place, table in self._model.tables.items():
            self._check_table(place, table)
        self._check_landed()
        self._check_quarantined()

    def ask_others(self) -> None:
        """Compare the latest versions with what DuckDB and delta-rs read of them on a disk."""
        world = self._world
        for place, table in self._model.tables.items():
            wanted = table.versions[table.latest].rows
            for name, read in (("DuckDB", _read_duckdb), ("delta-rs", _read_delta_rs)):
                if table.lost or place in world.shallow or not isinstance(world.space, Disk):
                    continue
                found = read(Path(world.space.root, place)).to_pydict()
                values = found.get("p") or [None] * len(found["id"])
                rows = sorted(zip(found["id"], values, strict=True), key=repr)
                if rows != list(wanted):
                    world.fail(f"rows that {name} reads", f"{place}: {len(rows)}, {len(wanted)}")

    def _check_table(self, place: str, table: Table) -> None:
        world = self._world
        states = world.reader.states(place)
        newest = max(world.reader.commits(place), default=-1)
        if newest != table.latest:
            world.fail("commit gone", f"{place} is at version {newest}, not {table.latest}")
            return
        if unknown := {*table.recorded, table.latest} - set(states):
            which = "latest" if table.latest in unknown else "retained"
            world.fail(f"{which} version cannot be rebuilt", f"{max(unknown)} of {place}")
            return
        for version in sorted({*table.promised, table.latest}, reverse=True):
            which = "latest version" if version == table.latest else "retained version"
            self._check_rows(which, place, states[version], table.versions[version])
            self._check_tombstones(
                place, states[version], states[table.latest], table.versions[version]
            )
        there, known = states[table.latest].txns, self._txns(table)
        wrong = {a for a in known if there.get(a, {}).get("version") != known[a]}
        if wrong:
            world.fail("transaction forgotten", f"{sorted(wrong)[0]} of {place}")

    def _check_tombstones(self, place: str, state: State, latest: State, facts: Version) -> None:
        """Others who vacuum know by tombstones which files earlier versions need."""
        world, table = self._world, self._model.tables[place]
        since_ms = world.now_ms - table.file_retention_ms + self._model.slack_ms
        if facts.replaced_ms is None or facts.replaced_ms < since_ms:
            return
        unknown = world.reader.paths(place, state) - world.reader.named(place, latest)
        if unknown:
            world.fail("tombstone forgotten", f"{min(unknown)}, version {state.version}")

    def _txns(self, table: Table) -> dict[str, int]:
        """The transactions that no retention allows to forget."""
        name = "delta.setTransactionRetentionDuration"
        kept_ms = interval_ms(table.properties, name, 10_000 * DAY_MS)
        since_ms = self._world.now_ms - kept_ms + self._model.slack_ms
        return {app: v for app, (v, ms) in table.txns.items() if ms >= since_ms}

    def _check_rows(self, which: str, place: str, state: State, facts: Version) -> None:
        world, table = self._world, self._model.tables[place]
        if missing := self._model.missing(place, state):
            world.fail(f"file of {which} gone", f"{min(missing)}, version {state.version}")
            return
        try:
            rows = world.reader.rows(place, state, frozenset(table.lost))
        except UnreadableError as error:
            world.fail(f"{which} cannot be read", f"{error}, version {state.version}")
            return
        if tuple(rows) != facts.rows:
            more = [row for row in rows if row not in facts.rows][:3]
            less = [row for row in facts.rows if row not in rows][:3]
            detail = f"{len(rows)}, not {len(facts.rows)}: also {more}, without {less}"
            world.fail(f"rows of {which}", f"{place} version {state.version}: {detail}")
        if world.now_ms - facts.committed_ms <= table.file_retention_ms - self._model.slack_ms:
            gone = [path for path in facts.feed - table.lost if world.space.entry(path) is None]
            if gone:
                world.fail("change data gone", f"{min(gone)}, version {state.version}")

    def _check_landed(self) -> None:
        world = self._world
        for path, facts in list(self._model.landed.items()):
            entry = world.space.entry(path)
            if entry is not None and entry.ident == facts.ident:
                continue
            # A move of another link to the file dates it anew.
            if entry is not None and world.space.read(path) == facts.content:
                continue
            place = path.partition("/")[0]
            if entry is None and self._may_go(place, facts):
                del self._model.landed[path]
                continue
            what = "is gone" if entry is None else "was changed"
            world.fail("landed file gone", f"{path} {what}")

    def _check_quarantined(self) -> None:
        world = self._world
        for path, until_ms in list(self._model.quarantined.items()):
            if world.space.entry(path) is None:
                del self._model.quarantined[path]
                if world.now_ms < until_ms and world.space.entry(original(path)) is None:
                    world.fail("quarantined file gone", path)

    def _may_go(self, place: str, facts: Landed) -> bool:
        table = self._model.tables.get(place)
        if table is None or table.is_converted or not facts.like_delta:
            return False
        if table.taken_in and table.taken_in & self._world.reader.all_named(place):
            return False
        age_ms = self._world.now_ms - facts.modified_ms
        return age_ms > table.file_retention_ms - self._model.slack_ms
