"""A reader that shares no code with the one under test: JSON, dictionaries, and Arrow's Parquet."""

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.explorer.world import CATALOG, COMMIT, ITEMS, LOG, Entry
from tests.support.table_builder import Action, State, from_z85

_CHECKPOINT = re.compile(
    rf"{LOG}/(\d{{20}})\.checkpoint(\.[0-9a-f-]{{36}}\.(json|parquet)|\.parquet)"
)
SIDECARS = f"{LOG}/_sidecars"
STAGED = f"{LOG}/_staged_commits"
_MAPS = ("partitionValues", "tags", "configuration", "options")

Read = Callable[[str], bytes]
Row = tuple[Any, ...]


def commit_names(names: Iterable[str]) -> dict[int, str]:
    """Commits by version."""
    found = ((COMMIT.fullmatch(name), name) for name in names)
    return {int(match[1]): name for match, name in found if match}


def checkpoint_names(files: Mapping[str, Entry] | Iterable[str]) -> dict[int, list[str]]:
    """Checkpoints of one top file by version."""
    found: dict[int, list[str]] = {}
    for name in sorted(files):
        match = _CHECKPOINT.fullmatch(name)
        if match:
            found.setdefault(int(match[1]), []).append(name)
    return found


class Item(NamedTuple):
    """An entry in DynamoDB: who won a commit. Names as a world has them."""

    version: int
    commit: str
    temporary: str
    complete: bool


def items(files: Mapping[str, Entry], data: Callable[[int], bytes]) -> Iterator[Item]:
    """All entries of a world."""
    for name, entry in files.items():
        if name.startswith(ITEMS):
            body = {key: value.get("S") for key, value in json.loads(data(entry.data)).items()}
            commit = f"{LOG}/{body['fileName']}"
            match = COMMIT.fullmatch(commit)
            assert match
            complete = body["complete"] == "true"
            yield Item(int(match[1]), commit, f"{LOG}/{body['tempPath']}", complete)


class Ratified(NamedTuple):
    """A commit that a catalog ratified. Names as a world has them.

    It is ``reported`` when the catalog was told that it is published.
    """

    version: int
    commit: str
    staged: str
    reported: bool


def ratified(files: Mapping[str, Entry], data: Callable[[int], bytes]) -> list[Ratified]:
    """All commits that the catalog of a world ratified, in order."""
    entry = files.get(CATALOG)
    if entry is None:
        return []
    known = json.loads(data(entry.data))
    return [
        Ratified(
            it["version"],
            f"{LOG}/{it['version']:020d}.json",
            f"{STAGED}/{it['name']}",
            it["version"] <= known["reported"],
        )
        for it in known["commits"]
    ]


def parse_lines(data: bytes) -> list[Action]:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def read_checkpoint(name: str, read: Read) -> State:
    """What a checkpoint says, its sidecars included."""
    state = State()
    for action in _checkpoint_actions(name, read):
        state.apply([action])
    match = _CHECKPOINT.fullmatch(name)
    assert match
    state.version = int(match[1])
    return state


def sidecars_of(name: str, read: Read) -> frozenset[str]:
    """The names of the sidecars of a checkpoint."""
    found = (action["sidecar"] for action in _top_actions(name, read) if "sidecar" in action)
    return frozenset(f"{SIDECARS}/{body['path']}" for body in found)


def _top_actions(name: str, read: Read) -> Iterable[Action]:
    data = read(name)
    return parse_lines(data) if name.endswith(".json") else _parquet_actions(data)


def _checkpoint_actions(name: str, read: Read) -> Iterator[Action]:
    for action in _top_actions(name, read):
        if "sidecar" in action:
            yield from _parquet_actions(read(f"{SIDECARS}/{action['sidecar']['path']}"))
        elif "checkpointMetadata" not in action:
            yield action


def _parquet_actions(data: bytes) -> Iterator[Action]:
    for row in pq.read_table(pa.BufferReader(data)).to_pylist():
        for name, body in row.items():
            if body is not None:
                yield {name: _plain(body)}


def _plain(body: Any) -> Any:
    """Maps as dictionaries, absent members left out."""
    if not isinstance(body, dict):
        return body
    return {
        key: dict(value) if key in _MAPS and isinstance(value, list) else _plain(value)
        for key, value in body.items()
        if value is not None
    }


def copy_state(state: State) -> State:
    return State(
        state.version,
        state.protocol,
        state.metadata,
        dict(state.files),
        dict(state.tombstones),
        dict(state.txns),
        dict(state.domains),
    )


def load(names: Iterable[str], read: Read) -> State:
    """The latest version that the names given make up.

    Raises:
        ValueError: the commits have a gap.
    """
    listed = list(names)
    commits, checkpoints = commit_names(listed), checkpoint_names(listed)
    state = read_checkpoint(checkpoints[max(checkpoints)][0], read) if checkpoints else State()
    for version in sorted(v for v in commits if v > state.version):
        if version != state.version + 1:
            raise ValueError(f"version {state.version + 1} is missing below {version}")
        state.apply(parse_lines(read(commits[version])))
    return state


def vector_name(vector: Mapping[str, Any]) -> str | None:
    """The file of a deletion vector kept beside the data; ``None`` for one in the log."""
    if vector["storageType"] == "i":
        return None
    if vector["storageType"] == "p":
        return unquote(vector["pathOrInlineDv"])
    raw = from_z85(vector["pathOrInlineDv"][-20:])
    return f"deletion_vector_{UUID(bytes=raw)}.bin"


def file_names(action: Mapping[str, Any]) -> list[str]:
    """Names of the data file of an add or remove, and of its deletion vector."""
    vector = action.get("deletionVector")
    name = None if vector is None else vector_name(vector)
    return [unquote(action["path"]), *([] if name is None else [name])]


def deleted_positions(vector: Mapping[str, Any], read: Read) -> frozenset[int]:
    name = vector_name(vector)
    if name is None:
        payload = from_z85(vector["pathOrInlineDv"])[: vector["sizeInBytes"]]
    else:
        data, offset = read(name), vector.get("offset") or 0
        (size,) = struct.unpack_from(">i", data, offset)
        payload = data[offset + 4 : offset + 4 + size]
    return frozenset(BitMap64.deserialize(payload[4:]))


def stored_rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of a data file, deleted ones included."""
    rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(data)).to_pylist()
    return rows
