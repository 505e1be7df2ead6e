"""Choose the log files that rebuild a version: one checkpoint and the commits after it.

Source: PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from deltactl.errors import (
    LogGapError,
    NotATableError,
    VersionNotFoundError,
    Warn,
    hint_at_versions,
)
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.hint import read_hint
from deltactl.log.listing import LogListing
from deltactl.protocol.names import LAST_CHECKPOINT
from deltactl.storage.store import FileInfo, Store

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files from which ``version`` is rebuilt.

    ``tail`` has the commits after the checkpoint, in ascending order. ``commit`` is the file of
    ``version`` itself; it is ``None`` if only the checkpoint of this version exists.
    """

    version: int
    checkpoint: Checkpoint | None
    tail: tuple[FileInfo, ...]
    commit: FileInfo | None

    @property
    def checkpoint_version(self) -> int:
        """Return the checkpoint's version; -1 if there is no checkpoint."""
        return -1 if self.checkpoint is None else self.checkpoint.version

    @property
    def modified_ms(self) -> int:
        """Return the file time of the commit; of the checkpoint if there is no commit."""
        if self.commit is not None:
            return self.commit.modified_ms
        assert self.checkpoint is not None  # the only other file that can define a version
        return self.checkpoint.files[0].modified_ms


def list_from_hint(
    list_from: Callable[[int], LogListing], store: Store, warn: Warn, version: int | None = None
) -> tuple[LogListing, LogGapError | None]:
    """List from the checkpoint in ``_last_checkpoint``; from 0 if ``version`` needs older files.

    Also return an error if the newest commits were lost.
    """
    # Before the listing: all commits that this file can name must then be in the listing.
    hinted = read_hint(store, warn)
    if hinted is not None and (version is None or hinted <= version):
        listing = list_from(hinted)
        # A newer one is enough: a log cleanup may have deleted that of an outdated file.
        if any(checkpoint.version >= hinted for checkpoint in listing.checkpoints):
            return listing, find_lost_commits(listing, hinted, store.uri)
        if listing.latest_version is not None:
            warn(f"_last_checkpoint refers to version {hinted}, which has no complete checkpoint")
    listing = list_from(0)
    return listing, find_lost_commits(listing, hinted, store.uri)


def list_whole(
    list_from: Callable[[int], LogListing], store: Store, warn: Warn
) -> tuple[LogListing, LogGapError | None]:
    """List the whole log. Also return an error if the newest commits were lost."""
    listing = list_from(0)
    hinted = read_hint(store, warn) if listing.has_hint else None
    if find_lost_commits(listing, hinted, store.uri) is None:
        return listing, None
    listing = list_from(0)  # they may have been written after the listing
    return listing, find_lost_commits(listing, hinted, store.uri)


def find_lost_commits(listing: LogListing, hinted: int | None, where: str) -> LogGapError | None:
    """Return an error if a file of the log names a version after the latest of the listing.

    These files are written after their commits, so commits were lost. A commit after older ones
    would begin another history, for which readers would use the files of the lost one; and a vacuum
    would delete the data files of the lost commits.
    """
    latest = listing.latest_version
    ends = {LAST_CHECKPOINT: -1 if hinted is None else hinted} | listing.files_ahead
    name, end = max(ends.items(), key=itemgetter(1))
    if latest is None or end <= latest:
        return None
    first = latest + 1
    missing = f"commit {first} is" if end == first else f"commits {first} to {end} are"
    return LogGapError(
        f"the newest commit is {latest}, but {name} names version {end}: {missing} missing",
        hint="Restore the commits from a backup, with their modification times (`cp -p`). Or, if "
        f"they are lost for good, run `deltactl check {shlex.quote(where)} --fix "
        f"last-checkpoint`, which repairs or deletes {LAST_CHECKPOINT} and the other files that "
        "name them, then rerun.",
    )


def select_segment(
    listing: LogListing,
    version: int | None = None,
    *,
    skip: frozenset[Checkpoint] = frozenset(),
    where: str = "the table",
) -> LogSegment:
    """Choose the latest usable checkpoint at or below ``version``, and the commits after it.

    Log compaction files are not used: a wrong one looks like a right one, and the commits exist.

    ``skip`` are checkpoints that cannot be read; ``where`` is the table's name, for messages.

    Raises:
        NotATableError: the log is empty.
        VersionNotFoundError: ``version`` is newer than the log.
        LogGapError: commits are missing; the message lists them.
    """
    latest = listing.latest_version
    if latest is None:
        raise NotATableError(
            f"{where} is not a Delta table: its _delta_log contains no commits",
            hint="Check the path: it must be the directory that contains _delta_log.",
        )
    wanted = latest if version is None else version
    if not 0 <= wanted <= latest:
        raise VersionNotFoundError(
            f"{where} has no version {wanted}: the latest is {latest}",
            hint=hint_at_versions(where),
        )
    usable = [c for c in listing.checkpoints if c.version <= wanted and c not in skip]
    checkpoint = max(usable, key=lambda c: c.version, default=None)
    first = 0 if checkpoint is None else checkpoint.version + 1
    gaps = (v for v in range(first, wanted + 1) if v not in listing.commits)
    # Compute only as many versions as the message shows: an unrelated file can have any version.
    missing = list(islice(gaps, _SHOWN + 1))
    if missing:
        raise _gap(where, wanted, checkpoint, missing, is_latest=wanted == latest)
    tail = tuple(listing.commits[v] for v in range(first, wanted + 1))
    return LogSegment(wanted, checkpoint, tail, listing.commits.get(wanted))


def _gap(
    where: str, wanted: int, checkpoint: Checkpoint | None, missing: list[int], *, is_latest: bool
) -> LogGapError:
    shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
    commits = f"commits {shown} are" if len(missing) > 1 else f"commit {shown} is"
    base = (
        "version 0 (there is no usable checkpoint)"
        if checkpoint is None
        else f"the checkpoint of version {checkpoint.version}"
    )
    way = f"`deltactl describe-history {shlex.quote(where)}` shows which versions are left."
    if is_latest and missing[0]:
        way = (
            f"Or copy the last version before them to a new table: `deltactl clone "
            f"{shlex.quote(where)} NEW --deep --version {missing[0] - 1}`."
        )
    return LogGapError(
        f"version {wanted} of {where} cannot be rebuilt from {base}: {commits} missing",
        hint="Restore the missing _delta_log files from a backup, with their modification times "
        f"(`cp -p`). {way}",
    )
