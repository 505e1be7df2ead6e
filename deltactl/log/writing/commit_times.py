"""Choose the times of a commit.

Source: PROTOCOL.md, "In-Commit Timestamps".
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from deltactl.clock import Clock
from deltactl.errors import MALFORMED, ObjectNotFoundError
from deltactl.log.commits.contents import in_commit_timestamp
from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing.commit_base import CommitBase
from deltactl.protocol.actions import Metadata
from deltactl.protocol.properties import TableProperties


def choose_times(
    base: CommitBase,
    log: DeltaLog,
    clock: Clock,
    after: Metadata | None = None,
    *,
    enables: bool = False,
) -> dict[str, Any]:
    """Return the first fields of the next commitInfo: the times that the table requires.

    ``after`` is the metadata that the commit sets, if it sets one; ``enables`` says whether it
    turns on in-commit timestamps for an existing table.

    Raises:
        CorruptLogError: the previous commit has no in-commit timestamp, but must have one.
    """
    now = clock.now_ms()
    before, after = base.metadata, after or base.metadata
    if not TableProperties(after.configuration).in_commit_timestamps:
        return {"timestamp": now}
    earliest = 0  # if this commit enables the timestamps, all earlier times are older
    if base.version >= 0 and TableProperties(before.configuration).in_commit_timestamps:
        # It must be greater than that of the previous commit.
        earliest = _find_previous(base, log) + 1
    if enables and base.commit_file is not None:
        # The previous versions have the times of their files, and times must increase.
        info = base.find_commit(log)
        earliest = max(earliest, 0 if info is None else info.modified_ms + 1)
    return {"inCommitTimestamp": max(now, earliest), "timestamp": now}


def _find_previous(base: CommitBase, log: DeltaLog) -> int:
    """Return the in-commit timestamp of the previous commit.

    If the file of this commit was lost, and only its checkpoint is left, return a time that is not
    before any time that the log still has.
    """
    if base.commit_file is not None:
        return base.read_commit(log).in_commit_timestamp
    version, times = base.version, [0]
    with suppress(*MALFORMED, RecursionError, ObjectNotFoundError):
        node = json.loads(log.store.read(log.checksum_file(version)))
        times.append(int(node["inCommitTimestampOpt"]))
    times += [c.files[0].modified_ms for c in log.checkpoints if c.version == version]
    older = max((it for it in log.commit_files if it < version), default=None)
    if older is not None:
        times += [in_commit_timestamp(it.info) or 0 for it in log.commits([older])]
    return max(times)
