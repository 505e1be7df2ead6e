"""A plain reader of Delta logs, and nothing of deltactl."""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.support import table_values
from tests.support.table_builder import from_z85
from tests.world.spaces import Entry, Space

LOG = "_delta_log"
COMMIT = re.compile(rf"(?:^|/){LOG}/(\d{{20}})\.json$")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_ABSOLUTE = re.compile(r"[a-z]+:/")

Row = tuple[int, str | None]
Action = dict[str, Any]


def value_of(number: int) -> str:
    """What the column ``v`` has beside an id."""
    return f"v{number:06}"


class UnreadableError(Exception):
    """A version cannot be read; says why."""


@dataclass
class State(table_values.State):
    """A version; within a commit, the order of actions means nothing."""

    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        super().apply(sorted(filter(None, actions), key=lambda action: "add" in action))

    def copy(self) -> State:
        return replace(
            self, files=dict(self.files), tombstones=dict(self.tombstones), txns=dict(self.txns)
        )

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.metadata.get("configuration") or {})


class Reader:
    """Reads tables of a space; remembers what it parsed.

    ``locate`` gives the path where a file is by now that a log names with an absolute address.
    """

    def __init__(self, space: Space, locate: Callable[[str], str]) -> None:
        self._space, self._locate = space, locate
        self._parsed: dict[object, list[Action]] = {}
        self._rows: dict[object, list[int]] = {}

    def commits(self, place: str) -> dict[int, Entry]:
        """The commits that are there, by version."""
        return self._listing(place)[0]

    def commit(self, place: str, version: int) -> list[Action]:
        path = f"{place}/{LOG}/{version:020d}.json"
        entry = self._space.entry(path)
        if entry is None:
            raise UnreadableError(f"{path} is gone")
        return self._parse(path, entry)

    def time(self, place: str, version: int) -> int | None:
        """The in-commit timestamp of a version; ``None`` if it has none."""
        if version not in self.commits(place):
            return None
        infos = (action.get("commitInfo", {}) for action in self.commit(place, version))
        return next((info.get("inCommitTimestamp") for info in infos if info), None)

    def states(self, place: str) -> dict[int, State]:
        """All versions that can be rebuilt, each from the newest checkpoint at or below it."""
        commits, checkpoints = self._listing(place)
        found: dict[int, State] = {}
        for version in sorted({*commits, *checkpoints}):
            state = None
            if version in checkpoints:
                state = State()
                name = f"{place}/{LOG}/{version:020d}.checkpoint.parquet"
                state.apply(self._parse(name, checkpoints[version]))
            elif version == 0 or version - 1 in found:
                state = found[version - 1].copy() if version else State()
                name = f"{place}/{LOG}/{version:020d}.json"
                state.apply(self._parse(name, commits[version]))
            if state is not None:
                state.version = version
                found[version] = state
        return found

    def latest(self, place: str) -> State:
        """The newest version.

        Raises:
            UnreadableError: it cannot be rebuilt.
        """
        commits, checkpoints = self._listing(place)
        states = self.states(place)
        newest = max([*commits, *checkpoints], default=-1)
        if newest not in states:
            raise UnreadableError(f"version {newest} of {place} cannot be rebuilt")
        return states[newest]

    def _listing(self, place: str) -> tuple[dict[int, Entry], dict[int, Entry]]:
        commits, checkpoints = {}, {}
        for name, entry in self._space.files(f"{place}/{LOG}").items():
            if name.endswith(".json") and len(name) == 25:
                commits[int(name[:20])] = entry
            elif match := _CHECKPOINT.fullmatch(name):
                checkpoints[int(match[1])] = entry
        return commits, checkpoints

    def _parse(self, path: str, entry: Entry) -> list[Action]:
        found = self._parsed.get(entry.ident)
        if found is None:
            data = self._space.read(path)
            found = _parse_json(data) if path.endswith(".json") else list(_parse_parquet(data))
            self._parsed[entry.ident] = found
        return found

    def file_path(self, place: str, text: str) -> str:
        """Where the file is that an action names."""
        name = unquote(text)
        return self._locate(name) if _ABSOLUTE.match(name) else f"{place}/{name}"

    def vector_path(self, place: str, vector: Action) -> str | None:
        """Where the file of a deletion vector is; ``None`` if it is inline."""
        text = vector["pathOrInlineDv"]
        match vector["storageType"]:
            case "u":
                name = f"deletion_vector_{uuid.UUID(bytes=from_z85(text[-20:]))}.bin"
                return f"{place}/{text[:-20]}/{name}" if text[:-20] else f"{place}/{name}"
            case "p":
                return self.file_path(place, text)
        return None

    def paths(self, place: str, state: State) -> set[str]:
        """All files that a version needs."""
        return {path for add in state.files.values() for path in self.paths_of(place, add)}

    def named(self, place: str, state: State) -> set[str]:
        """All files that a version needs, and those of its tombstones."""
        bodies = [*state.files.values(), *state.tombstones.values()]
        return {path for body in bodies for path in self.paths_of(place, body)}

    def all_named(self, place: str) -> set[str]:
        """All files in the commits that are there, and in the newest version."""
        found = self.named(place, self.latest(place))
        for version in self.commits(place):
            for action in self.commit(place, version):
                for body in (action.get("add"), action.get("remove")):
                    found |= self.paths_of(place, body) if body else set()
        return found

    def paths_of(self, place: str, add: Action) -> set[str]:
        """A data file, and that of its deletion vector."""
        vector = add.get("deletionVector")
        path = self.vector_path(place, vector) if vector else None
        return {self.file_path(place, add["path"])} | ({path} if path else set())

    def forget(self, path: str) -> None:
        """Read a file again that was replaced: the file system may use its number again."""
        entry = self._space.entry(path)
        if entry is not None:
            self._rows.pop(entry.ident, None)
            self._parsed.pop(entry.ident, None)

    def rows_of(self, path: str) -> list[int]:
        """The ids in a data file."""
        entry = self._space.entry(path)
        if entry is None:
            raise UnreadableError(f"{path} is gone")
        found = self._rows.get(entry.ident)
        if found is None:
            try:
                file = pq.ParquetFile(io.BytesIO(self._space.read(path)))
                table = file.read(columns=["id", "v"], use_threads=False)
            except Exception as error:
                raise UnreadableError(f"{path}: {error}") from error
            found = self._rows[entry.ident] = table["id"].to_pylist()
            if table["v"].to_pylist() != [value_of(n) for n in found]:
                raise UnreadableError(f"{path} has values that nobody wrote")
        return found

    def rows(self, place: str, state: State, lost: frozenset[str] = frozenset()) -> list[Row]:
        """The rows of a version, sorted; files that are ``lost`` have none.

        Raises:
            UnreadableError: a file is missing.
        """
        found: list[Row] = []
        for add in state.files.values():
            path = self.file_path(place, add["path"])
            vector = add.get("deletionVector")
            if path in lost or (vector and self.vector_path(place, vector) in lost):
                continue
            found += self.rows_of_add(place, add)
        return sorted(found, key=repr)

    def rows_of_add(self, place: str, add: Action) -> list[Row]:
        """The rows of a live file, without those that its deletion vector deletes."""
        gone = self._deleted(place, add.get("deletionVector"))
        value = (add.get("partitionValues") or {}).get("p")
        ids = self.rows_of(self.file_path(place, add["path"]))
        return [(n, value) for at, n in enumerate(ids) if at not in gone]

    def _deleted(self, place: str, vector: Action | None) -> BitMap64:
        if not vector:
            return BitMap64()
        path = self.vector_path(place, vector)
        if path is None or self._space.entry(path) is None:
            raise UnreadableError(f"the deletion vector {path} is gone")
        start = vector.get("offset", 0) + 4
        data = self._space.read(path)[start : start + vector["sizeInBytes"]]
        return BitMap64.deserialize(data[4:])


def _parse_json(data: bytes) -> list[Action]:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def _parse_parquet(data: bytes) -> Iterator[Action]:
    names = ("txn", "add", "remove", "metaData", "protocol", "domainMetadata")
    file = pq.ParquetFile(io.BytesIO(data))
    chosen = [name for name in names if name in file.schema_arrow.names]
    for row in file.read(columns=chosen, use_threads=False).to_pylist(maps_as_pydicts="strict"):
        yield {name: body for name, body in row.items() if body is not None}
