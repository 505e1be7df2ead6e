"""Find the commits in which vacuums started and ended.

Source: the operations VACUUM START and VACUUM END of Delta on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing.added_files import VACUUM_START
from deltactl.log.writing.commit_info import find_run
from deltactl.units import format_timestamp

_END: Final = "VACUUM END"
_MOST_COMMITS: Final = 1000
_MOST_BYTES: Final = 1 << 14


def find_vacuum_commits(log: DeltaLog, after: int) -> tuple[int, ...]:
    """Return the versions after ``after`` in which vacuums ended, as far as the log has them."""
    found = _vacuum_commits(log, after + 1)
    return tuple(version for version, operation, _ in found if operation == _END)


def find_open_vacuums(log: DeltaLog) -> dict[int, str | None]:
    """Return the runs of recent vacuums that have no VACUUM END, by the version of their START.

    An END with the id of a run belongs to that run; another one to the first that began.

    Nothing else shows that a vacuum has ended. A killed one has no END, but another run can also
    take its lease while it is suspended, and an undo can record that it was undone while it runs.
    """
    latest = log.latest_version if log.exists else 0
    unfinished: list[tuple[int, str | None]] = []
    for version, operation, run in _vacuum_commits(log, latest - _MOST_COMMITS + 1):
        if operation == VACUUM_START:
            unfinished.append((version, run))
        elif same := [it for it in unfinished if it[1] == run]:
            unfinished.remove(same[0])
    return dict(unfinished)


def describe_start(log: DeltaLog, version: int) -> str:
    """Return the version and the time in which a vacuum began, for a message."""
    return f"version {version}, {format_timestamp(log.commit_files[version].modified_ms)}"


def _vacuum_commits(log: DeltaLog, first: int) -> Iterator[tuple[int, str, str | None]]:
    """Yield version, operation and run of the commits of vacuums, which are small, in order."""
    small = [
        version
        for version, file in sorted(log.commit_files.items())
        if version >= first and file.size_bytes <= _MOST_BYTES
    ]
    for version, commit in zip(small, log.commits(small), strict=True):
        info = commit.info or {}
        if (operation := info.get("operation")) in (VACUUM_START, _END):
            yield version, operation, find_run(info)
