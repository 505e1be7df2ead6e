"""Parse commits, log compaction files and JSON checkpoints to columns.

Normally, Arrow's JSON reader parses many files at once. If it fails, or cannot represent the JSON,
the json module reads the same lines one by one. Its errors contain the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, DeltactlError
from deltactl.log.commits.columns import (
    FILE_ACTIONS,
    NON_FILE_ACTIONS,
    CommitLines,
    read_actions,
    read_others,
)
from deltactl.log.commits.contents import EMPTY, CommitBytes, unreadable
from deltactl.log.commits.file_actions import adds_from_struct, removes_from_struct
from deltactl.log.commits.json_lines import (
    find_partition_keys,
    keys_of_nodes,
    list_key_sets,
    read_lines,
)
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.threads import count_threads
from deltactl.numpy_types import Flags, Integers
from deltactl.protocol.arrow_schemas import array_of, flags_of
from deltactl.storage.parallel import each_in_parallel

__all__ = ["CommitParser", "ParsedActions"]

# The C library gives blocks of 32 MiB and more back to the kernel at once. With such blocks, each
# chunk would cause page faults again.
_CHUNK_BYTES = 8 << 20
_THREADED_BYTES: Final = 64 << 20  # several threads parse a chunk of one large file


@dataclass(slots=True)
class ParsedActions:
    """Actions of one or more log files, in log order.

    ``adds`` and ``removes`` have a column ``seq``: the index of the row among all rows that were
    read, in log order. So the action with the greatest ``seq`` of a key is the latest. ``names``
    are the files; ``ends`` has, for each file, the index of the row after its last row.
    """

    adds: pa.Table
    removes: pa.Table
    names: Sequence[str]
    ends: Integers
    non_file_actions: NonFileActions = field(default_factory=NonFileActions)
    sidecars: list[dict[str, Any]] = field(default_factory=list)

    def find_commits(self, files: pa.Table) -> Integers:
        """Return, for each row of ``adds`` or ``removes``, the index in ``names`` of its file."""
        commits: Integers = np.searchsorted(self.ends, files["seq"].to_numpy(), side="right")
        return commits


@dataclass(slots=True)
class _Rows:
    """A chunk after reading: file actions with line indexes, non-file actions as objects."""

    ends: Integers
    adds: tuple[pa.ChunkedArray, Integers]
    removes: tuple[pa.ChunkedArray, Integers]
    nodes: list[dict[str, Any]]
    keys: frozenset[str]


class CommitParser:
    """Parse log files in ascending order. ``parse`` may be called several times."""

    def __init__(self, partition_keys: Iterable[str] = ()) -> None:
        """Take the physical names of partition columns that are known from a checkpoint."""
        self._partition_keys = frozenset(partition_keys)
        self._rows_seen = 0

    def parse(self, files: Iterable[CommitBytes]) -> Iterator[ParsedActions]:
        """Parse files in chunks of bounded bytes, a few chunks at the same time.

        Raises:
            CorruptLogError: a file is empty, has bytes that are not UTF-8, or has a line that is
                not an action. The message has the file and the line.
        """
        chunks = _split(files)
        # The first chunk usually has the metaData. The other chunks need its partition columns.
        for first in islice(chunks, 1):
            yield self._parse_chunk(first)
        # No threads for a log of one chunk.
        second = list(islice(chunks, 1))
        if second:
            yield from self._parse_in_threads(chain(second, chunks))

    def _parse_in_threads(self, chunks: Iterable[Sequence[CommitBytes]]) -> Iterator[ParsedActions]:
        """Parse the next chunks while earlier ones are used. Results and errors are in order."""
        failures: list[DeltactlError] = []
        # One thread for each chunk: with two, Arrow needs a fifth more processor time.
        work = ((files, self._partition_keys) for files in _until_failure(chunks, failures))
        for files, keys, rows in each_in_parallel(self._try_columns, work, at_once=count_threads()):
            # An earlier chunk may have been parsed with other partition columns.
            yield self._parse_chunk(files, rows if keys == self._partition_keys else None)
        if failures:
            raise failures[0]

    def _try_columns(
        self, work: tuple[Sequence[CommitBytes], frozenset[str]]
    ) -> tuple[Sequence[CommitBytes], frozenset[str], _Rows | None]:
        """Return a chunk, the given partition columns, and the rows if there is no error."""
        try:
            return *work, self._read_columns(*work, alone=False)
        # The chunk is parsed again when it is its turn, and its error is raised then.
        except (pa.ArrowException, ValueError, RecursionError, CorruptLogError):
            return *work, None

    def _parse_chunk(
        self, files: Sequence[CommitBytes], read: _Rows | None = None
    ) -> ParsedActions:
        seen = self._rows_seen
        try:
            try:
                rows = read or self._read_columns(files, self._partition_keys)
                self._partition_keys = rows.keys
            except (pa.ArrowException, ValueError, RecursionError):
                self._partition_keys |= find_partition_keys(files)
                rows = _rows_of_table(read_lines(files))
            return self._finish(rows, files)
        except CorruptLogError as error:
            # The search for the invalid file parses the same files again.
            self._rows_seen = seen
            raise self._find_invalid_file(files, error) from error

    def _find_invalid_file(
        self, files: Sequence[CommitBytes], error: CorruptLogError
    ) -> CorruptLogError:
        """Parse one file after the other until one is invalid; return its error."""
        # The error already has the file.
        if any(error.message.startswith(file.name) for file in files):
            return error
        for file in files if len(files) > 1 else ():
            try:
                self._parse_chunk([file])
            except CorruptLogError as named:
                return named
        return CorruptLogError(f"{files[0].name}: {error.message}", hint=error.hint)

    def _read_columns(
        self, files: Sequence[CommitBytes], keys: frozenset[str], *, alone: bool = True
    ) -> _Rows:
        lines = CommitLines([file.data for file in files])
        use_threads = alone or sum(len(file.data) for file in files) > _THREADED_BYTES
        others = read_others(lines, use_threads=use_threads)
        places = lines.places("other")[_non_file_mask(others)]
        nodes = [json.loads(lines.line(place)) for place in places.tolist()]
        keys |= keys_of_nodes(files, nodes)
        removes, keys = self._read_actions(lines, "remove", keys, use_threads)
        adds, keys = self._read_actions(lines, "add", keys, use_threads)
        add_rows, remove_rows = (adds, lines.places("add")), (removes, lines.places("remove"))
        return _Rows(lines.ends_of_contents(), add_rows, remove_rows, nodes, keys)

    def _read_actions(
        self, lines: CommitLines, kind: str, keys: frozenset[str], use_threads: bool
    ) -> tuple[pa.ChunkedArray, frozenset[str]]:
        try:
            return read_actions(lines, kind, sorted(keys), use_threads=use_threads), keys
        except pa.ArrowException:
            # With column mapping: if a schema does not have the column, it does not have its
            # physical name.
            unknown = frozenset().union(*list_key_sets(lines.take(kind))) - keys
            if not unknown:
                raise
        keys |= unknown
        return read_actions(lines, kind, sorted(keys), use_threads=use_threads), keys

    def _finish(self, rows: _Rows, files: Sequence[CommitBytes]) -> ParsedActions:
        base, newest_first = self._rows_seen, files[0].newest_first
        ends = base + rows.ends
        self._rows_seen = int(ends[-1])
        last = self._rows_seen - 1

        def select(
            found: tuple[pa.ChunkedArray, Integers], convert: Callable[[pa.ChunkedArray], pa.Table]
        ) -> pa.Table:
            seq = last - found[1] if newest_first else base + found[1]
            return convert(found[0]).append_column("seq", array_of(seq))

        parsed = ParsedActions(
            adds=select(rows.adds, adds_from_struct),
            removes=select(rows.removes, removes_from_struct),
            names=[file.name for file in files],
            ends=ends,
        )
        # The action that is applied last counts, so the newest comes last.
        for node in reversed(rows.nodes) if newest_first else rows.nodes:
            parsed.non_file_actions.apply(node)
            if isinstance(sidecar := node.get("sidecar"), dict):
                parsed.sidecars.append(sidecar)
        return parsed


def _split(files: Iterable[CommitBytes]) -> Iterator[list[CommitBytes]]:
    """Yield files in chunks. A log compaction file is always the only file."""
    chunk: list[CommitBytes] = []
    size = 0
    for file in files:
        if file.data.isspace() or not file.data:
            raise unreadable(file.name, EMPTY)
        _ensure_utf8(file)
        chunk.append(file)
        size += len(file.data)
        if size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _until_failure(
    chunks: Iterable[Sequence[CommitBytes]], failures: list[DeltactlError]
) -> Iterator[Sequence[CommitBytes]]:
    """Yield chunks. If one cannot be read, keep its error until the chunks before it are used."""
    try:
        yield from chunks
    except DeltactlError as error:
        failures.append(error)


def _ensure_utf8(file: CommitBytes) -> None:
    """Raise an error for bytes that are not UTF-8: Arrow's reader would accept them in strings."""
    # Nearly all commits are, and this check is much faster than to decode them.
    if file.data.isascii():
        return
    try:
        file.data.decode()
    except UnicodeDecodeError as error:
        number = file.data.count(b"\n", 0, error.start) + 1
        raise unreadable(file.name, f", line {number}: not UTF-8 ({error.reason})") from error


def _rows_of_table(table: pa.Table) -> _Rows:
    """Return the rows of lines that the json module parsed: one row per line."""
    files = []
    for kind in FILE_ACTIONS:
        valid = table[kind].is_valid()
        files.append((table[kind].filter(valid), np.flatnonzero(valid.to_numpy())))
    non_file_actions = table.select(NON_FILE_ACTIONS).filter(array_of(_non_file_mask(table)))
    nodes = [
        {name: json.loads(text) for name, text in row.items() if text is not None}
        for row in non_file_actions.to_pylist()
    ]
    ends = np.cumsum([len(chunk) for chunk in table.column(0).chunks])
    return _Rows(ends, files[0], files[1], nodes, frozenset())


def _non_file_mask(rows: pa.Table) -> Flags:
    mask = np.zeros(rows.num_rows, np.bool_)
    for name in NON_FILE_ACTIONS:
        mask |= flags_of(pc.is_valid(rows[name]))
    return mask
