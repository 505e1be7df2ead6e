"""Create version 0 of a table: one commit, put if absent.

Source: PROTOCOL.md, "Delta Log Entries", "Commit Provenance", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltactl.clock import Clock
from deltactl.log.writing.action_lines import NewFile, add_line, line
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.put import Sleep, put_commit
from deltactl.protocol.action_nodes import encode_metadata, encode_protocol, encode_txn
from deltactl.protocol.actions import Metadata, Protocol, Txn
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable(Description):
    """The first version of a table; ``files`` have its rows."""

    protocol: Protocol
    metadata: Metadata
    files: Sequence[NewFile]
    txn: Txn


def create_table(store: Store, table: NewTable, *, clock: Clock, sleep: Sleep) -> bool:
    """Commit version 0; return whether the stored one is ours.

    Raises:
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        StorageError: the store failed, and no commit exists.
    """
    txn_id = clock.new_id()
    info = commit_info(_times(table, clock.now_ms()), table, read_version=-1, txn_id=txn_id)
    lines = [
        line("commitInfo", info),
        line("protocol", encode_protocol(table.protocol)),
        line("metaData", encode_metadata(table.metadata)),
        *(add_line(file, None, data_change=True) for file in table.files),
        line("txn", encode_txn(table.txn)),
    ]
    content = ("\n".join(lines) + "\n").encode()
    return put_commit(store, f"{LOG_DIR}/{commit_name(0)}", content, txn_id, sleep)


def _times(table: NewTable, now_ms: int) -> dict[str, int]:
    is_on = TableProperties(table.metadata.configuration).in_commit_timestamps
    return {**({"inCommitTimestamp": now_ms} if is_on else {}), "timestamp": now_ms}
