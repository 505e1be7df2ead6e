"""Reconcile actions as Arrow columns: the latest action of each (path, DV id) is kept.

Paths are compared as Delta on Spark does (:func:`file_keys`). Readers on the Delta kernel compare
raw path texts, so more files can be live for them: ``by_text`` includes these files.

Source: PROTOCOL.md, "Action Reconciliation". The log's tail and its keys are in memory; the
checkpoint is streamed, so memory does not depend on the table's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.checkpoint.read import CheckpointHead, Piece, read_adds, read_removes
from deltactl.log.commits.events import EventCollector, LogSweep
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys, text_keys
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.commits.parser import CommitParser
from deltactl.log.commits.repeats import find_repeats
from deltactl.protocol.arrow_arrays import empty_table
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, REMOVE_SCHEMA
from deltactl.protocol.names import CompactedFile, commit_version, parse_log_name
from deltactl.protocol.path_columns import normalize_paths
from deltactl.storage.store import FileInfo, Store

_KeysOf = Callable[[pa.Table], pa.ChunkedArray]


@dataclass(slots=True)
class Tail:
    """The reconciled actions of the commits after the checkpoint.

    ``by_text`` has the result for readers that do not normalize paths, if it differs. ``sweep`` has
    the events of commits, if they were requested.
    """

    adds: pa.Table
    removes: pa.Table
    keys: pa.ChunkedArray
    non_file_actions: NonFileActions = field(default_factory=NonFileActions)
    by_text: Tail | None = None
    sweep: LogSweep | None = None


NO_COMMITS: Final = Tail(
    empty_table(ADD_SCHEMA), empty_table(REMOVE_SCHEMA), pa.chunked_array([], pa.string())
)
"""The empty tail of a version that has a checkpoint."""


def replay_tail(
    store: Store,
    tail: Sequence[FileInfo],
    partition_keys: Iterable[str] = (),
    *,
    with_events: bool = False,
) -> Tail:
    """Read and reconcile the commits of a segment.

    With ``with_events`` the events of the commits after the last log compaction file are kept in
    ``sweep``.

    Raises:
        CorruptLogError: a commit is not valid; the message has the file and the line.
    """
    names = [info.name for info in tail]
    contents = zip(names, store.read_many(names), strict=True)
    files = (CommitBytes(name, data, is_compacted(name)) for name, data in contents)
    found = EventCollector() if with_events else None
    parsed = []
    for part in CommitParser(partition_keys).parse(
        files if found is None else found.pass_on(files)
    ):
        parsed.append(part)
        if found is not None:
            found.add(part)
    adds = _concat([p.adds for p in parsed], ADD_SCHEMA)
    removes = _concat([p.removes for p in parsed], REMOVE_SCHEMA)
    result = reconcile(adds, removes, file_keys)
    if any(normalize_paths(t["encoded_path"]) is not t["encoded_path"] for t in (adds, removes)):
        result.by_text = reconcile(adds, removes, text_keys)
    for part in parsed:
        result.non_file_actions.update(part.non_file_actions)
    if found is not None and names:
        result.sweep = _last_commits(found, names)
    return result


def _last_commits(found: EventCollector, names: Sequence[str]) -> LogSweep | None:
    """Return the events of the commits at the end of the log, after the last compacted file."""
    versions = [commit_version(name) for name in names]
    last = versions[-1]
    if last is None:
        return None
    num_commits = next((i for i, it in enumerate(reversed(versions)) if it is None), len(versions))
    first = last - num_commits + 1
    return found.finish(first if num_commits == len(versions) else 0, last).since(first)


def is_compacted(name: str) -> bool:
    """Return whether a name in the log is that of a log compaction file."""
    return isinstance(parse_log_name(name.rpartition("/")[2]), CompactedFile)


def _concat(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    full = schema.append(pa.field("seq", pa.int64()))
    return pa.concat_tables(tables) if tables else empty_table(full)


def reconcile(adds: pa.Table, removes: pa.Table, keys_of: _KeysOf) -> Tail:
    """Keep the newest action of each key: the one with the greatest ``seq``."""
    add_keys, remove_keys = keys_of(adds), keys_of(removes)
    keys = pa.chunked_array([*add_keys.chunks, *remove_keys.chunks], pa.string())
    repeats = find_repeats(keys)
    if len(repeats.rows):
        seq = np.concatenate([adds["seq"].to_numpy(), removes["seq"].to_numpy()])[repeats.rows]
        newest = np.zeros(int(repeats.codes.max()) + 1, np.int64)
        np.maximum.at(newest, repeats.codes, seq)
        won = np.ones(len(keys), np.bool_)
        won[repeats.rows] = newest[repeats.codes] == seq
        adds_won, removes_won = np.split(won, [adds.num_rows])
        adds, removes = adds.filter(pa.array(adds_won)), removes.filter(pa.array(removes_won))
        keys = keys.filter(pa.array(won))
    return Tail(adds.drop_columns("seq"), removes.drop_columns("seq"), keys)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a version's file actions: pieces of the checkpoint, with or without the tail."""

    pieces: tuple[Piece, ...] | None = None
    with_tail: bool = True


WHOLE = Share()


def live_batches(
    store: Store,
    head: CheckpointHead | None,
    tail: Tail,
    columns: Sequence[str],
    share: Share = WHOLE,
    *,
    by_text: bool = False,
) -> Iterator[pa.Table]:
    """Yield live files: files of the checkpoint without an action in the tail, then the tail.

    With ``by_text``, two path texts are two files: the result includes files that only some readers
    consider live.
    """
    keys_of = text_keys if by_text else file_keys
    if by_text:
        tail = tail.by_text or tail
    if head is not None:
        for batch in read_adds(store, head, _with_keys(columns, tail), share.pieces):
            yield _without(batch, tail, keys_of).select(columns)
    if share.with_tail and tail.adds.num_rows:
        yield tail.adds.select(columns)


def tombstone_batches(
    store: Store,
    head: CheckpointHead | None,
    tail: Tail,
    columns: Sequence[str],
    share: Share = WHOLE,
) -> Iterator[pa.Table]:
    """Yield tombstones in batches, expired ones included: the caller applies the retention."""
    if head is not None:
        for batch in read_removes(store, head, _with_keys(columns, tail), share.pieces):
            yield _without(batch, tail, file_keys).select(columns)
    if share.with_tail and tail.removes.num_rows:
        yield tail.removes.select(columns)


def _with_keys(columns: Sequence[str], tail: Tail) -> list[str]:
    if not len(tail.keys):
        return list(columns)
    return [*columns, *(key for key in KEY_COLUMNS if key not in columns)]


def _without(batch: pa.Table, tail: Tail, keys_of: _KeysOf) -> pa.Table:
    if not len(tail.keys) or not batch.num_rows:
        return batch
    gone = pc.is_in(keys_of(batch), value_set=tail.keys)
    return batch.filter(pc.invert(gone)) if pc.any(gone).as_py() else batch
