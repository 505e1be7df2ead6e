"""Reconcile actions as Arrow columns: keep the latest action of each (path, deletion vector id).

Paths are compared as in Delta on Spark (:func:`file_keys`). Readers that use Delta Kernel compare
path texts as written, so more files can be live for them: ``by_text`` includes these files.

The tail of the log is in memory; a large tail is on disk, with hashes of its keys in memory. The
checkpoint is streamed. So memory does not depend on the size of the table.

Source: PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.checkpoint.read import CheckpointHead, RowGroupRange, read_file_actions
from deltactl.log.commits.contents import CommitReader
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys, text_keys
from deltactl.log.commits.key_sets import (
    KeySet,
    Repeats,
    RowStore,
    StoredRows,
    find_repeated_hashes,
    join_hashes,
    make_key_set,
)
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.commits.scan import replay_commits
from deltactl.log.commits.visitors import Visitor, Visits
from deltactl.numpy_types import Flags, Integers
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, REMOVE_SCHEMA
from deltactl.storage.store import FileInfo, Store

_KeysOf = Callable[[pa.Table], pa.ChunkedArray]


class Watch(Protocol):
    """Passes batches with ``size_bytes`` on, and may raise an error after the last one."""

    def see_stored(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Pass all files of the checkpoint on."""
        ...

    def see_live(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Pass all live files on."""
        ...


# The limit for adds in memory, and for removes: about a million adds with statistics.
_HELD_BYTES: Final = 512 << 20


@dataclass(slots=True)
class Tail:
    """The reconciled actions of the commits after the checkpoint.

    ``by_text`` is the result for readers that do not normalize paths, if this result is different.
    """

    add_rows: StoredRows
    remove_rows: StoredRows
    keys: KeySet
    non_file_actions: NonFileActions = field(default_factory=NonFileActions)
    by_text: Tail | None = None
    operations: Set[object] = frozenset()

    @property
    def changes_table(self) -> bool:
        """Return whether a commit changed the metadata or the protocol."""
        news = self.non_file_actions
        return news.metadata is not None or news.protocol is not None

    @property
    def adds(self) -> pa.Table:
        """Return the adds of the tail, all in memory."""
        return self.add_rows.table

    @property
    def removes(self) -> pa.Table:
        """Return the removes of the tail, all in memory."""
        return self.remove_rows.table


def replay_tail(
    reader: CommitReader,
    tail: Sequence[FileInfo],
    partition_keys: Iterable[str] = (),
    *,
    visitors: Sequence[Visitor] = (),
) -> Tail:
    """Read and reconcile the commits of a segment; the visitors get these commits too.

    Raises:
        CorruptLogError: a commit is not valid; the message has the file and the line.
    """
    non_file_actions = NonFileActions()

    def parse() -> Iterator[tuple[pa.Table, pa.Table]]:
        for part in replay_commits(reader.read(tail), Visits(visitors), partition_keys):
            non_file_actions.update(part.non_file_actions)
            yield part.adds, part.removes

    result = reconcile(parse())
    result.non_file_actions = non_file_actions
    return result


@dataclass(slots=True)
class TailSource:
    """The log's tail: in memory in the process that read it, by name in other processes.

    Pickling keeps only the names, so that a task is small even if the tail is long.
    """

    files: tuple[FileInfo, ...]
    partition_keys: tuple[str, ...]
    loaded: Tail | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the names."""
        return TailSource, (self.files, self.partition_keys)

    def load(self, store: Store) -> Tail:
        """Return the tail; read it if it was not in memory."""
        if self.loaded is None:
            self.loaded = replay_tail(CommitReader(store), self.files, self.partition_keys)
        return self.loaded


def reconcile(parts: Iterable[tuple[pa.Table, pa.Table]]) -> Tail:
    """Keep the newest action of each file: the add or remove with the greatest ``seq``.

    ``parts`` are adds and removes, which have a column ``seq``.

    Raises:
        StorageError: there are too many rows for the memory, and the disk is too small or failed.
    """
    adds, removes = RowStore(ADD_SCHEMA, _HELD_BYTES), RowStore(REMOVE_SCHEMA, _HELD_BYTES)
    for more_adds, more_removes in parts:
        adds.add(more_adds)
        removes.add(more_removes)
    result = _reconcile(adds, removes, by_text=False)
    # Otherwise both rules give the same result.
    if adds.has_other_texts or removes.has_other_texts:
        result.by_text = _reconcile(adds, removes, by_text=True)
    return result


def _reconcile(adds: RowStore, removes: RowStore, *, by_text: bool) -> Tail:
    first, second, seq = join_hashes((adds, removes), by_text=by_text)
    won = _pick_newest(find_repeated_hashes(first, second), seq)
    if not won.all():
        first, second = first[won], second[won]
    kept = np.split(won, [adds.num_rows])
    rows = adds.select(kept[0]), removes.select(kept[1])
    keys_of = text_keys if by_text else file_keys
    # Not read unless the set is small: see `make_key_set`.
    texts = (keys_of(batch) for part in rows for batch in part.batches(KEY_COLUMNS))
    return Tail(*rows, make_key_set(texts, first, second))


def _pick_newest(repeats: Repeats, seq: Integers) -> Flags:
    """Return the rows that have the greatest ``seq`` of their key."""
    won = np.ones(len(seq), np.bool_)
    if len(repeats.rows):
        newest = np.zeros(int(repeats.codes.max()) + 1, np.int64)
        np.maximum.at(newest, repeats.codes, seq[repeats.rows])
        won[repeats.rows] = newest[repeats.codes] == seq[repeats.rows]
    return won


@dataclass(frozen=True, slots=True)
class ReplayPartition:
    """Some file actions of a version: row groups of the checkpoint, with or without the tail."""

    ranges: tuple[RowGroupRange, ...] | None = None
    with_tail: bool = True


WHOLE = ReplayPartition()


def live_batches(
    store: Store,
    head: CheckpointHead | None,
    tail: Tail,
    columns: Sequence[str],
    partition: ReplayPartition = WHOLE,
    *,
    by_text: bool = False,
    watch: Watch | None = None,
) -> Iterator[pa.Table]:
    """Yield live files: files of the checkpoint that have no action in the tail, then the tail.

    With ``by_text``, two path texts are two files. So the result includes files that are live for
    some readers only. ``watch`` sees the files, with their sizes.
    """
    if by_text:
        tail = tail.by_text or tail
    keys_of = text_keys if by_text else file_keys
    wanted = columns if watch is None else [*dict.fromkeys([*columns, "size_bytes"])]
    stored: Iterator[pa.Table] = iter(())
    if head is not None:
        needed = _with_keys(wanted, tail)
        stored = read_file_actions(store, head, "add", needed, partition.ranges)
    if watch is not None:
        stored = watch.see_stored(stored)
    kept = (without_tail(batch, tail, keys_of).select(wanted) for batch in stored)
    live = chain(kept, tail.add_rows.batches(wanted) if partition.with_tail else ())
    for batch in live if watch is None else watch.see_live(live):
        yield batch.select(columns)


def tombstone_batches(
    store: Store,
    head: CheckpointHead | None,
    tail: Tail,
    columns: Sequence[str],
    partition: ReplayPartition = WHOLE,
) -> Iterator[pa.Table]:
    """Yield tombstones in batches, also expired ones: the caller applies the retention."""
    if head is not None:
        needed = _with_keys(columns, tail)
        for batch in read_file_actions(store, head, "remove", needed, partition.ranges):
            yield without_tail(batch, tail).select(columns)
    if partition.with_tail:
        yield from tail.remove_rows.batches(columns)


def _with_keys(columns: Sequence[str], tail: Tail) -> list[str]:
    # Nothing is compared, so the columns of keys are not read.
    if not len(tail.keys):
        return list(columns)
    return [*columns, *(key for key in KEY_COLUMNS if key not in columns)]


def without_tail(batch: pa.Table, tail: Tail, keys_of: _KeysOf = file_keys) -> pa.Table:
    """Return the files of a checkpoint that have no action in the tail."""
    if not len(tail.keys) or not batch.num_rows:
        return batch
    gone = tail.keys.mask(keys_of(batch))
    # To filter a batch copies it, even if no row is left out.
    return batch.filter(pc.invert(gone)) if pc.any(gone).as_py() else batch
