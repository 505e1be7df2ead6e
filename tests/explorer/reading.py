"""What a world says of the table: its versions, their state and their rows.

By a naive reader, with a memory of what was read already: worlds share nearly everything.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.explorer import naive
from tests.explorer.programs import owner_of
from tests.explorer.world import Entry, Violation, Worlds
from tests.support.table_builder import Action
from tests.support.table_builder import State as TableState

Rows = tuple[Any, ...]


@dataclass(frozen=True)
class Version:
    """A version as a world holds it; ``key`` is equal where all below it is."""

    number: int
    key: int
    actions: Sequence[Action]


class Reading:
    """Reads worlds; equal parts of them once.

    A checkpoint may leave out what was removed at ``removed_after_ms`` or before. Files that are
    ``lost`` have no rows.
    """

    def __init__(
        self, worlds: Worlds, removed_after_ms: int, lost: frozenset[str] = frozenset()
    ) -> None:
        self._worlds, self._removed_after_ms, self._lost = worlds, removed_after_ms, lost
        self._states: list[TableState] = [TableState()]
        self._keys: dict[tuple[int, int], int] = {}
        self._parsed: dict[int, list[Action]] = {}
        self._of_checkpoint: dict[tuple[Any, ...], int] = {}
        self._compared: set[tuple[Any, ...]] = set()
        self._rows_memo: dict[tuple[int, tuple[int, ...]], Rows] = {}
        self._sidecars: dict[int, frozenset[str]] = {}
        self._stored: dict[int, list[dict[str, Any]]] = {}

    def state(self, version: Version) -> TableState:
        """What is live in a version."""
        return self._states[version.key]

    def versions(self, files: Mapping[str, Entry]) -> list[Version]:
        """Every version from the oldest that can be rebuilt; checkpoints agree with commits.

        Raises:
            Violation: they do not, or a file that is needed is gone.
        """
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
                raise Violation("nothing reachable is removed", f"{name} does not exist")
            return self._worlds.data(entry.data)

        return read

    def _checkpoint_identity(self, files: Mapping[str, Entry], name: str) -> tuple[Any, ...]:
        folder = f"{naive.SIDECARS}/"
        sidecars = sorted((n, e.data) for n, e in files.items() if n.startswith(folder))
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
        oldest = self._removed_after_ms
        if _facts(found, oldest) != _facts(wanted, oldest):
            raise Violation("a checkpoint changes no row", f"{name} differs from its version")
        self._compared.add(identity)

    def unnamed_sidecars(self, files: Mapping[str, Entry]) -> frozenset[str]:
        """Sidecars that no checkpoint has."""
        there = frozenset(name for name in files if name.startswith(f"{naive.SIDECARS}/"))
        if not there:
            return there
        read = self._reader(files)
        for names in naive.checkpoint_names(files).values():
            for name in names:
                data = files[name].data
                if data not in self._sidecars:
                    self._sidecars[data] = naive.sidecars_of(name, read)
                there -= self._sidecars[data]
        return there

    def rows(self, files: Mapping[str, Entry], version: Version) -> Rows:
        """The rows of a version, sorted; statistics have to be true of them.

        Raises:
            Violation: a file is gone, or live twice, or its statistics are wrong.
        """
        state = self._states[version.key]
        data = []
        for add in state.files.values():
            for name in naive.file_names(add):
                entry = files.get(name)
                if entry is None and name in self._lost:
                    continue
                if entry is None:
                    raise Violation(
                        "nothing reachable is removed",
                        f"version {version.number} references {name}, which does not exist",
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
            if naive.file_names(add)[0] in self._lost:
                continue
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

    def commits_of(self, files: Mapping[str, Entry], program: int) -> set[int]:
        """The versions that carry ids of a program."""
        found = set()
        for version, name in naive.commit_names(files).items():
            data = files[name].data
            if data not in self._parsed:
                self._parsed[data] = naive.parse_lines(self._worlds.data(data))
            info = commit_info(Version(version, 0, self._parsed[data]))
            if owner_of(info.get("txnId", "")) == program:
                found.add(version)
        return found


def _row(row: Mapping[str, Any], partition: Sequence[tuple[str, Any]]) -> Rows:
    """A row without nulls (a column added later is null, or not there) and hidden columns."""
    shown = ((k, v) for k, v in row.items() if v is not None and not k.startswith("_"))
    return (*sorted(shown), *partition)


def commit_info(version: Version) -> Action:
    """What a commit tells of itself; empty without."""
    for action in version.actions:
        if "commitInfo" in action:
            body: Action = action["commitInfo"]
            return body
    return {}


_KEPT_OF_FILES = (
    "path", "partitionValues", "size", "modificationTime", "deletionVector", "baseRowId",
    "defaultRowCommitVersion", "tags",
)  # fmt: skip
_KEPT_OF_METADATA = ("id", "name", "schemaString", "partitionColumns", "configuration")


def _facts(state: TableState, removed_after_ms: int) -> Any:
    """What a checkpoint must keep of a version."""
    metadata = state.metadata or {}
    times = {key: body.get("deletionTimestamp", 0) for key, body in state.tombstones.items()}
    return (
        {key: [add.get(k) or None for k in _KEPT_OF_FILES] for key, add in state.files.items()},
        {key: json.loads(add.get("stats") or "{}") for key, add in state.files.items()},
        {key: time for key, time in times.items() if time > removed_after_ms},
        [metadata.get(name) or None for name in _KEPT_OF_METADATA],
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
