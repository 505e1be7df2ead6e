"""Find the partitions that commits changed, from the log alone."""

from __future__ import annotations

from deltactl.errors import CorruptLogError
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.parser import CommitParser
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.partition_groups import group_partitions


def find_touched(log: DeltaLog, snapshot: Snapshot, since: int) -> set[str] | None:
    """Return directories of partitions that commits after ``since`` changed; ``None``: unknown."""
    commits = [log.listing.commits.get(v) for v in range(since + 1, snapshot.version + 1)]
    infos = [info for info in commits if info is not None]
    if len(infos) < len(commits):
        log.warn(
            f"commits after version {since} were deleted from the log: all partitions are "
            f"considered"
        )
        return None
    fields = snapshot.metadata.partition_fields
    contents = snapshot.store.read_many([info.name for info in infos])
    parser = CommitParser(f.physical_name for f in fields)
    touched: set[str] = set()
    for parsed in parser.parse(
        CommitBytes(i.name, data) for i, data in zip(infos, contents, strict=True)
    ):
        if parsed.non_file_actions.metadata is not None:
            return None  # perhaps with other partitions
        bare = parsed.removes.filter(parsed.removes["partition_values"].is_null())
        if bare.num_rows and fields:
            return None
        for actions in (parsed.adds, parsed.removes):
            try:
                groups = group_partitions(actions["partition_values"], fields, by_text=True)
            except CorruptLogError:
                return None  # an action that is not in force any more may have an invalid value
            touched |= set(groups.labels())
    return touched
