"""Find missing commits. Source: PROTOCOL.md, "Delta Log Entries"."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from deltactl.log.delta_log import DeltaLog


def find_gaps(log: DeltaLog) -> Iterator[tuple[int, int]]:
    """Yield the first and last version of each range of missing commits, in ascending order.

    Only those above the oldest version that can be rebuilt by itself, up to the newest commit or
    checkpoint. Commits below it may be leftovers of a log cleanup. A cleanup keeps the commit of
    the checkpoint that it stops at, so if older commits are left, the commits of the oldest and of
    the newest checkpoint are too.
    """
    anchors = {c.version for c in log.checkpoints} | ({0} & log.commit_files.keys())
    # delta-rs leaves checkpoints of several files behind when it deletes older commits.
    left = {c.version for c in log.checkpoints if len(c.files) > 1}
    left -= {c.version for c in log.checkpoints if len(c.files) == 1}
    oldest_commit = min(log.commit_files, default=0)
    anchors -= {v for v in left if v + 1 < oldest_commit and v < max(anchors)}
    oldest, newest = min(anchors, default=-1), max(anchors, default=-1)
    # Without older commits, a lifecycle rule may have deleted the commit: it is the older file.
    is_lost = oldest not in log.commit_files
    first = max((v for v in log.commit_files if v < oldest and is_lost), default=oldest)
    known = sorted({first, *(version for version in log.commit_files if version > first)})
    for before, after in pairwise(known):
        if after - before > 1:
            yield before + 1, after - 1
    last = max(log.commit_files, default=-1)
    if last < newest:
        yield max(last + 1, oldest), newest
