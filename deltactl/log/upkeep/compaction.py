"""Write log compaction files: the reconciled actions of several commits in one file.

Tombstones and removed domains are kept, because they must cancel actions that are older than the
first commit of the file. Source: PROTOCOL.md, "Log Compaction Files".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ObjectExistsError, VerificationError
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.committers.committer import create_file
from deltactl.log.replay import Tail, replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import file_lines, line
from deltactl.protocol.names import LOG_DIR, compacted_name
from deltactl.storage.store import FileInfo

_FEWEST_COMMITS = 2  # a compacted file of one commit would save no request


def compaction_range(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return the first and last commit after the checkpoint, if it is useful to compact them.

    Return ``None`` if fewer than two of these commits are in no log compaction file yet. Also
    return ``None`` if they have no actions to keep, such as commits of a vacuum: readers would
    treat an empty file as truncated.
    """
    first, last = snapshot.segment.checkpoint_version + 1, snapshot.version
    if len(snapshot.segment.tail) < _FEWEST_COMMITS or first >= last:
        return None
    changes = next(_compacted_lines(snapshot.tail, ()), None)
    return None if changes is None else (first, last)


def write_compaction(snapshot: Snapshot) -> FileInfo | None:
    """Write the commits after the snapshot's checkpoint as one file, and read the file back.

    Returns:
        The file; ``None`` if there is nothing to compact, or another writer wrote the file.

    Raises:
        VerificationError: the stored file has other actions; it is removed.
    """
    span = compaction_range(snapshot)
    if span is None:
        return None
    name = f"{LOG_DIR}/{compacted_name(*span)}"
    store, tail = snapshot.store, snapshot.tail
    keys = list(snapshot.metadata.partition_keys)
    content = "".join(f"{text}\n" for text in _compacted_lines(tail, keys))
    try:
        create_file(store, name, content.encode())
    except ObjectExistsError:
        return None
    (info,) = store.stat_many([name])
    if info is None or not _says_the_same(snapshot, info):
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


def _says_the_same(snapshot: Snapshot, info: FileInfo) -> bool:
    """Return whether a replay of the file and a replay of its commits give the same state."""
    keys = list(snapshot.metadata.partition_keys)
    stored, wanted = replay_tail(snapshot.reader, [info], keys), snapshot.tail
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
