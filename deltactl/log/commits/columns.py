"""Parse lines of log files to columns with Arrow's JSON reader, with an explicit schema.

Errors of Arrow contain neither file nor line, and Arrow cannot represent all JSON. So after a
``pa.ArrowException``, the caller reads the same lines again with
:mod:`deltactl.log.commits.json_lines`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltactl.numpy_types import Bytes, Integers
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_JSON_TYPE, empty_table, flags_of

NON_FILE_ACTIONS = (
    "protocol",
    "metaData",
    "txn",
    "domainMetadata",
    "sidecar",
    "checkpointMetadata",
)
FILE_ACTIONS = ("add", "remove")
# Replay does not need these actions. But a line that has one of them must not have another action
# too.
_NOTES = ("cdc", "commitInfo")
ACTIONS = (*FILE_ACTIONS, *NON_FILE_ACTIONS, *_NOTES)

_BLOCK_BYTES = 4 << 20
_FEW_BYTES = 256 << 10  # for less data, threads cost more time than they save
_PRESENT = pa.struct([])  # the code needs to know whether it is present, but not its content
MEMBERS = {
    "path": pa.string(),
    "size": pa.int64(),
    "stats": pa.string(),
    "deletionVector": DELETION_VECTOR_JSON_TYPE,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
    "dataChange": pa.bool_(),
    "modificationTime": pa.int64(),
    "clusteringProvider": pa.string(),
    "deletionTimestamp": pa.int64(),
    "extendedFileMetadata": pa.bool_(),
}
_OTHERS = pa.schema([(name, _PRESENT) for name in ACTIONS])

_NEWLINE = ord("\n")
_PREFIXES = {"add": b'{"add":', "remove": b'{"remove":'}
_KINDS = ("other", *_PREFIXES)


def read_others(lines: CommitLines, *, use_threads: bool) -> pa.Table:
    """Return the actions of all lines that do not begin as an add or a remove, one row per line.

    Raises:
        pa.ArrowException: Arrow cannot read the lines with this schema.
    """
    # If a block begins with a JSON null, the process ends inside Arrow (26.0), and any line may be
    # the first of a block. Lines of the other kinds do not begin with null.
    if not lines.are_objects("other"):
        raise pa.ArrowInvalid("a line that does not begin as an object does")
    rows = _read(
        lines.take("other"), lines, len(lines.places("other")), _OTHERS, use_threads=use_threads
    )
    _ensure_none(rows.select(FILE_ACTIONS))
    if find_shared_rows(rows.columns).size:
        raise pa.ArrowInvalid("a line with several actions")
    return rows


def find_shared_rows(columns: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.intp]:
    """Return the rows in which more than one column is valid; each column is a kind of action."""
    counts = np.zeros(len(columns[0]) if columns else 0, np.int8)
    for column in columns:
        if column.null_count < len(column):
            counts += flags_of(pc.is_valid(column))
    return np.flatnonzero(counts > 1)


def read_actions(
    lines: CommitLines, kind: str, keys: Sequence[str], *, use_threads: bool
) -> pa.ChunkedArray:
    """Return the file actions of a kind as structs without nulls.

    ``keys`` are the keys of partition values. All actions must have the tags of the first one.

    Raises:
        pa.ArrowException: Arrow cannot read the lines, or a line has a member that is not known.
        ValueError, RecursionError: the first line is not JSON, or is nested too deep.
    """
    places = lines.places(kind)
    first = json.loads(lines.line(places[0]))[kind] if len(places) else None
    given = first.get("tags") if isinstance(first, dict) else None
    tags = _strings(list(given) if isinstance(given, dict) else [])
    members = {**MEMBERS, "partitionValues": _strings(keys), "tags": tags}
    schema = pa.schema([(kind, pa.struct(list(members.items())))])
    # A member that is not in the schema may be a partition value or a tag, which must not be lost.
    rows = _read(
        lines.take(kind), lines, len(places), schema, unexpected="error", use_threads=use_threads
    )
    structs = rows[kind]
    found = pc.struct_field(structs, "tags")
    for index in range(tags.num_fields):
        # In the columns, an absent tag cannot be distinguished from a null tag.
        if _count_valid(pc.struct_field(found, index)) < _count_valid(found):
            raise pa.ArrowInvalid("tags differ from line to line")
    if structs.null_count:
        raise pa.ArrowInvalid(f"an {kind} that is null")
    return structs


def _strings(names: Sequence[str]) -> pa.DataType:
    return pa.struct([(name, pa.string()) for name in names])


def _count_valid(column: pa.ChunkedArray) -> int:
    return len(column) - int(column.null_count)


def _ensure_none(others: pa.Table) -> None:
    for name in others.column_names:
        if _count_valid(others[name]):
            raise pa.ArrowInvalid(f"an {name} that is not the only action of its line")


def _read(
    data: bytes,
    lines: CommitLines,
    num_rows: int,
    schema: pa.Schema,
    *,
    unexpected: str = "ignore",
    use_threads: bool,
) -> pa.Table:
    if not num_rows:
        return empty_table(schema)
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(
            # Arrow fails if a line is longer than a block (ADR 2).
            block_size=max(_BLOCK_BYTES, lines.longest() + 1),
            use_threads=use_threads and len(data) > _FEW_BYTES,
        ),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        memory_pool=pa.system_memory_pool(),
    )
    # Arrow also accepts several objects on one line, which other readers do not.
    if table.num_rows != num_rows:
        raise pa.ArrowInvalid(f"{num_rows} lines have {table.num_rows} objects")
    return table


class CommitLines:
    """The lines of some log files in order, without blank lines.

    Nearly all lines of a log add or remove a file. If each kind is parsed separately, columns have
    no nulls and a small schema is enough, which halves the work.
    """

    def __init__(self, contents: Sequence[bytes]) -> None:
        # The last element adds bytes after the end, so that a comparison with a short line does not
        # read beyond the end.
        padding = b"\n" * max(map(len, _PREFIXES.values()))
        self._next_files = np.cumsum([len(content) + 1 for content in contents])
        self._data = bytearray(b"\n").join([*contents, padding])
        view = np.frombuffer(self._data, np.uint8)
        ends = np.flatnonzero(view == _NEWLINE)
        starts = np.concatenate(([0], ends[:-1] + 1))
        blank = ends == starts
        # No action is that short. Such lines may be blank, for example with CRLF line ends.
        for index in np.flatnonzero(~blank & (ends - starts < len(b'{"add":{}}'))):
            blank[index] = not self._data[starts[index] : ends[index]].strip()
        self._starts: Integers = starts[~blank]
        self._ends: Integers = ends[~blank]
        self._kinds = self._find_kinds(view)

    def __len__(self) -> int:
        return len(self._starts)

    def _find_kinds(self, view: Bytes) -> npt.NDArray[np.int8]:
        kinds = np.zeros(len(self), np.int8)
        for number, prefix in enumerate(_PREFIXES.values(), 1):
            found = np.arange(len(self))
            for place, byte in enumerate(prefix):
                found = found[view[self._starts[found] + place] == byte]
            kinds[found] = number
        return kinds

    def ends_of_contents(self) -> Integers:
        """Return, for each log file, the index of the line after its last line."""
        return np.searchsorted(self._starts, self._next_files)

    def places(self, kind: str) -> Integers:
        """Return the indexes of lines of a kind (``add``, ``remove`` or ``other``), in order."""
        found: Integers = np.flatnonzero(self._kinds == _KINDS.index(kind))
        return found

    def line(self, place: int) -> bytes:
        """Return the text of the line at an index."""
        return bytes(self._data[self._starts[place] : self._ends[place]])

    def longest(self) -> int:
        """Return the length of the longest line in bytes."""
        return int((self._ends - self._starts).max(initial=0))

    def are_objects(self, kind: str) -> bool:
        """Return whether each line of a kind has the first byte of a JSON object."""
        view = np.frombuffer(self._data, np.uint8)
        return bool((view[self._starts[self.places(kind)]] == ord("{")).all())

    def take(self, kind: str) -> bytes:
        """Return the lines of a kind in a new buffer."""
        # Adjacent lines are copied together.
        is_kind = np.concatenate(([False], self._kinds == _KINDS.index(kind), [False]))
        edges = np.flatnonzero(is_kind[1:] != is_kind[:-1])
        firsts, lasts = self._starts[edges[::2]], self._ends[edges[1::2] - 1]
        pairs = zip(firsts.tolist(), lasts.tolist(), strict=True)
        view = memoryview(self._data)
        return b"\n".join([view[first:last] for first, last in pairs])
