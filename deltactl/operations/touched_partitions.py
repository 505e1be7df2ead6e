"""Find the partitions that commits changed, from the log alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.info import find_actions
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.partition_groups import group_partitions
from deltactl.protocol.schema import Field


def find_touched(log: DeltaLog, snapshot: Snapshot, since: int) -> set[str] | None:
    """Return directories of partitions that commits after ``since`` changed; ``None``: unknown."""
    first, last = since + 1, snapshot.version
    if not log.has_commits(first, last):
        log.warn(
            f"commits after version {since} were deleted from the log: all partitions are "
            f"considered"
        )
        return None
    fields = snapshot.metadata.partition_fields
    touched = _TouchedPartitions(fields)
    keys = [field.physical_name for field in fields]
    log.scan(range(first, last + 1), touched, partition_keys=keys)
    return touched.labels if touched.is_known else None


class _TouchedPartitions(Visitor):
    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__()
        self.labels: set[str] = set()
        self.is_known = True
        self._fields = fields

    def see(self, commit: CommitBytes) -> bool:
        """Find a metaData action: perhaps with other partitions."""
        if next(find_actions(commit.name, commit.data, "metaData"), None) is not None:
            self.is_known = False
        return self.is_known

    def visit(self, commits: ParsedCommits) -> None:
        """Take the partitions of all file actions."""
        bare = commits.removes["partition_values"].is_null()
        if self._fields and pc.any(bare).as_py():
            self.is_known = False
        for actions in (commits.adds, commits.removes) if self.is_known else ():
            try:
                groups = group_partitions(actions["partition_values"], self._fields, by_text=True)
            except CorruptLogError:
                # An action that is not in force any more may have an invalid value.
                self.is_known = False
            else:
                self.labels |= set(groups.labels())
