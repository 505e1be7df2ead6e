"""Find vacuums that removed, remove or will remove files of a restored version."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import VersionNotFoundError
from deltactl.log.commits.events import EventCollector
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.lifetimes import Lifetimes, VersionRange, version_ranges
from deltactl.operations.history.restorable import State, find_restorable
from deltactl.operations.restore.plan import Versions


def find_whole_version(log: DeltaLog, target: int, missing: Sequence[str]) -> int | None:
    """Return the last version before the target that has files, all of which exist; list all files.

    A later version may contain the change that the restore is to undo.
    """
    states = find_restorable(log, missing)
    whole = (v for v, it in states.items() if it.state is State.READABLE and it.num_files)
    return max((version for version in whole if version < target), default=None)


def find_ends(
    versions: Versions, removed: pa.Table, retention_ms: int, now_ms: int
) -> tuple[VersionRange, ...]:
    """Return the versions from the target on that the next vacuum makes unreadable.

    Empty if the target is inside the retention. Versions need files that were removed before the
    retention began; files that are live in the target are restored. Without a retention, this
    includes the files that the restore removes (``removed``).
    """
    log, current, target = versions.log, versions.current, versions.target
    cutoff_ms = now_ms - retention_ms
    if log.timestamp_of(target) >= cutoff_ms:
        return ()
    try:
        last = log.version_at(current.metadata, cutoff_ms, allow_later=True)
    except VersionNotFoundError:
        return ()
    first = max(target.version + 1, log.first_commit)
    if first > min(last, current.version - (retention_ms > 0)):
        return ()
    lifetimes = Lifetimes.of(log.events(current, first, EventCollector()), target.version)
    hit = lifetimes.died <= last
    if not retention_ms:
        hit |= np.asarray(pc.is_in(lifetimes.files["key"], value_set=file_keys(removed)), np.bool_)
    for batch in target.file_batches(KEY_COLUMNS):
        back = pc.is_in(lifetimes.files["key"], value_set=file_keys(batch))
        hit &= ~np.asarray(back.to_numpy(), np.bool_)
    return tuple(version_ranges(target.version, lifetimes.count(hit) > 0))
