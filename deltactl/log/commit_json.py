"""Commits, compacted files and JSON checkpoints to columns.

The fast path parses many files at once with Arrow's JSON reader under an explicit schema; where
that fails, or meets what it cannot express, the same rows are read line by line with the json
module, which also names the file and the line of an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltactl.errors import CorruptLogError
from deltactl.log.file_actions import adds_from_struct, removes_from_struct
from deltactl.protocol.actions import (
    DELETION_VECTOR_JSON_NAMES,
    DELETION_VECTOR_TYPE,
    STRING_MAP,
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    parse_domain_metadata,
    parse_metadata,
    parse_protocol,
    parse_txn,
)

_BLOCK_BYTES = 4 << 20
_CHUNK_BYTES = 64 << 20
_SINGLETONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")


@dataclass(slots=True)
class ParsedActions:
    """Actions of one or more log files, in log order.

    ``adds`` and ``removes`` carry a ``seq`` column: the place of the row in the whole reading,
    ascending with age, so that the greatest ``seq`` of a key is the newest word on it.
    """

    adds: pa.Table
    removes: pa.Table
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    sidecars: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class LogFile:
    """A log file's name and content."""

    name: str
    data: bytes
    # A compacted file should hold one word on each key. Those that hold several are written
    # newest first, and readers built on the Delta kernel take the first.
    newest_first: bool = False


class CommitParser:
    """Parses log files in ascending order, handed over in any number of calls."""

    def __init__(self, partition_keys: Iterable[str] = ()) -> None:
        """``partition_keys``: physical names of partition columns known from a checkpoint."""
        self._partition_keys = set(partition_keys)
        self._rows_seen = 0

    def parse(self, files: Iterable[LogFile]) -> Iterator[ParsedActions]:
        """Parse files in chunks of bounded bytes.

        Raises:
            CorruptLogError: an empty file, a line that is not an action; names file and line.
        """
        chunk: list[LogFile] = []
        size = 0
        for file in files:
            if not file.data.strip():
                raise CorruptLogError(
                    f"{file.name} is empty: a torn write, or the content was lost",
                    hint="Restore the file from a backup.",
                )
            if chunk and file.newest_first:
                yield self._parse_chunk(chunk)
                chunk, size = [], 0
            chunk.append(file)
            size += len(file.data)
            if size >= _CHUNK_BYTES or file.newest_first:
                yield self._parse_chunk(chunk)
                chunk, size = [], 0
        if chunk:
            yield self._parse_chunk(chunk)

    def _parse_chunk(self, files: Sequence[LogFile]) -> ParsedActions:
        self._learn_partition_keys(files)
        keys = sorted(self._partition_keys)
        joined = b"".join(f.data if f.data.endswith(b"\n") else f.data + b"\n" for f in files)
        try:
            table = _read_json(joined, keys)
        except pa.ArrowException:
            return self._finish(_read_lines(files), None, files[0].newest_first)
        if _has_tags(table):
            return self._finish(_read_lines(files), None, files[0].newest_first)
        return self._finish(table, _LineIndex(joined), files[0].newest_first)

    def _learn_partition_keys(self, files: Sequence[LogFile]) -> None:
        for file in files:
            if b'"metaData"' not in file.data:
                continue
            for number, line in enumerate(file.data.splitlines(), 1):
                if b'"metaData"' in line:
                    action = _parse_line(file.name, number, line)
                    if isinstance(node := action.get("metaData"), dict):
                        metadata = _parse_named(file.name, number, parse_metadata, node)
                        self._partition_keys |= {f.physical_name for f in metadata.partition_fields}

    def _finish(
        self, table: pa.Table, lines: _LineIndex | None, newest_first: bool
    ) -> ParsedActions:
        base, self._rows_seen = self._rows_seen, self._rows_seen + table.num_rows
        seq = np.arange(base, self._rows_seen, dtype=np.int64)
        if newest_first:
            seq = seq[::-1]
        parsed = ParsedActions(
            adds=_select(table, "add", seq, adds_from_struct),
            removes=_select(table, "remove", seq, removes_from_struct),
        )
        nodes = list(_singleton_rows(table, lines))
        for node in reversed(nodes) if newest_first else nodes:
            _apply_singleton(parsed, node)
        return parsed


class _LineIndex:
    """Finds the n-th non-blank line of a buffer; the index is built on first use."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._lines: list[tuple[int, int]] | None = None
        self._ends: np.ndarray[Any, Any] | None = None

    def line(self, row: int) -> bytes:
        if self._ends is None:
            ends = np.flatnonzero(np.frombuffer(self._data, dtype=np.uint8) == ord("\n"))
            starts = np.concatenate(([0], ends[:-1] + 1))
            blank = ends - starts <= 1
            for index in np.flatnonzero(blank):
                blank[index] = not self._data[starts[index] : ends[index]].strip()
            self._starts, self._ends = starts[~blank], ends[~blank]
        return self._data[self._starts[row] : self._ends[row]]


def _deletion_vector_json_type() -> pa.DataType:
    return pa.struct(
        [
            (name, DELETION_VECTOR_TYPE.field(index).type)
            for index, name in enumerate(DELETION_VECTOR_JSON_NAMES)
        ]
    )


def _json_schema(partition_keys: Sequence[str]) -> pa.Schema:
    shared = [
        ("path", pa.string()),
        ("partitionValues", pa.struct([(key, pa.string()) for key in partition_keys])),
        ("size", pa.int64()),
        ("stats", pa.string()),
        # An empty struct: only tells whether tags are there; their keys are free.
        ("tags", pa.struct([])),
        ("deletionVector", _deletion_vector_json_type()),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("dataChange", pa.bool_()),
    ]
    add = [*shared, ("modificationTime", pa.int64()), ("clusteringProvider", pa.string())]
    remove = [*shared, ("deletionTimestamp", pa.int64()), ("extendedFileMetadata", pa.bool_())]
    present = [(name, pa.struct([])) for name in _SINGLETONS]
    return pa.schema([("add", pa.struct(add)), ("remove", pa.struct(remove)), *present])


def _read_json(data: bytes, partition_keys: Sequence[str]) -> pa.Table:
    options = pj.ParseOptions(
        explicit_schema=_json_schema(partition_keys), unexpected_field_behavior="ignore"
    )
    try:
        return _read_blocks(data, options, _BLOCK_BYTES)
    except pa.ArrowInvalid as error:
        # A line longer than a block: read it as one block.
        if "straddl" not in str(error) or len(data) <= _BLOCK_BYTES:
            raise
        return _read_blocks(data, options, len(data) + 1)


def _read_blocks(data: bytes, options: pj.ParseOptions, block_bytes: int) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(block_size=block_bytes, use_threads=True),
        parse_options=options,
    )


def _has_tags(table: pa.Table) -> bool:
    for name in ("add", "remove"):
        tags = pc.struct_field(table[name], "tags")
        if tags.null_count < len(tags):
            return True
    return False


def _select(table: pa.Table, name: str, seq: np.ndarray[Any, Any], convert: Any) -> pa.Table:
    column = table[name]
    if column.null_count:
        valid = column.is_valid()
        column, seq = column.filter(valid), seq[valid.to_numpy()]
    return convert(column).append_column("seq", pa.array(seq))


def _singleton_rows(table: pa.Table, lines: _LineIndex | None) -> Iterator[dict[str, Any]]:
    """The singleton actions of a chunk in order, as JSON objects."""
    masks = [pc.is_valid(table[name]) for name in _SINGLETONS]
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.or_(mask, other)
    for row in pc.indices_nonzero(mask).to_pylist():
        if lines is None:
            yield {
                name: json.loads(value)
                for name in _SINGLETONS
                if (value := table[name][row].as_py()) is not None
            }
        else:
            yield json.loads(lines.line(row))


def _apply_singleton(parsed: ParsedActions, node: dict[str, Any]) -> None:
    try:
        if (protocol := node.get("protocol")) is not None:
            parsed.protocol = parse_protocol(protocol)
        if (metadata := node.get("metaData")) is not None:
            parsed.metadata = parse_metadata(metadata)
        if (txn := node.get("txn")) is not None:
            parsed.txns[txn["appId"]] = parse_txn(txn)
        if (domain := node.get("domainMetadata")) is not None:
            parsed.domains[domain["domain"]] = parse_domain_metadata(domain)
        if (sidecar := node.get("sidecar")) is not None:
            parsed.sidecars.append(sidecar)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLogError(f"a log action is malformed: {json.dumps(node)[:200]}") from error


def _parse_line(name: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        action = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptLogError(
            f"{name}, line {number}: not valid JSON ({error})",
            hint="The file is torn or was edited; restore it from a backup.",
        ) from error
    if not isinstance(action, dict):
        raise CorruptLogError(f"{name}, line {number}: not a JSON object")
    return action


def _parse_named(name: str, number: int, parse: Any, node: dict[str, Any]) -> Any:
    try:
        return parse(node)
    except CorruptLogError as error:
        raise CorruptLogError(f"{name}, line {number}: {error.message}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLogError(f"{name}, line {number}: malformed action ({error!r})") from error


_SLOW_TYPES = {
    "path": pa.string(),
    "partitionValues": STRING_MAP,
    "size": pa.int64(),
    "stats": pa.string(),
    "tags": STRING_MAP,
    "deletionVector": _deletion_vector_json_type(),
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
    "dataChange": pa.bool_(),
    "modificationTime": pa.int64(),
    "clusteringProvider": pa.string(),
    "deletionTimestamp": pa.int64(),
    "extendedFileMetadata": pa.bool_(),
}


def _read_lines(files: Sequence[LogFile]) -> pa.Table:
    """The slow path: every line through the json module, maps as maps."""
    file_type = pa.struct(list(_SLOW_TYPES.items()))
    parts: dict[str, list[pa.Array]] = {"add": [], "remove": [], **{n: [] for n in _SINGLETONS}}
    for file in files:
        rows: dict[str, list[Any]] = {name: [] for name in parts}
        for number, line in enumerate(file.data.splitlines(), 1):
            if not line.strip():
                continue
            action = _parse_line(file.name, number, line)
            for name, values in rows.items():
                values.append(_slow_value(file.name, number, name, action.get(name)))
        for name, values in rows.items():
            kind = file_type if name in ("add", "remove") else pa.string()
            try:
                parts[name].append(pa.array(values, kind))
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise CorruptLogError(f"{file.name}: malformed {name} action ({error})") from error
    return pa.table({name: pa.chunked_array(arrays) for name, arrays in parts.items()})


def _slow_value(file_name: str, number: int, name: str, node: Any) -> Any:
    if node is None:
        return None
    if not isinstance(node, dict):
        raise CorruptLogError(f"{file_name}, line {number}: {name} is not an object")
    if name not in ("add", "remove"):
        return json.dumps(node)
    try:
        return {key: _coerce(kind, node.get(key)) for key, kind in _SLOW_TYPES.items()}
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CorruptLogError(
            f"{file_name}, line {number}: malformed {name} action ({error})"
        ) from error


def _coerce(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if kind == STRING_MAP:
        return [(str(k), None if v is None else _as_text(v)) for k, v in value.items()]
    if pa.types.is_integer(kind):
        number = int(value)
        if number != float(value):
            raise ValueError(f"{value!r} is not a whole number")
        return number
    if pa.types.is_boolean(kind) and not isinstance(value, bool):
        raise ValueError(f"{value!r} is not a boolean")
    if pa.types.is_struct(kind):
        return {f.name: _coerce(f.type, value.get(f.name)) for f in kind}
    return _as_text(value) if pa.types.is_string(kind) else value


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)
