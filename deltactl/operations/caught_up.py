"""Find out whether the version in a record is still that commit.

A record is beside the log. If the log was restored from a backup, the record may be newer than the
log, and other commits get the numbers of those that it means.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.leases import LastRun
from deltactl.storage.store import FileInfo


def identify_commit(log: DeltaLog, version: int) -> str:
    """Return the size and the time of a commit: another commit of this version has others.

    The text is empty if the commit is not in the log.

    Raises:
        StorageError: the log cannot be listed.
    """
    commits: Mapping[int, FileInfo] = log.listed.commits
    if version < log.listed.start_version:
        commits = log.commit_files
    elif version not in commits:  # a commit of this run
        commits = log.list_from(version).commits
    file = commits.get(version)
    return "" if file is None else f"{file.size_bytes} {file.modified_ms}"


def caught_up_version(last: LastRun, log: DeltaLog, snapshot: Snapshot) -> int | None:
    """Return the version up to which a record knows all partitions of this table.

    ``None`` if it has no version, is of another table, or the version is another commit now.
    """
    version = last.caught_up_version
    if version is None or version > snapshot.version or last.table_id != snapshot.metadata.id:
        return None
    return version if last.commit and last.commit == identify_commit(log, version) else None
