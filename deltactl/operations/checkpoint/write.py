"""Write a planned checkpoint: tasks on an engine, then the top-level file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from deltactl.engine.base import Done, Failed, P, Task, Worker
from deltactl.errors import (
    ConflictError,
    DeltactlError,
    InterruptedRunError,
    NotATableError,
    StorageError,
    VerificationError,
    explain_foreign,
)
from deltactl.log.checkpoint.action_file import ActionFileWriter, WrittenActions, remove_unchanged
from deltactl.log.checkpoint.nodes import (
    Node,
    checkpoint_metadata,
    file_node,
    schema_node,
    start_hint,
    v2_node,
)
from deltactl.log.checkpoint.read import read_head
from deltactl.log.checkpoint.schema import TOP_SCHEMA, choose_layout, non_file_rows
from deltactl.log.checkpoint.verify import verify_head
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import TailSource
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import line
from deltactl.log.writing.commit_base import CommitBase, noticing_loss
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.plan import CheckpointPlan
from deltactl.operations.checkpoint.tasks import SidecarTask, WriteSpec, write_sidecars, write_whole
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import trusted_now
from deltactl.protocol.properties import ensure_valid_property
from deltactl.storage.store import FileInfo

_TASK_MEMORY_BYTES = 512 << 20
# Each `clone --sync` continues from the transaction of the one before, however old it is.
_OWN_APPS = "deltactl."


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A checkpoint that was written and read back: its files and counts.

    ``num_actions`` counts every row, as ``_last_checkpoint`` does; sizes are totals in bytes.
    """

    version: int
    kind: str
    names: tuple[str, ...]
    sidecars: tuple[str, ...]
    num_actions: int
    num_adds: int
    num_removes: int
    add_bytes: int
    size_bytes: int
    hint: Mapping[str, Any]


def write_checkpoint(
    log: DeltaLog,
    snapshot: Snapshot,
    plan: CheckpointPlan,
    options: CheckpointOptions,
    context: RunContext,
) -> WrittenCheckpoint:
    """Write the files of a plan and read them back; do not change ``_last_checkpoint``.

    Raises:
        VerificationError: the stored files differ from the snapshot; they are removed.
        InterruptedRunError: cancelled; written files are removed.
        DeltactlError: the error of the first failed task.
    """
    writing = _Writing(log, snapshot, plan, options, context)
    return writing.write_v2() if plan.kind == "v2" else writing.write_whole()


def _live_non_file_actions(snapshot: Snapshot, now_ms: int) -> NonFileActions:
    """Return the non-file actions to keep: live domains and unexpired transactions."""
    retention = snapshot.properties.txn_retention_ms
    txns = dict(snapshot.txns)
    if retention is not None:
        # One without a timestamp counts as expired (PROTOCOL.md, "Transaction Identifiers").
        oldest = now_ms - retention
        txns = {
            app: txn
            for app, txn in txns.items()
            if app.startswith(_OWN_APPS) or (txn.last_updated_ms or 0) > oldest
        }
    return NonFileActions(snapshot.protocol, snapshot.metadata, txns, dict(snapshot.domains))


class _Writing:
    """Writes one checkpoint."""

    def __init__(
        self,
        log: DeltaLog,
        snapshot: Snapshot,
        plan: CheckpointPlan,
        options: CheckpointOptions,
        context: RunContext,
    ) -> None:
        self._snapshot, self._plan, self._options, self._context = snapshot, plan, options, context
        self._log = log
        self._store = snapshot.store
        self._now_ms = trusted_now(log, snapshot, context)
        self._non_file_actions = _live_non_file_actions(snapshot, self._now_ms)
        self._spec = self._build_spec()

    def _build_spec(self) -> WriteSpec:
        snapshot, context = self._snapshot, self._context
        keys = snapshot.metadata.partition_keys
        with ensure_valid_property(
            "delta.deletedFileRetentionDuration", "no checkpoint is written"
        ):
            retention_ms = snapshot.properties.deleted_file_retention_ms
        return WriteSpec(
            table_uri=self._store.uri,
            storage_options=context.storage_options,
            version=snapshot.version,
            run_id=context.clock.new_id(),
            head=snapshot.head,
            tail=TailSource(snapshot.segment.tail, keys, snapshot.tail),
            layout=choose_layout(snapshot.metadata, snapshot.protocol, self._options.compat),
            tombstones_after_ms=self._now_ms - retention_ms,
            sidecar_rows=self._options.sidecar_rows,
            non_file_actions=tuple({name: node} for name, node in self._non_file_actions.nodes()),
        )

    def write_whole(self) -> WrittenCheckpoint:
        """Write one file with all actions."""
        plan = self._plan
        name = DeltaLog.checkpoint_file(plan.version)
        files = self._run_tasks(partial(write_whole, self._spec), [name])
        infos = tuple(written.file for written in files)
        checkpoint = Checkpoint(plan.version, str(plan.kind), "parquet", infos)
        try:
            self._verify(checkpoint, ())
            self._ensure_same_table()
        except (VerificationError, ConflictError, NotATableError):
            remove_unchanged(self._store, infos)
            raise
        hint = start_hint(plan.version, files) | schema_node(self._spec.layout)
        return _summary(plan, files, (), hint)

    def write_v2(self) -> WrittenCheckpoint:
        """Write sidecars, then the file that references them."""
        plan, options = self._plan, self._options
        tasks = [
            SidecarTask(number, partition) for number, partition in enumerate(plan.partitions, 1)
        ]
        files = self._run_tasks(partial(write_sidecars, self._spec), tasks)
        name = DeltaLog.checkpoint_file(
            plan.version, self._context.clock.new_id(), options.top_format
        )
        if plan.replaced is not None:
            name = plan.replaced.names[0]
        sidecars = [file_node(written.file) for written in files]
        nodes = [
            {"checkpointMetadata": checkpoint_metadata(plan.version, files, self._spec.layout)},
            *({"sidecar": node} for node in sidecars),
            *self._spec.non_file_actions,
        ]
        try:
            self._ensure_complete(files)
        except Exception:
            remove_unchanged(self._store, [written.file for written in files])
            raise
        top = self._write_top(name, nodes)
        checkpoint = Checkpoint(plan.version, "uuid", name.rpartition(".")[2], (top,))
        try:
            expected = [written.file.name for written in files]
            self._verify(checkpoint, expected)
            self._ensure_same_table()
        except Exception:
            self._retract(checkpoint, files)
            raise
        hint = start_hint(plan.version, files)
        hint["size"] += len(nodes)
        hint["sizeInBytes"] += top.size_bytes
        hint["v2Checkpoint"] = v2_node(top, self._spec.non_file_actions, sidecars)
        return _summary(plan, files, (top,), hint)

    def _verify(self, checkpoint: Checkpoint, sidecars: Sequence[str]) -> None:
        with noticing_loss(self._log, self._snapshot, VerificationError):
            verify_head(self._store, checkpoint, self._non_file_actions, sidecars)

    def _ensure_same_table(self) -> None:
        """Refuse a checkpoint in the log of a table that was created again during the run."""
        # The log with the new checkpoint has the id of the old table.
        CommitBase.of(self._snapshot).ensure_table_is_there(self._log, reads_id=False)

    def _ensure_complete(self, files: Sequence[WrittenActions]) -> None:
        """Compare the totals of all tasks with the snapshot."""
        found = sum(w.adds.count for w in files), sum(w.adds.size_bytes for w in files)
        wanted = self._snapshot.num_files, self._snapshot.size_bytes
        if found != wanted:
            raise VerificationError(
                f"version {self._plan.version} has {wanted[0]} files with {wanted[1]} bytes, but "
                f"the new checkpoint has {found[0]} files with {found[1]} bytes",
                hint="Report this as a bug. No reader uses the new checkpoint.",
            )

    def _retract(self, checkpoint: Checkpoint, files: Sequence[WrittenActions]) -> None:
        """Remove a failed checkpoint: first the top-level file, then the sidecars.

        If the name is not new, another run may have replaced the top-level file: it is kept then.
        """
        written = [it.file for it in files]
        with suppress(DeltactlError):  # the original error is raised
            if self._plan.replaced is not None:
                sidecars = read_head(self._store, checkpoint).sidecars
                is_ours = bool(sidecars) and {it.name for it in written}.issuperset(sidecars)
            else:
                is_ours = True
            if not (is_ours and self._store.delete_many(checkpoint.names)):
                remove_unchanged(self._store, written)

    def _write_top(self, name: str, nodes: Sequence[Node]) -> FileInfo:
        """Write the file that references the sidecars.

        If that fails the sidecars are kept: the store may still complete the failed request, and a
        checkpoint without its sidecars misleads every reader. Log cleanup removes sidecars that no
        checkpoint references.
        """
        try:
            if name.endswith(".parquet"):
                layout = self._spec.layout
                # Delta on Spark also writes the columns of file actions here, and may read them in
                # addition to sidecars: it fails on a file without them.
                schema = pa.schema([*layout.sidecar_schema, *TOP_SCHEMA])
                with ActionFileWriter(self._store, name, schema, layout) as writer:
                    writer.write_non_file_actions(non_file_rows(TOP_SCHEMA, nodes))
                    return writer.close().file
            return self._put_top(name, nodes)
        except Exception:
            # It could not be read back: no checkpoint is better than an invalid one. If the name is
            # not new, another run may have replaced the file.
            if self._plan.replaced is None:
                with suppress(DeltactlError):
                    self._store.delete_many([name])
            raise

    def _put_top(self, name: str, nodes: Sequence[Node]) -> FileInfo:
        lines = (line(action, body) for node in nodes for action, body in node.items())
        self._store.put(name, ("\n".join(lines) + "\n").encode())
        (info,) = self._store.stat_many([name])
        if info is None:
            raise StorageError(f"{name} is not in the store after it was written")
        return info

    def _run_tasks(
        self, worker: Worker[P, tuple[WrittenActions, ...]], payloads: Sequence[P]
    ) -> list[WrittenActions]:
        """Return the files of all tasks in their order; remove the sidecars when one fails.

        A classic checkpoint is kept, because a checkpoint of another writer has the same name.
        """
        tasks = [Task(n, payload, _TASK_MEMORY_BYTES) for n, payload in enumerate(payloads)]
        done: dict[int, tuple[WrittenActions, ...]] = {}
        failures: list[Exception] = []
        self._context.begin_changes()
        try:
            for outcome in self._context.run(worker, tasks):
                match outcome:
                    case Done(task_id, _, files):
                        done[task_id] = files
                    case Failed(_, _, error):
                        failures.append(error)
            if failures:
                CommitBase.of(self._snapshot).ensure_same_table(self._log)
                raise explain_foreign("writing the checkpoint", failures[0])
            if len(done) < len(tasks):
                raise InterruptedRunError(
                    "interrupted before the checkpoint was written",
                    hint="Rerun the command; nothing was changed.",
                )
        except Exception:
            if self._plan.kind == "v2":
                remove_unchanged(self._store, [w.file for files in done.values() for w in files])
            raise
        return [written for number in range(len(tasks)) for written in done[number]]


def _summary(
    plan: CheckpointPlan,
    files: Sequence[WrittenActions],
    top: Sequence[FileInfo],
    hint: Mapping[str, Any],
) -> WrittenCheckpoint:
    names = tuple(written.file.name for written in files)
    return WrittenCheckpoint(
        version=plan.version,
        kind=str(plan.kind),
        names=tuple(info.name for info in top) or names,
        sidecars=names if top else (),
        num_actions=int(hint["size"]),
        num_adds=int(hint["numOfAddFiles"]),
        num_removes=sum(written.removes.count for written in files),
        add_bytes=sum(written.adds.size_bytes for written in files),
        size_bytes=int(hint["sizeInBytes"]),
        hint=hint,
    )
