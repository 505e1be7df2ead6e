"""The worker of a checkpoint: write some of the snapshot's actions and read them back.

Runs on any engine: specs and tasks are picklable, and the worker opens the store by URI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import VerificationError
from deltactl.log.checkpoint.action_file import ActionFileWriter, WrittenActions, remove_unchanged
from deltactl.log.checkpoint.nodes import Node
from deltactl.log.checkpoint.read import FILE_COLUMNS, TOMBSTONE_COLUMNS, CheckpointHead
from deltactl.log.checkpoint.schema import CheckpointLayout, non_file_rows
from deltactl.log.checkpoint.verify import verify_actions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import WHOLE, ReplayPartition, TailSource, live_batches, tombstone_batches
from deltactl.log.threads import read_ahead
from deltactl.storage.open import open_existing
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """The values that all tasks of a checkpoint share.

    ``tombstones_after_ms``: tombstones at or before this time have expired. ``non_file_actions``:
    for files with all actions (not for sidecars).
    """

    table_uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    version: int
    run_id: str
    head: CheckpointHead | None = field(repr=False)
    tail: TailSource = field(repr=False)
    layout: CheckpointLayout = field(repr=False)
    tombstones_after_ms: int
    sidecar_rows: int
    non_file_actions: Sequence[Node] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class SidecarTask:
    """A partition of the file actions, to be written as sidecars."""

    number: int
    partition: ReplayPartition


def write_whole(spec: WriteSpec, name: str, attempt: int) -> tuple[WrittenActions, ...]:
    """Write a classic checkpoint with this store name.

    Raises:
        VerificationError: the stored rows differ from the input; the file is removed.
        CorruptLogError, StorageError: the log cannot be read, or the store failed; a written file
            is kept, because another writer may have cleaned up the log based on it.
    """
    store = open_existing(spec.table_uri, spec.storage_options)
    schema = spec.layout.whole_schema
    with ActionFileWriter(store, name, schema, spec.layout) as writer:
        writer.write_non_file_actions(non_file_rows(schema, spec.non_file_actions))
        for kind, batch in _stream(store, spec, WHOLE):
            _write(writer, kind, batch)
        # Checkpoints of other writers have the same name: only remove a file that is certainly
        # invalid.
        with _removed_on(VerificationError, store) as written:
            written.append(writer.close())
            verify_actions(store, spec.version, written[0])
    return tuple(written)


def write_sidecars(spec: WriteSpec, task: SidecarTask, attempt: int) -> tuple[WrittenActions, ...]:
    """Write a partition of the file actions as sidecars of at most ``spec.sidecar_rows`` rows.

    Raises:
        VerificationError: the stored rows differ from the input; the files are removed.
        CorruptLogError, StorageError: the log cannot be read, or the store failed.
    """
    store = open_existing(spec.table_uri, spec.storage_options)

    def next_name() -> str:
        number = f"{task.number:010d}.{len(written) + 1:010d}"
        name = f"{spec.version:020d}.checkpoint.{number}.{spec.run_id}-{attempt}.parquet"
        return DeltaLog.sidecar_file(name)

    with _removed_on(Exception, store) as written, ExitStack() as stack:
        writer: ActionFileWriter | None = None
        for kind, batch in _stream(store, spec, task.partition):
            rest = batch
            while rest.num_rows:
                if writer is None:
                    writer = stack.enter_context(
                        ActionFileWriter(
                            store, next_name(), spec.layout.sidecar_schema, spec.layout
                        )
                    )
                room = spec.sidecar_rows - writer.num_rows
                _write(writer, kind, rest.slice(0, room))
                rest = rest.slice(room)
                if writer.num_rows >= spec.sidecar_rows:
                    written.append(writer.close())
                    writer = None
        if writer is not None:
            written.append(writer.close())
        for file in written:
            verify_actions(store, spec.version, file)
    return tuple(written)


def _stream(
    store: Store, spec: WriteSpec, partition: ReplayPartition
) -> Iterator[tuple[str, pa.Table]]:
    """Yield batches of live files, then of tombstones that have not expired."""
    tail = spec.tail.load(store)
    sources = (
        ("add", partial(live_batches, columns=FILE_COLUMNS)),
        ("remove", partial(tombstone_batches, columns=TOMBSTONE_COLUMNS)),
    )
    for kind, batches in sources:
        for batch in read_ahead(batches(store, spec.head, tail, partition=partition)):
            yield kind, batch if kind == "add" else _unexpired(batch, spec.tombstones_after_ms)


def _unexpired(tombstones: pa.Table, after_ms: int) -> pa.Table:
    # A tombstone without a timestamp counts as one of 1970.
    return tombstones.filter(
        pc.fill_null(pc.greater(tombstones["deletion_timestamp_ms"], after_ms), False)
    )


def _write(writer: ActionFileWriter, kind: str, rows: pa.Table) -> None:
    (writer.write_adds if kind == "add" else writer.write_removes)(rows)


@contextmanager
def _removed_on(kind: type[Exception], store: Store) -> Iterator[list[WrittenActions]]:
    """Remove the files if an error of this kind happens here."""
    written: list[WrittenActions] = []
    try:
        yield written
    except kind:
        remove_unchanged(store, [each.file for each in written])
        raise
