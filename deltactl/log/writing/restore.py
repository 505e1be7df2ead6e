"""Commit a restore or a sync: files and state, if no other writer changed the table.

The order of the actions is that of Delta on Spark. Source: PROTOCOL.md, "Add File and Remove File",
"In-Commit Timestamps", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import ConflictError
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.action_lines import all_change_data, domain_line, file_lines, line
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_attempts import CommitBase, win_version
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.put import Sleep
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN, RowIds, assign_row_ids
from deltactl.protocol.action_nodes import encode_metadata, encode_protocol, encode_txn
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltactl.protocol.arrow_schemas import REMOVE_SCHEMA
from deltactl.storage.store import Store

ENABLEMENT_VERSION: Final = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP: Final = "delta.inCommitTimestampEnablementTimestamp"


@dataclass(frozen=True, slots=True)
class RestoredState:
    """Protocol and metadata after a restore, and the domain actions to write.

    ``enables_timestamps``: the restore turns on in-commit timestamps, from its own version on.
    """

    protocol: Protocol
    metadata: Metadata
    domains: tuple[DomainMetadata, ...] = ()
    enables_timestamps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration(Description):
    """The files to add and to remove (rows of ``ADD_SCHEMA``), and the state to restore.

    If the state is ``None``, it stays as it is. ``done`` is the verb in messages, for example:
    nothing was ``restored``.
    """

    added: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)
    state: RestoredState | None
    txn: Txn | None = None
    done: str = "restored"


def restore_files(
    snapshot: Snapshot,
    restoration: Restoration,
    *,
    clock: Clock,
    sleep: Sleep,
    ensure: Callable[[CommitBase], None],
    files: AddedFiles,
) -> CommitBase:
    """Commit after the latest version; return the state after it.

    Commits of others that have only a commitInfo (for example of a vacuum) or a ``txn`` do not
    conflict.

    Args:
        snapshot: the version with which the files were compared.
        restoration: what to commit.
        clock: for the times and the transaction's id.
        sleep: waits between attempts; takes seconds.
        ensure: is called before each attempt; raises an error if the state does not allow the
            commit.
        files: proves that the files to add exist.

    Raises:
        ConflictError: another writer changed the table, or files to add do not exist.
        SafetyError: row ids cannot be assigned.
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        CommitDamagedError: the commit succeeded, and then it or its files were lost.
        NotATableError: the log was deleted.
        StorageError: the store failed, and the commit does not exist.
    """
    store, started_ms = snapshot.store, clock.now_ms()
    after = RestoredState(snapshot.protocol, snapshot.metadata)

    def encode(base: CommitBase, txn_id: str) -> bytes:
        nonlocal after
        ensure(base)
        state = restoration.state or RestoredState(base.protocol, base.metadata)
        times = _times(store, clock, base, state)
        state = after = _with_enablement(state, base, times)
        info = commit_info(times, restoration, read_version=snapshot.version, txn_id=txn_id)
        lines = _lines(base, restoration, state, started_ms)
        return ("\n".join([line("commitInfo", info), *lines]) + "\n").encode()

    def learn(base: CommitBase, winners: Tail) -> None:
        _ensure_no_change(winners, restoration.done)

    base = CommitBase.of(snapshot)
    won = win_version(store, base, encode, learn=learn, clock=clock, sleep=sleep, files=files)
    return replace(won, protocol=after.protocol, metadata=after.metadata)


def _ensure_no_change(winners: Tail, done: str) -> None:
    news = winners.non_file_actions
    reason = None
    if winners.add_rows.num_rows or winners.remove_rows.num_rows:
        reason = "another writer added or removed files"
    elif news.metadata is not None or news.protocol is not None:
        reason = "another writer changed the table's schema, properties or protocol"
    elif news.domains:
        reason = "another writer changed the table's domain metadata"
    if reason is not None:
        raise ConflictError(
            f"nothing was {done}: {reason} during the run",
            hint="Run `deltactl describe-history` to see the other writer's change. Rerun only "
            "if you want to undo that change too.",
        )


def _times(store: Store, clock: Clock, base: CommitBase, state: RestoredState) -> dict[str, Any]:
    """Return the times of the commit, according to the properties that the commit itself sets."""
    times = base.times(store, clock, state.metadata)
    if state.enables_timestamps and base.commit_file is not None:
        (info,) = store.stat_many([base.commit_file])
        earliest = 0 if info is None else info.modified_ms + 1
        times["inCommitTimestamp"] = max(times["inCommitTimestamp"], earliest)
    return times


def _with_enablement(
    state: RestoredState, base: CommitBase, times: dict[str, Any]
) -> RestoredState:
    if not state.enables_timestamps:
        return state
    configuration = {
        **state.metadata.configuration,
        ENABLEMENT_VERSION: str(base.version + 1),
        ENABLEMENT_TIMESTAMP: str(times["inCommitTimestamp"]),
    }
    return replace(state, metadata=replace(state.metadata, configuration=configuration))


def _lines(
    base: CommitBase, restoration: Restoration, state: RestoredState, started_ms: int
) -> Iterator[str]:
    """Yield the actions that follow the commitInfo of the commit."""
    added = restoration.added
    domains = {domain.domain: domain for domain in state.domains}
    after = replace(
        base,
        protocol=state.protocol,
        metadata=state.metadata,
        domains={**base.domains, **domains},
    )
    row_ids = RowIds.of(after)
    if row_ids is not None:
        added = assign_row_ids(added, row_ids, base.version + 1)
        if row_ids.grew:
            domains.pop(ROW_TRACKING_DOMAIN, None)
    if restoration.state is not None:
        yield line("metaData", encode_metadata(state.metadata))
    yield from file_lines("add", all_change_data(added), state.metadata.partition_keys)
    removed = _as_removes(restoration.removed, started_ms)
    yield from file_lines("remove", removed, base.metadata.partition_keys)
    yield from map(domain_line, domains.values())
    if restoration.state is not None:
        yield line("protocol", encode_protocol(state.protocol))
    if row_ids is not None and row_ids.grew:
        yield domain_line(row_ids.domain())
    if restoration.txn is not None:
        yield line("txn", encode_txn(restoration.txn))


def _as_removes(files: pa.Table, deletion_timestamp_ms: int) -> pa.Table:
    """Return live files as rows of ``REMOVE_SCHEMA``."""
    rows = files.num_rows
    new = {
        "deletion_timestamp_ms": pa.array(np.full(rows, deletion_timestamp_ms), pa.int64()),
        "data_change": pa.array(np.ones(rows, np.bool_)),
        "extended_file_metadata": pa.array(np.ones(rows, np.bool_)),
    }
    columns = [new[name] if name in new else files[name] for name in REMOVE_SCHEMA.names]
    return pa.table(columns, schema=REMOVE_SCHEMA)
