"""Collect which commit added or removed which file, while commits are parsed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.file_actions import file_keys, text_keys
from deltactl.log.commits.info import find_actions, parse_commit_info
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.parser import ParsedActions
from deltactl.numpy_types import Integers
from deltactl.protocol.arrow_schemas import array_of
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.names import commit_version
from deltactl.protocol.paths import decode_path

EVENTS = pa.schema(
    [
        ("path", pa.string()),
        ("vector_file", pa.string()),
        ("key", pa.string()),
        ("text_key", pa.string()),
        ("version", pa.int64()),
        ("is_add", pa.bool_()),
        ("deletion_timestamp_ms", pa.int64()),
    ]
)
"""Columns of file events. ``path`` and ``vector_file`` are names decoded from the log.

``key`` and ``text_key`` are the results of ``file_keys`` and ``text_keys``.
"""

_CHANGE_FILES = pa.schema([("path", pa.string()), ("version", pa.int64())])
_NO_COMMIT = -1
_CONVERT = b"CONVERT"


@dataclass(frozen=True, slots=True)
class LogSweep:
    """The file events of the commits ``first`` to ``last``, both included.

    ``events`` has the columns of :data:`EVENTS`. ``change_files`` has the decoded name of each
    change data file, and the ``version`` that wrote it. ``has_conversion``: a commit that was read
    has the operation CONVERT; :meth:`since` does not change this.
    """

    first: int
    last: int
    events: pa.Table = field(repr=False)
    change_files: pa.Table = field(repr=False)
    has_conversion: bool = False

    def since(self, first: int) -> LogSweep:
        """Return the events of the versions from ``first`` on."""
        if first <= self.first:
            return self
        events, changes = (
            table.filter(pc.greater_equal(table["version"], first))
            for table in (self.events, self.change_files)
        )
        return replace(self, first=first, events=events, change_files=changes)

    def extend(self, newer: LogSweep) -> LogSweep:
        """Return the events of this object, followed by ``newer`` events."""
        return LogSweep(
            self.first,
            newer.last,
            pa.concat_tables([self.events, newer.events]),
            pa.concat_tables([self.change_files, newer.change_files]),
            self.has_conversion or newer.has_conversion,
        )


class EventCollector:
    """Collects the events of commits that a parser reads. Other log files have no events."""

    def __init__(self) -> None:
        self._parts = [EVENTS.empty_table()]
        self._changes: list[tuple[str, int]] = []
        self._has_conversion = False

    def pass_on(self, files: Iterable[CommitBytes]) -> Iterator[CommitBytes]:
        """Yield the files for the parser; record change data files and conversions.

        Raises:
            CorruptLogError: a line with a change data file or a ``commitInfo`` is not JSON; the
                message has the file and line.
        """
        for file in files:
            version = commit_version(file.name)
            if version is not None:
                self._has_conversion |= _is_conversion(file)
                for node in find_actions(file.name, file.data, "cdc"):
                    if isinstance(path := node.get("path"), str):
                        self._changes.append((decode_path(path), version))
            yield file

    def add(self, parsed: ParsedActions) -> None:
        """Add the file actions of parsed commits."""
        found = [commit_version(name) for name in parsed.names]
        versions = np.array([_NO_COMMIT if it is None else it for it in found], np.int64)
        for files, is_add in ((parsed.adds, True), (parsed.removes, False)):
            if not files.num_rows:
                continue
            commits = parsed.find_commits(files)
            self._parts.append(_events(files, versions[commits], is_add=is_add))

    def finish(self, first: int, last: int) -> LogSweep:
        """Return the events of all commits that were read, from ``first`` to ``last``."""
        paths, versions = zip(*self._changes, strict=True) if self._changes else ((), ())
        changes = pa.table(
            [pa.array(paths, pa.string()), pa.array(versions, pa.int64())], schema=_CHANGE_FILES
        )
        events = pa.concat_tables(self._parts)
        return LogSweep(first, last, events, changes, self._has_conversion)


def _is_conversion(commit: CommitBytes) -> bool:
    # Most commits begin with the commitInfo. Few are parsed, because that takes longer.
    start = commit.data.find(b'"commitInfo"')
    end = commit.data.find(b"\n", start)
    if start < 0 or _CONVERT not in commit.data[start : None if end < 0 else end]:
        return False
    info = parse_commit_info(commit.name, commit.data)
    return info is not None and info.get("operation") == _CONVERT.decode()


def _events(files: pa.Table, versions: Integers, *, is_add: bool
) -> pa.Table:  # fmt: skip
    rows = files.num_rows
    return pa.table(
        [
            files["path"],
            vector_files(files["deletion_vector"]),
            file_keys(files),
            text_keys(files),
            array_of(versions),
            pa.repeat(pa.scalar(is_add), rows),
            pa.nulls(rows, pa.int64()) if is_add else files["deletion_timestamp_ms"],
        ],
        schema=EVENTS,
    )
