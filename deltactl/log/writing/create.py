"""Create version 0 of a table, with put-if-absent.

Source: PROTOCOL.md, "Delta Log Entries", "Commit Provenance", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.log.writing.action_lines import (
    NewFile,
    add_line,
    all_change_data,
    domain_line,
    file_lines,
    line,
)
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_attempts import CommitBase
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.put import Sleep, put_commit
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN, RowIds, assign_row_ids
from deltactl.protocol.action_nodes import encode_metadata, encode_protocol, encode_txn
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable(Description):
    """The first version of a table; ``files`` are its data files."""

    protocol: Protocol
    metadata: Metadata
    files: Sequence[NewFile]
    txn: Txn


def create_table(
    store: Store, table: NewTable, *, clock: Clock, sleep: Sleep, files: AddedFiles
) -> bool:
    """Commit version 0; return whether the stored commit is the one of this run.

    Raises:
        FilesGoneError: files of the table do not exist; nothing was committed.
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        CommitDamagedError: the commit succeeded, and then it or its files were lost.
        StorageError: the store failed, and no commit exists.
    """
    lines = [
        line("protocol", encode_protocol(table.protocol)),
        line("metaData", encode_metadata(table.metadata)),
        *(add_line(file, None, data_change=True) for file in table.files),
        line("txn", encode_txn(table.txn)),
    ]
    return _put(store, table, table.metadata, lines, clock=clock, sleep=sleep, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClone(Description):
    """The first version of a clone; ``files`` are rows of ``ADD_SCHEMA``."""

    protocol: Protocol
    metadata: Metadata
    files: pa.Table = field(repr=False)
    domains: tuple[DomainMetadata, ...] = ()
    txn: Txn | None = None


def create_clone(
    store: Store, clone: NewClone, *, clock: Clock, sleep: Sleep, files: AddedFiles
) -> bool:
    """Commit version 0; return whether the stored commit is the one of this run.

    The order of the actions is that of Delta on Spark.

    Raises:
        SafetyError: row ids cannot be assigned.
        FilesGoneError: files of the table do not exist; nothing was committed.
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        CommitDamagedError: the commit succeeded, and then it or its files were lost.
        StorageError: the store failed, and no commit exists.
    """
    lines = _clone_lines(clone)
    return _put(store, clone, clone.metadata, lines, clock=clock, sleep=sleep, files=files)


def _clone_lines(clone: NewClone) -> Iterator[str]:
    """Yield the actions. Files keep their row ids, so that no two rows have the same id."""
    domains = {domain.domain: domain for domain in clone.domains}
    files = all_change_data(clone.files)
    row_ids = RowIds.of(CommitBase(-1, clone.protocol, clone.metadata, domains))
    for column in ("base_row_id", "default_row_commit_version"):
        if row_ids is None or column != "base_row_id":
            position = files.schema.get_field_index(column)
            files = files.set_column(position, column, pa.nulls(files.num_rows, pa.int64()))
    if row_ids is not None:
        files = assign_row_ids(files, row_ids, 0)
        if row_ids.grew:
            domains[ROW_TRACKING_DOMAIN] = row_ids.domain()
    yield line("metaData", encode_metadata(clone.metadata))
    yield from file_lines("add", files, clone.metadata.partition_keys)
    yield line("protocol", encode_protocol(clone.protocol))
    yield from map(domain_line, domains.values())
    if clone.txn is not None:
        yield line("txn", encode_txn(clone.txn))


def _put(
    store: Store,
    description: Description,
    metadata: Metadata,
    lines: Iterable[str],
    *,
    clock: Clock,
    sleep: Sleep,
    files: AddedFiles,
) -> bool:
    txn_id, now_ms = clock.new_id(), clock.now_ms()
    is_on = TableProperties(metadata.configuration).in_commit_timestamps
    times = {**({"inCommitTimestamp": now_ms} if is_on else {}), "timestamp": now_ms}
    info = commit_info(times, description, read_version=-1, txn_id=txn_id)
    content = ("\n".join([line("commitInfo", info), *lines]) + "\n").encode()
    name = f"{LOG_DIR}/{commit_name(0)}"
    files.ensure_present(name, content, metadata.partition_keys)
    if not put_commit(store, name, content, sleep):
        return False
    files.ensure_still_present(0, metadata)
    return True
