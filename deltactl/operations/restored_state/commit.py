"""The commit of a restore, and of the sync of a clone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from deltactl.errors import ConflictError
from deltactl.log.replay import Tail
from deltactl.log.writing.action_lines import all_change_data, as_removes
from deltactl.log.writing.actions import Actions
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.operations.restored_state.state import RestoredState
from deltactl.protocol.actions import Txn


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCommit:
    """Add and remove files (rows of ``ADD_SCHEMA``), and restore a state.

    Any change of other writers conflicts, except commits that have only a commitInfo (for example
    of a vacuum) or a ``txn``.

    Attributes:
        description: of the commit.
        read_version: the version with which the files were compared.
        added: the files to add.
        removed: the files to remove.
        state: the state to restore; ``None``: it stays as it is.
        ensure: is called before each attempt; raises an error if a state does not allow the commit.
        txn: the transaction identifier to write.
        done: the verb in messages, for example: nothing was ``restored``.
    """

    description: Description
    read_version: int
    added: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)
    state: RestoredState | None
    ensure: Callable[[CommitBase], None]
    txn: Txn | None = None
    done: str = "restored"

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        self.ensure(base)
        state = self.state
        return Actions(
            description=self.description,
            read_version=self.read_version,
            protocol=None if state is None else state.protocol,
            metadata=None if state is None else state.metadata,
            enables_timestamps=state is not None and state.enables_timestamps,
            added=all_change_data(self.added),
            removed=as_removes(self.removed, data_change=True),
            domains=() if state is None else state.domains,
            txn=self.txn,
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        news = concurrent.non_file_actions
        reason = None
        if concurrent.add_rows.num_rows or concurrent.remove_rows.num_rows:
            reason = "another writer added or removed files"
        elif news.metadata is not None or news.protocol is not None:
            reason = "another writer changed the table's schema, properties or protocol"
        elif news.domains:
            reason = "another writer changed the table's domain metadata"
        if reason is not None:
            raise ConflictError(
                f"nothing was {self.done}: {reason} during the run",
                hint="Run `deltactl describe-history` to see the other writer's change. Rerun only "
                "if you want to undo that change too.",
            )
