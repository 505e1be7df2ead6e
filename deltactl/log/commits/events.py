"""Collect which commit added or removed which file, while commits are parsed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.contents import CommitBytes, find_actions
from deltactl.log.commits.file_actions import file_keys, text_keys
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.protocol.deletion_vectors import vector_ends, vector_files
from deltactl.protocol.paths import decode_path

EVENTS = pa.schema(
    [
        ("path", pa.string()),
        ("vector_file", pa.string()),
        ("vector_end", pa.int64()),
        ("key", pa.string()),
        ("text_key", pa.string()),
        ("version", pa.int64()),
        ("is_add", pa.bool_()),
        ("is_change", pa.bool_()),
        ("deletion_timestamp_ms", pa.int64()),
        ("size_bytes", pa.int64()),
    ]
)
"""Columns of file events. ``path`` and ``vector_file`` are names decoded from the log.

``vector_end`` is the number of bytes that the file of the vector must have at least, ``is_change``
the ``dataChange`` of the action.
``key`` and ``text_key`` are the results of ``file_keys`` and ``text_keys``.
"""

_CHANGE_FILES = pa.schema([("path", pa.string()), ("version", pa.int64())])
_CONVERT = b"CONVERT"


@dataclass(frozen=True, slots=True)
class CommitScan:
    """The file events of the commits ``first`` to ``last``, both included.

    ``events`` has the columns of :data:`EVENTS`. ``change_files`` has the decoded name of each
    change data file, and the ``version`` that wrote it. ``has_conversion``: a commit that was read,
    perhaps an older one, has the operation CONVERT.
    """

    first: int
    last: int
    events: pa.Table = field(repr=False)
    change_files: pa.Table = field(repr=False)
    has_conversion: bool = False


class EventCollector(Visitor):
    """Collects the events of commits."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[tuple[int, pa.Table]] = []
        self._changes: list[tuple[int, str]] = []
        self._has_conversion = False

    def visit(self, commits: ParsedCommits) -> None:
        """Take file actions, change data files and conversions.

        Raises:
            CorruptLogError: a line with a change data file or a ``commitInfo`` is not JSON; the
                message has the file and line.
        """
        for commit, version in zip(commits.commits, commits.versions, strict=True):
            self._has_conversion |= _is_conversion(commit)
            for node in find_actions(commit.name, commit.data, "cdc"):
                if isinstance(path := node.get("path"), str):
                    self._changes.append((version, decode_path(path)))
        for files, is_add in ((commits.adds, True), (commits.removes, False)):
            if files.num_rows:
                self._parts.append((commits.versions[0], _events(files, is_add=is_add)))

    def between(self, first: int, last: int) -> CommitScan:
        """Return the events of versions; all of them must have been visited."""
        # Commits after the checkpoint were visited first, with the snapshot; older ones later.
        parts = [part for _, part in sorted(self._parts, key=itemgetter(0))]
        events = pa.concat_tables([EVENTS.empty_table(), *parts])
        versions, paths = zip(*sorted(self._changes), strict=True) if self._changes else ((), ())
        changes = pa.table(
            [pa.array(paths, pa.string()), pa.array(versions, pa.int64())], schema=_CHANGE_FILES
        )
        return CommitScan(
            first,
            last,
            _between(events, first, last),
            _between(changes, first, last),
            self._has_conversion,
        )


def _between(rows: pa.Table, first: int, last: int) -> pa.Table:
    versions = rows["version"]
    # Mostly, all rows are inside. A filter would copy them.
    if not len(versions) or pc.min(versions).as_py() >= first and pc.max(versions).as_py() <= last:
        return rows
    is_inside = pc.and_(pc.greater_equal(versions, first), pc.less_equal(versions, last))
    return rows.filter(is_inside)


def _is_conversion(commit: CommitBytes) -> bool:
    # Most commits begin with the commitInfo. Few are parsed, because that takes longer.
    start = commit.data.find(b'"commitInfo"')
    end = commit.data.find(b"\n", start)
    if start < 0 or _CONVERT not in commit.data[start : None if end < 0 else end]:
        return False
    return commit.info is not None and commit.info.get("operation") == _CONVERT.decode()


def _events(files: pa.Table, *, is_add: bool) -> pa.Table:
    rows = files.num_rows
    return pa.table(
        [
            files["path"],
            vector_files(files["deletion_vector"]),
            vector_ends(files["deletion_vector"]),
            file_keys(files),
            text_keys(files),
            files["version"],
            pa.repeat(pa.scalar(is_add), rows),
            pc.fill_null(files["data_change"], True),
            pa.nulls(rows, pa.int64()) if is_add else files["deletion_timestamp_ms"],
            files["size_bytes"],
        ],
        schema=EVENTS,
    )


class ZOrderCommits(Visitor):
    """Collects the paths that Z-order commits added.

    Delta on Spark does not tag such files, so only ``commitInfo`` shows them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._paths: list[pa.ChunkedArray] = []
        self._versions: list[pa.ChunkedArray] = []

    def see(self, commit: CommitBytes) -> bool:
        """Return whether a commit is a Z-order: Spark writes the columns, delta-rs the strategy."""
        if b'"zOrderBy"' not in commit.data and b'"zOrder"' not in commit.data:
            return False
        info = commit.info or {}
        parameters, metrics = info.get("operationParameters"), info.get("operationMetrics")
        # An OPTIMIZE of Spark without Z-order writes an empty list.
        if isinstance(parameters, dict) and parameters.get("zOrderBy") not in (None, "[]", ""):
            return True
        return isinstance(metrics, dict) and metrics.get("plannerStrategy") == "zOrder"

    def visit(self, commits: ParsedCommits) -> None:
        """Take the paths of added files."""
        self._paths.append(commits.adds["path"])
        self._versions.append(commits.adds["version"])

    def paths(self, versions: Collection[int]) -> pa.ChunkedArray:
        """Return the paths that the Z-order commits among these versions added."""
        chosen = pa.array(versions, pa.int64())
        chunks = [
            chunk
            for paths, added_in in zip(self._paths, self._versions, strict=True)
            for chunk in paths.filter(pc.is_in(added_in, value_set=chosen)).chunks
        ]
        return pa.chunked_array(chunks, pa.string())
