"""Read every file in the directory of the log, of any version, as actions: for searches.

Files that no version needs are read too: staged commits, unused sidecars, incomplete checkpoints.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.errors import MALFORMED, CorruptLogError, DeltactlError
from deltactl.log.checkpoint.read import CheckpointHead, RowGroupRange, read_file_actions
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.commits.parser import CommitParser
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.actions import Metadata, parse_metadata
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, array_of
from deltactl.protocol.names import (
    LOG_DIR,
    SIDECAR_DIR,
    STAGED_COMMITS_DIR,
    TEMP_COMMITS_DIR,
    CheckpointFile,
    ChecksumFile,
    CommitFile,
    CompactedFile,
    parse_log_name,
)
from deltactl.protocol.properties import history_end_ms
from deltactl.storage.store import FileInfo, Store

LogPlace: TypeAlias = Literal["commits", "checkpoints", "checksums", "other files of the log"]

_COLUMNS: Final = ("path", "partition_values", "stats", "tags")
STORED_FILES: Final = pa.schema(
    [*(ADD_SCHEMA.field(name) for name in _COLUMNS), ("removed_ms", pa.int64()), ("of", pa.int64())]
)
"""Adds and removes: ``removed_ms`` is the time of a remove, ``of`` the index of the log file."""

# Files of versions, of writers that were interrupted, and copies of these.
_DIRECTORIES: Final = "|".join(map(re.escape, (SIDECAR_DIR, STAGED_COMMITS_DIR, TEMP_COMMITS_DIR)))
_LOG_NAME: Final = rf"{LOG_DIR}/(?:(?:{_DIRECTORIES})/[^/]*|[._][^/]*|\d{{20}}\.[^/]*)$"
# The contents of these files are in memory together.
_FILES_AT_ONCE: Final = 256
_PLACES: Final[Mapping[type, LogPlace]] = {
    CommitFile: "commits",
    CompactedFile: "commits",
    CheckpointFile: "checkpoints",
    ChecksumFile: "checksums",
}
# Lines that begin so are parsed by Arrow, many at once; all others by the json module.
_FILE_ACTIONS: Final = (b'{"add":', b'{"remove":')


@dataclass(slots=True)
class StoredActions:
    """The content of some log files: file actions, other actions with the index of their file.

    ``problems``: the errors of files that could not be read, by the index of the file.
    """

    files: Sequence[FileInfo]
    place: LogPlace
    actions: pa.Table = field(default_factory=STORED_FILES.empty_table)
    nodes: list[tuple[int, Any]] = field(default_factory=list)
    problems: dict[int, Exception] = field(default_factory=dict)


HELD: Final = 1 << 62
"""Instead of a time: until a later version exists, and perhaps longer."""

NEXT: Final = HELD + 1
"""Instead of a time: until a later version has been the latest for the retention of the log."""


def find_ends(snapshot: Snapshot, files: Sequence[FileInfo], now_ms: int) -> dict[str, int]:
    """Return until when a log cleanup keeps each file of the log: until a midnight (UTC).

    Then a later version that has a checkpoint must be as old as the retention. The latest version
    gets a checkpoint before the cleanup. Its own commit is kept until ``NEXT``, and its other files
    until ``HELD``: a new checkpoint may have the same content.
    """
    sidecars = set[str]()
    if snapshot.head is not None and snapshot.head.version == snapshot.version:
        sidecars |= {*snapshot.head.sidecars}
    kinds = [parse_log_name(it.name.rpartition("/")[2]) for it in files]
    known = list(zip(kinds, files, strict=True))
    times = {it.version: info.modified_ms for it, info in known if isinstance(it, CommitFile)}
    checkpoints = {it.version for it in kinds if isinstance(it, CheckpointFile)}
    bases = sorted(times.keys() & {snapshot.version, *checkpoints})
    ends, retention_ms = {}, snapshot.properties.log_retention_ms
    for kind, info in known:
        since_ms = info.modified_ms
        if isinstance(kind, CommitFile | CheckpointFile | ChecksumFile):
            if kind.version >= snapshot.version:
                ends[info.name] = NEXT if isinstance(kind, CommitFile) else HELD
                continue
            later = bases[bisect_right(bases, kind.version) :]
            since_ms = times[later[0]] if later else now_ms
        ends[info.name] = history_end_ms(since_ms, retention_ms)
    return ends | dict.fromkeys(sidecars, HELD)


def log_mask(names: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return which names below the root are of files of the log, and no files of a user in it."""
    return pc.match_substring_regex(names, f"^{_LOG_NAME}")


def is_of_any_log(name: str) -> bool:
    """Return whether a name is of a file of the log, or of that of a table in a subdirectory."""
    return re.search(f"(?:^|/){_LOG_NAME}", name) is not None


def read_stored_metadata(store: Store, files: Sequence[FileInfo]) -> Iterator[Metadata]:
    """Yield each ``metaData`` in the log that can be parsed; others are problems of the search."""
    for part in read_stored_actions(store, files, None):
        for _, node in part.nodes:
            found = node.get("metaData", node.get("metadata")) if isinstance(node, dict) else None
            if isinstance(found, dict):
                try:
                    yield parse_metadata(found)
                except (*MALFORMED, CorruptLogError):
                    continue


def read_stored_actions(
    store: Store, files: Sequence[FileInfo], metadata: Metadata | None
) -> Iterator[StoredActions]:
    """Read log files, some at a time, and checkpoints in batches.

    A file that cannot be read is a problem, and no error. ``metadata`` has the types of parsed
    statistics; ``None``: no file actions are read.
    """
    by_place: dict[LogPlace, list[FileInfo]] = {}
    for info in files:
        if info.name.endswith(".parquet"):
            yield from _read_parquet(store, info, metadata)
        else:
            by_place.setdefault(_place_of(info.name), []).append(info)
    for place, infos in by_place.items():
        for start in range(0, len(infos), _FILES_AT_ONCE):
            part = StoredActions(infos[start : start + _FILES_AT_ONCE], place)
            _read_json(store, part, metadata)
            yield part


def _place_of(name: str) -> LogPlace:
    directory, _, base = name.rpartition("/")
    if directory.endswith(STAGED_COMMITS_DIR):
        return "commits"
    if directory.endswith(SIDECAR_DIR):
        return "checkpoints"
    return _PLACES.get(type(parse_log_name(base)), "other files of the log")


def _read_json(store: Store, part: StoredActions, metadata: Metadata | None) -> None:
    found: list[tuple[int, CommitBytes]] = []
    for index, data in enumerate(_read_each(store, part)):
        lines: list[bytes] = []
        try:
            # A checksum is one object.
            for line in [data] if part.place == "checksums" else data.splitlines():
                if line.startswith(_FILE_ACTIONS):
                    lines.append(line)
                elif line.strip():
                    # Text that is not JSON, as of another program, is searched as it is.
                    is_text = part.place == "other files of the log" and line[:1] not in b"{["
                    node = line.decode() if is_text else json.loads(line)
                    found_lines = list(_find_files(node, line))
                    lines += found_lines
                    # A line that is itself a file action is in `actions`: do not search it twice.
                    if line not in found_lines:
                        part.nodes.append((index, node))
        except (ValueError, TypeError, RecursionError) as error:
            part.problems[index] = error
        if lines:
            found.append((index, CommitBytes(part.files[index].name, b"\n".join(lines))))
    if metadata is not None:
        part.actions = _parse_files(found, metadata.partition_keys, part.problems)


def _find_files(node: Any, line: bytes) -> Iterator[bytes]:
    """Yield the files in a line as actions: of changes, and those that a checksum lists."""
    if not isinstance(node, dict):
        return
    if isinstance(node.get("add"), dict) or isinstance(node.get("remove"), dict):
        yield line
    changes = [node.pop("cdc")] if isinstance(node.get("cdc"), dict) else []
    for file in (*changes, *(node.pop("allFiles", None) or ())):
        yield json.dumps({"add": file}).encode()


def _read_each(store: Store, part: StoredActions) -> Iterator[bytes]:
    """Yield the contents; those of a file that cannot be read are empty, and a problem."""
    names, done = [info.name for info in part.files], 0
    while done < len(names):
        try:
            # An error ends this loop, so the files after it are requested again.
            for data in store.read_many(names[done:]):
                done += 1
                yield data
        except DeltactlError as error:
            part.problems[done] = error
            done += 1
            yield b""


def _parse_files(
    files: Sequence[tuple[int, CommitBytes]], keys: Sequence[str], problems: dict[int, Exception]
) -> pa.Table:
    """Return the file actions: of all files together, or one by one if a file has an error."""
    tables, first = [STORED_FILES.empty_table()], 0
    indexes = np.array([index for index, _ in files], np.int64)
    try:
        for parsed in CommitParser(keys).parse(file for _, file in files):
            here = indexes[first : first + len(parsed.names)]
            first += len(parsed.names)
            for rows in (parsed.adds, parsed.removes):
                tables.append(_as_stored(rows, array_of(here[parsed.find_commits(rows)])))
    except CorruptLogError as error:
        if len(files) == 1:
            problems[files[0][0]] = error
            return tables[0]
        tables = [_parse_files([it], keys, problems) for it in files]
    return pa.concat_tables(tables)


def _as_stored(rows: pa.Table, of: pa.Array) -> pa.Table:
    is_remove = "deletion_timestamp_ms" in rows.column_names
    removed = rows["deletion_timestamp_ms"] if is_remove else pa.nulls(len(of), pa.int64())
    return pa.table([*(rows[name] for name in _COLUMNS), removed, of], schema=STORED_FILES)


def _read_parquet(
    store: Store, info: FileInfo, metadata: Metadata | None
) -> Iterator[StoredActions]:
    # A version is only needed in messages of errors, which are not shown: a name can have none.
    head = CheckpointHead(0, (info.name,), NonFileActions(metadata=metadata))
    # Only this file: its sidecars are files of the search too.
    ranges, others = [RowGroupRange(info.name)], StoredActions([info], "checkpoints")
    try:
        for action in ("add", "remove") if metadata is not None else ():
            columns = _COLUMNS if action == "add" else (*_COLUMNS, "deletion_timestamp_ms")
            for rows in read_file_actions(store, head, action, columns, ranges):
                of = array_of(np.zeros(rows.num_rows, np.int64))
                yield StoredActions([info], "checkpoints", _as_stored(rows, of))
        with store.open_input(info.name) as source, pq.ParquetFile(source) as parquet:
            names = [it for it in parquet.schema_arrow.names if it not in ("add", "remove")]
            for batch in parquet.iter_batches(columns=names):
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    nodes = column.drop_null().to_pylist(maps_as_pydicts="lossy")
                    others.nodes += [(0, {name: node}) for node in nodes]
    except (DeltactlError, pa.ArrowException, OSError) as error:
        others.problems[0] = error
    yield others
