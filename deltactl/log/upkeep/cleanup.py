"""Plan log cleanup: which expired log files can be deleted without losing a kept version.

The cutoff is a midnight (UTC): the last one at or before now minus the retention. The version that
was current at the cutoff, and all later versions, stay readable. All files before the newest
checkpoint at or below that version are deleted, except its own commit.

Source: PROTOCOL.md, "Metadata Cleanup". Times are adjusted as Delta on Spark does for time travel.

Checkpoint protection: old clients must not read history that used a dropped feature. Source: the
RFC "Checkpoint Protection" (``delta.requireCheckpointProtectionBeforeVersion``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from deltactl.errors import (
    MALFORMED,
    CorruptLogError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.log.checkpoint.read import read_head
from deltactl.log.commits.contents import find_actions, uses_in_commit_timestamp
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.timestamps import InCommitTimes, file_times
from deltactl.log.listing import LogListing
from deltactl.log.rebuildable import is_valid, split_runs
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.protocol.actions import Protocol, parse_protocol
from deltactl.protocol.features import (
    CHECKPOINT_PROTECTION,
    Operation,
    ensure_supported,
    has_feature,
)
from deltactl.protocol.names import LOG_DIR, SIDECAR_DIR, STAGED_COMMITS_DIR
from deltactl.protocol.properties import (
    PROTECTED_BEFORE,
    TRUNCATION_RETENTION,
    ensure_valid_property,
)
from deltactl.storage.store import FileInfo, Store
from deltactl.units import DAY_MS, format_timestamp

NO_HISTORY_IS_DELETED = "no history is deleted"


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """The files to delete, in this order of kinds. Times are in ms since 1970 UTC.

    ``checkpoint_version`` is the version of the checkpoint from which the oldest remaining version
    is rebuilt. ``lost`` has the first and last version of each range of versions that can be read
    now, but not after the cleanup.
    """

    cutoff_ms: int
    checkpoint_version: int | None = None
    reason: str | None = None
    compactions: tuple[FileInfo, ...] = ()
    commits: tuple[FileInfo, ...] = ()
    checksums: tuple[FileInfo, ...] = ()
    checkpoints: tuple[FileInfo, ...] = ()
    staged: tuple[FileInfo, ...] = ()
    sidecars: tuple[FileInfo, ...] = ()
    abandoned: tuple[FileInfo, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def groups(self) -> tuple[tuple[FileInfo, ...], ...]:
        """Return the files in the order of deletion: commits before their checkpoints."""
        return (
            # If the run ends in between, no file is left without a file that it needs.
            self.compactions,
            self.commits,
            self.checksums,
            self.checkpoints,
            self.staged,
            self.sidecars,
            self.abandoned,
        )

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """Return all files in the order of deletion."""
        return tuple(chain(*self.groups))

    @property
    def size_bytes(self) -> int:
        """Return the total size of the files to delete, in bytes."""
        return sum(info.size_bytes for info in self.files)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to delete."""
        return not self.files


def plan_cleanup(
    log: DeltaLog,
    snapshot: Snapshot,
    now_ms: int,
    *,
    up_to: int | None = None,
    planned: int | None = None,
    truncates: bool = False,
) -> CleanupPlan:
    """Decide which log files may be deleted.

    If ``up_to`` is given, only log files before the checkpoint of this version are deleted.
    ``planned`` is a version that will have a checkpoint before the cleanup. ``truncates``: the
    retention is that of TRUNCATE HISTORY, and the cutoff no midnight.

    Raises:
        SafetyError: ``up_to`` is inside the retention, or has no valid checkpoint; or checkpoint
            protection forbids the cleanup; or the table's retention is not valid.
        StorageError, CorruptLogError: the log cannot be read.
    """
    store, listing = log.store, log.listing
    # Younger sidecars may be those of a checkpoint that is being written (PROTOCOL.md, "Metadata
    # Cleanup").
    yesterday = _floor_day(now_ms) - DAY_MS
    directories = store.directories
    # These can be deleted even if no checkpoint allows to delete history.
    abandoned = tuple(directories.abandoned_files(LOG_DIR, yesterday)) if directories else ()
    cutoff = _find_cutoff(snapshot, now_ms, truncates=truncates)
    times = file_times(listing, listing.commits)
    boundary = _find_boundary(snapshot, listing, times, cutoff)
    if up_to is not None:
        _ensure_outside_retention(up_to, boundary, cutoff, listing)
    warnings: list[str] = []
    found = {c.version for c in listing.checkpoints} | ({planned} if planned is not None else set())
    wanted = [
        v
        for v in sorted(found, reverse=True)
        if v <= min(boundary, log.published_version, _before_listed(listing))
        and v in times
        and (up_to is None or v == up_to)
        and times[v] == listing.commits[v].modified_ms  # it does not depend on earlier commits
    ]
    base = _choose_base(store, listing, wanted, warnings)
    if base is None:
        if up_to is not None:
            raise SafetyError(
                f"deltactl cannot delete the commits before version {up_to}, for one of these "
                f"reasons: version {up_to} has no valid checkpoint or no commit file, or its "
                "timestamp depends on an older commit",
                hint=f"Run `deltactl checkpoint TABLE --version {up_to} --cleanup`, which writes "
                "the checkpoint and then deletes the commits.",
            )
        reason = f"no version before {format_timestamp(cutoff)} has a valid checkpoint"
        return CleanupPlan(cutoff, reason=reason, abandoned=abandoned, warnings=tuple(warnings))
    _ensure_unprotected(log, snapshot, base)
    going = [c for c in listing.checkpoints if c.version < base]
    sidecars = _find_orphans(store, listing, base, yesterday, warnings)
    return CleanupPlan(
        cutoff_ms=cutoff,
        checkpoint_version=base,
        # A reader that begins after the checkpoint uses none that begins at it or before.
        compactions=tuple(
            i for (start, _), i in sorted(listing.compacted.items()) if start <= base
        ),
        # Not the commit of the base: no checkpoint has its time and its commitInfo.
        commits=_before(listing.commits, base),
        checksums=_before(listing.checksums, base),
        checkpoints=tuple(info for checkpoint in going for info in checkpoint.files),
        staged=_find_staged(store, base),
        sidecars=sidecars,
        abandoned=abandoned,
        lost=_find_lost(log, base),
        warnings=tuple(warnings),
    )


def execute_cleanup(
    log: DeltaLog, latest: CommitBase, plan: CleanupPlan
) -> dict[str, StorageError]:
    """Delete the files of a plan. If a file cannot be deleted, keep the files that it needs.

    Files are deleted by name, so before each group, look whether the table is still that of
    ``latest``.

    Returns:
        The errors, by name.

    Raises:
        DeltactlError: see ``CommitBase.ensure_same_table``.
    """
    for group in filter(None, plan.groups):
        latest.ensure_same_table(log)
        failed = log.store.delete_many([info.name for info in group])
        if failed:
            return failed
    return {}


def _find_cutoff(snapshot: Snapshot, now_ms: int, *, truncates: bool) -> int:
    key = TRUNCATION_RETENTION if truncates else "delta.logRetentionDuration"
    with ensure_valid_property(key, NO_HISTORY_IS_DELETED):
        if truncates:
            return now_ms - snapshot.properties.truncation_retention_ms
        return _floor_day(now_ms - snapshot.properties.log_retention_ms)


def _floor_day(time_ms: int) -> int:
    return time_ms // DAY_MS * DAY_MS


def _find_boundary(
    snapshot: Snapshot, listing: LogListing, times: dict[int, int], cutoff_ms: int
) -> int:
    """Return the version that was current at the cutoff; -1 if there was none.

    If the table has in-commit timestamps, both times of this version must be before the cutoff.
    """
    old = [version for version, time in times.items() if time <= cutoff_ms]
    timed = [v for v in old if uses_in_commit_timestamp(snapshot.metadata, v)]
    # A file may have been copied later or with another time, so its time alone is not enough.
    recent = set(timed[bisect_right(InCommitTimes(snapshot.reader, listing, timed), cutoff_ms) :])
    return max((version for version in old if version not in recent), default=-1)


def _ensure_outside_retention(
    up_to: int, boundary: int, cutoff_ms: int, listing: LogListing
) -> None:
    if up_to <= boundary:
        return
    lowest = max(boundary, min(listing.commits, default=0))
    raise SafetyError(
        f"the cleanup would make versions {lowest} to {up_to - 1} unreadable. The retention of "
        f"the log protects versions that were current after {format_timestamp(cutoff_ms)}",
        hint="Set delta.logRetentionDuration to a shorter time if these versions are not needed.",
    )


def _choose_base(
    store: Store, listing: LogListing, wanted: Sequence[int], warnings: list[str]
) -> int | None:
    """Return the first of the ``wanted`` versions whose checkpoints are valid, or planned."""
    for version in wanted:
        checkpoints = [c for c in listing.checkpoints if c.version == version]
        # A reader may use any of several checkpoints of a version, so all of them must be valid.
        invalid = [c.names[0] for c in checkpoints if not is_valid(store, c)]
        if not invalid:
            return version
        warnings.append(f"{invalid[0]} cannot be read completely: it was not used")
    return None


def _before(files: dict[int, FileInfo], version: int) -> tuple[FileInfo, ...]:
    return tuple(files[found] for found in sorted(files) if found < version)


def _before_listed(listing: LogListing) -> int:
    """Return the latest version of which a catalog names no staged file that is the commit.

    Readers must read the file that the catalog names, even if the commit is published.
    """
    staged = [v for v, info in listing.commits.items() if STAGED_COMMITS_DIR in info.name]
    return min(staged) - 1 if staged else max(listing.commits, default=-1)


def _find_staged(store: Store, base: int) -> tuple[FileInfo, ...]:
    """Return staged commits of old versions that are published."""
    directory = f"{LOG_DIR}/{STAGED_COMMITS_DIR}"
    found = []
    for info in store.list_from(directory):
        digits, _, rest = info.name.rpartition("/")[2].partition(".")
        if len(digits) == 20 and digits.isdecimal() and rest.endswith(".json"):
            if int(digits) > base:  # the listing is in order of versions
                break
            found.append(info)
    return tuple(found)


def _find_orphans(
    store: Store, listing: LogListing, base: int, before_ms: int, warnings: list[str]
) -> tuple[FileInfo, ...]:
    """Return old sidecars that no remaining checkpoint references; none if this is not known."""
    old = [
        info for info in store.list_from(f"{LOG_DIR}/{SIDECAR_DIR}") if info.modified_ms < before_ms
    ]
    if not old:
        return ()
    used: set[str] = set()
    for checkpoint in listing.checkpoints:
        if checkpoint.version < base or checkpoint.kind == "multipart":  # which has no sidecars
            continue
        try:
            head = read_head(store, checkpoint)
        except (CorruptLogError, UnsupportedFeatureError):
            warnings.append(
                f"{checkpoint.names[0]} cannot be read: no sidecars are deleted, because it may "
                "refer to some of them"
            )
            return ()
        # Compare only the last part of a name, because an absolute name has several spellings.
        used |= {name.rpartition("/")[2] for name in head.sidecars}
    return tuple(info for info in old if info.name.rpartition("/")[2] not in used)


def _find_lost(log: DeltaLog, base: int) -> tuple[tuple[int, int], ...]:
    versions = {v for v in log.listing.commits if v < base}
    versions |= {c.version for c in log.listing.checkpoints if c.version < base}
    lost = log.rebuildable(versions)
    return tuple((run[0], run[-1]) for run in split_runs(sorted(lost), lost))


def _ensure_unprotected(log: DeltaLog, snapshot: Snapshot, base: int) -> None:
    """Raise an error for a cleanup up to ``base`` that checkpoint protection forbids.

    A cleanup is allowed in one of these cases:

    - It removes all protected versions at once.
    - It removes no protected checkpoint.
    - deltactl supports the protocol of every version that the cleanup removes, and of the first
      version that remains.
    """
    if not has_feature(snapshot.protocol, CHECKPOINT_PROTECTION):
        return
    with ensure_valid_property(PROTECTED_BEFORE, NO_HISTORY_IS_DELETED):
        protected = snapshot.properties.protected_before_version
    if base >= protected:
        return
    if not any(checkpoint.version < base for checkpoint in log.listing.checkpoints):
        return
    try:
        for protocol in _find_protocols(log, base):
            ensure_supported(protocol, snapshot.metadata, Operation.CHECKPOINT)
    except (CorruptLogError, UnsupportedFeatureError, *MALFORMED) as error:
        raise SafetyError(
            f"the log before version {base} is not deleted: it has a protocol that deltactl does "
            f"not support, and {PROTECTED_BEFORE} protects a part of the log before version "
            f"{protected}: {error}",
            hint=f"Wait until all versions before {protected} have expired. Then a cleanup may "
            "delete all of them together, whatever their protocol is.",
        ) from error


def _find_protocols(log: DeltaLog, base: int) -> list[Protocol]:
    """Return every protocol that applied to a version up to ``base``."""
    store, listing = log.store, log.listing
    found = [
        parse_protocol(node)
        for commit in log.commits(v for v in sorted(listing.commits) if v <= base)
        for node in find_actions(commit.name, commit.data, "protocol")
    ]
    for checkpoint in listing.checkpoints:
        if checkpoint.version <= base:
            protocol = read_head(store, checkpoint).non_file_actions.protocol
            found += [] if protocol is None else [protocol]
    return found
