"""Write log compaction files: the reconciled actions of several commits in one file.

Tombstones and removed domains are kept, because they must cancel actions that are older than the
first commit of the file. Source: PROTOCOL.md, "Log Compaction Files".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ObjectExistsError, UsageError, VerificationError
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.visitors import Visitor
from deltactl.log.committers.committer import create_file
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail, replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import file_lines, line
from deltactl.protocol.names import LOG_DIR, compacted_name
from deltactl.storage.store import FileInfo

_FEWEST_FILES = 2  # a compacted file instead of one file would save no request


@dataclass(frozen=True, slots=True)
class Compaction:
    """The commits of a log compaction file, and their reconciled actions."""

    first: int
    last: int
    tail: Tail = field(repr=False)


def plan_compaction(
    log: DeltaLog, snapshot: Snapshot, versions: tuple[int, int] | None, *visitors: Visitor
) -> Compaction | None:
    """Return what to compact: these versions, or the commits after the checkpoint if it is useful.

    Return ``None`` if this was done, or if they have no actions to keep, such as commits of a
    vacuum: readers would treat an empty file as truncated. The ``visitors`` get the commits.

    Raises:
        VersionNotFoundError: the versions are not in the log.
        UsageError: they are after the version of the snapshot.
        LogGapError: some of them are not.
    """
    if versions is None:
        versions, tail = _after_checkpoint(snapshot), snapshot.tail
    else:
        for version in versions:
            log.ensure_has(version)
        if versions[1] > snapshot.version:  # its commit may not be published yet
            raise UsageError(
                f"the commits {versions[0]} to {versions[1]} cannot be compacted: the checkpoint "
                f"is of version {snapshot.version}",
                hint=f"Give a range that ends at version {snapshot.version} or before.",
            )
        keys = snapshot.metadata.partition_keys
        tail = log.replay(range(versions[0], versions[1] + 1), keys, *visitors)
    if (
        versions is None
        or versions in log.compacted_files
        or next(_compacted_lines(tail, ()), None) is None
    ):
        return None
    return Compaction(*versions, tail)


def _after_checkpoint(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return the first and last commit after the checkpoint.

    Return ``None`` if readers need at most one file for them.
    """
    if len(snapshot.segment.tail) < _FEWEST_FILES:
        return None
    return snapshot.segment.checkpoint_version + 1, snapshot.version


def write_compaction(snapshot: Snapshot, compaction: Compaction) -> FileInfo | None:
    """Write commits as one file, and read the file back.

    Returns:
        The file; ``None`` if another writer wrote it.

    Raises:
        VerificationError: the stored file has other actions; it is removed.
    """
    name = f"{LOG_DIR}/{compacted_name(compaction.first, compaction.last)}"
    store, tail = snapshot.store, compaction.tail
    keys = list(snapshot.metadata.partition_keys)
    content = "".join(f"{text}\n" for text in _compacted_lines(tail, keys))
    try:
        create_file(store, name, content.encode())
    except ObjectExistsError:
        return None
    (info,) = store.stat_many([name])
    if info is None or not _says_the_same(snapshot, tail, info):
        # This run created it just now, so it is not the file of another writer.
        store.delete_many([name])
        raise VerificationError(
            f"{name} does not contain the same actions as the commits that it compacts",
            hint="Report this as a bug; the file was removed.",
        )
    return info


def _compacted_lines(tail: Tail, partition_keys: Collection[str]) -> Iterator[str]:
    """Yield the reconciled actions as lines of JSON, non-file actions first.

    Only for ``partition_keys``, null partition values are written.
    """
    yield from (line(name, node) for name, node in tail.non_file_actions.nodes())
    yield from file_lines("add", tail.adds, partition_keys)
    yield from file_lines("remove", tail.removes, partition_keys)


def _says_the_same(snapshot: Snapshot, wanted: Tail, info: FileInfo) -> bool:
    """Return whether a replay of the file and a replay of its commits give the same state."""
    keys = list(snapshot.metadata.partition_keys)
    stored = replay_tail(snapshot.reader, [info], keys)
    return (
        _rows(stored.adds) == _rows(wanted.adds)
        and _rows(stored.removes) == _rows(wanted.removes)
        and stored.non_file_actions == wanted.non_file_actions
    )


def _rows(files: pa.Table) -> list[str]:
    """Return each row as a string, ordered by key. Null and absent partition values are equal."""
    order = pc.sort_indices(file_keys(files))
    rows = files.take(order).to_pylist()
    for row in rows:
        values = row["partition_values"] or ()
        row["partition_values"] = {key: text for key, text in values if text is not None}
    return [json.dumps(row, sort_keys=True, default=str) for row in rows]
