"""``describe-history --blame``: the commits that changed a partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import HistoryRow
from deltactl.log.history.read import Selection
from deltactl.log.snapshot import Snapshot
from deltactl.operations.history.blame_filter import (
    BlameFilter,
    UnknownValue,
    find_unknown,
    parse_blame,
)

if TYPE_CHECKING:
    from deltactl.log.commits.changes import CommitChange
    from deltactl.log.commits.parsed import ParsedCommits


@dataclass(frozen=True, slots=True)
class BlameReport:
    """The commits that changed the partition, newest first, and their changes to its files.

    ``oldest_version`` is that of the oldest commit in the log: older ones may have changed it too.
    ``unknown``, if nothing was found, are values that no partition has or had.
    """

    latest_version: int
    oldest_version: int
    asked: BlameFilter
    rows: list[HistoryRow]
    changes: Mapping[int, CommitChange]
    num_unread: int
    unknown: tuple[UnknownValue, ...] = ()


def blame_partition(log: DeltaLog, text: str, selection: Selection) -> BlameReport:
    """Find the commits of a selection that added or removed files of some partitions.

    Every selected commit in the log is read; only matching commits are kept in memory.

    Args:
        log: the log of the table.
        text: ``day=2024-01-31/region=eu``, in the form of directory names, or a predicate over
            partition columns as for ``optimize --where``.
        selection: the commits to search.

    Raises:
        UsageError: the table is not partitioned by these columns.
        PredicateError: the predicate cannot be parsed, or is not about partition columns.
        NotATableError: there is no log.
        CorruptLogError: the latest version cannot be rebuilt, so its columns are unknown.
    """
    commits = log.commit_files
    snapshot = log.snapshot()
    asked = parse_blame(text, snapshot.metadata.known_partition_fields, log.uri)
    blame = _Blame(asked)
    history = log.history(replace(selection, limit=None), blame, partition_keys=asked.keys)
    # A commit that is missing or broken may have changed the partition.
    rows = [it for it in history.rows if it["version"] in blame.found or it["problem"] is not None]
    shown = rows[: selection.limit]
    return BlameReport(
        history.latest_version,
        min(commits, default=history.latest_version),
        asked,
        shown,
        blame.found,
        len(rows) - len(shown),
        () if blame.found else find_unknown(asked, _known_values(log, snapshot, asked)),
    )


def _known_values(
    log: DeltaLog, snapshot: Snapshot, asked: BlameFilter
) -> Iterator[pa.ChunkedArray]:
    """Yield the ``partition_values`` of live files and of all commits that can be read."""
    for batch in snapshot.file_batches(["partition_values"]):
        yield batch["partition_values"]
    for commits in log.parsed_commits(log.commit_files, asked.keys, on_broken=lambda *_: None):
        yield commits.adds["partition_values"]
        yield commits.removes["partition_values"]


class _Blame(Visitor):
    """Collect the changes of commits to the partition."""

    def __init__(self, asked: BlameFilter) -> None:
        super().__init__()
        self._asked = asked
        self.found: dict[int, CommitChange] = {}

    def see(self, commit: CommitBytes) -> bool:
        """Return whether the values occur in a commit."""
        return all(any(it in commit.data for it in traces) for traces in self._asked.traces)

    def visit(self, commits: ParsedCommits) -> None:
        """Take the changes to the partition."""
        from deltactl.log.commits.changes import count_selected

        self.found |= count_selected(commits, self._asked.is_selected)
