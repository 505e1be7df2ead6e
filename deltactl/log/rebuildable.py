"""Find which versions can still be rebuilt from the log.

To rebuild a version, every commit since commit 0 must exist, or every commit since a checkpoint
that can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from deltactl.errors import CorruptLogError, ObjectNotFoundError, StorageError
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.listing import LogListing
from deltactl.parquet.format import END_BYTES, MAGIC
from deltactl.storage.store import Store

if TYPE_CHECKING:
    from deltactl.log.checkpoint.read import CheckpointHead, RowGroupRange


def find_rebuildable(
    store: Store, listing: LogListing, wanted: AbstractSet[int], broken: AbstractSet[int]
) -> set[int]:
    """Return the ``wanted`` versions that can be rebuilt.

    ``broken`` are versions whose commit exists but cannot be read. Checkpoints are read only if a
    wanted version cannot be rebuilt without them.
    """
    # groupby needs the order of versions, which the listing has.
    checkpoints = {
        version: list(found) for version, found in groupby(listing.checkpoints, lambda c: c.version)
    }
    readable = listing.commits.keys() - broken
    lowest = min(wanted, default=0)
    found: set[int] = set()
    for run in split_runs(sorted(readable | checkpoints.keys()), readable):
        if run[-1] >= lowest:
            start = _find_start(store, run, checkpoints, readable)
            found.update(version for version in run[start:] if version in wanted)
    return found


def split_runs(versions: list[int], readable: AbstractSet[int]) -> list[list[int]]:
    """Return runs of consecutive versions; all versions of a run except the first need a commit."""
    runs: list[list[int]] = []
    for version in versions:
        if version in readable and runs and runs[-1][-1] == version - 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return runs


def _find_start(
    store: Store,
    run: list[int],
    checkpoints: dict[int, list[Checkpoint]],
    readable: AbstractSet[int],
) -> int:
    """Return where in a run rebuilding can begin: at commit 0, or at the first valid checkpoint."""
    # From commit 0 on, no checkpoint is needed, so none is read.
    if run[0] == 0 and 0 in readable:
        return 0
    for index, version in enumerate(run):
        if any(_can_read(store, checkpoint) for checkpoint in checkpoints.get(version, ())):
            return index
    return len(run)


def _can_read(store: Store, checkpoint: Checkpoint) -> bool:
    """Return whether this user can read a checkpoint now."""
    try:
        return is_readable(store, checkpoint)
    except StorageError:
        return False


def find_problem(store: Store, checkpoint: Checkpoint, *, all_rows: bool = False) -> str | None:
    """Return why a checkpoint cannot be used; ``None`` if it can be used.

    Its non-file actions, and the names and sizes of its sidecars are checked.

    ``all_rows`` says whether to check that no row has a second action.

    Raises:
        ObjectNotFoundError: a listed file of the checkpoint was deleted meanwhile.
        StorageError: the store failed. The checkpoint may still be valid.
    """
    from deltactl.log.checkpoint.read import ensure_one_action_a_row, find_wrong_sidecars, read_head

    try:
        head = read_head(store, checkpoint)
    except CorruptLogError as error:
        return error.message
    if head.non_file_actions.protocol is None or head.non_file_actions.metadata is None:
        return "it has no protocol or no metaData action"
    for name, wrong in find_wrong_sidecars(store, head).items():
        return f"its sidecar {name} {wrong or 'is missing'}"
    if all_rows:
        try:
            ensure_one_action_a_row(store, head)
        except CorruptLogError as error:
            return error.message
    return None


def is_readable(store: Store, checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint exists, with its non-file actions and its sidecars.

    Raises:
        StorageError: the store failed. The checkpoint may still be valid.
    """
    try:
        return find_problem(store, checkpoint) is None
    except ObjectNotFoundError:
        return False


def is_valid(store: Store, checkpoint: Checkpoint) -> bool:
    """Return whether every file of a checkpoint can be read to its end. This reads all of them.

    Raises:
        StorageError: the store failed. The checkpoint may still be valid.
    """
    from deltactl.log.checkpoint.read import (
        ensure_one_action_a_row,
        list_action_files,
        read_head,
    )

    if not is_readable(store, checkpoint):
        return False
    try:
        head = read_head(store, checkpoint)
        ensure_one_action_a_row(store, head)
    except CorruptLogError:
        return False
    return all(_has_valid_actions(store, head, file) for file in list_action_files(head))


def find_unreadable(store: Store, checkpoint: Checkpoint) -> list[str]:
    """Return the parts of a checkpoint that cannot be read, or else such sidecars. All are read.

    Raises:
        StorageError: the store failed.
    """
    from deltactl.log.checkpoint.read import list_action_files, read_head

    wrong = []
    for info in checkpoint.files:
        try:
            read_head(store, replace(checkpoint, files=(info,)))
        except CorruptLogError:
            wrong.append(info.name)
    if wrong:
        return wrong
    head = read_head(store, checkpoint)
    files = list_action_files(head)
    return [file.name for file in files if not _has_valid_actions(store, head, file)]


def _has_valid_actions(store: Store, head: CheckpointHead, file: RowGroupRange) -> bool:
    from deltactl.log.checkpoint.read import FILE_COLUMNS, TOMBSTONE_COLUMNS, read_file_actions

    try:
        for action, columns in (("add", FILE_COLUMNS), ("remove", TOMBSTONE_COLUMNS)):
            for _ in read_file_actions(store, head, action, columns, [file]):
                pass
    except CorruptLogError:
        return False
    return True


def truncated_file(store: Store, checkpoint: Checkpoint) -> str | None:
    """Return a truncated Parquet file of a checkpoint, or ``None``. Few bytes of each are read.

    Raises:
        StorageError: a file cannot be read.
    """
    for info in checkpoint.files:
        if checkpoint.format != "parquet":
            continue
        start = max(info.size_bytes - END_BYTES, 0)
        (tail,) = store.read_ranges(info.name, [(start, END_BYTES)])
        if len(tail) < END_BYTES or tail[4:] != MAGIC:
            return info.name
        (footer_bytes,) = struct.unpack("<I", tail[:4])
        if footer_bytes + END_BYTES > info.size_bytes:
            return info.name
    return None
