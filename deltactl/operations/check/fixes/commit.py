"""The commit of a fix that changes file entries: it has the operation FSCK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ConflictError
from deltactl.log.audit.path_texts import names_below_root
from deltactl.log.commits.changes import sum_rows
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import Actions, as_removes, with_data_change
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import RESTORE, Description, engine_info, run_tags
from deltactl.operations.after_commit import run_after_commit, warn_of_manifests
from deltactl.operations.append_only import find_append_only_refusal
from deltactl.operations.check.fixes.report import FixReport
from deltactl.operations.run_context import RunContext
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.stats import num_records

FSCK: Final = "FSCK"
"""Delta's operation name of a commit that removes file entries from the log."""


def ensure_may_remove(base: CommitBase) -> None:
    """Check that the state of a table allows to remove rows.

    Raises:
        UnsupportedFeatureError: a table feature forbids it.
        SafetyError: the table is append-only.
    """
    ensure_supported(base.protocol, base.metadata, Operation.REMOVE)
    refusal = find_append_only_refusal(base)
    if refusal is not None:
        raise refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCommit:
    """The commit that removes entries, and adds others for the same files.

    It conflicts with each other writer that changed one of the files or the table.

    Attributes:
        uri: the root of the table.
        description: of the commit.
        read_version: the version in which the files are live.
        removed: the live files to remove, rows of ``ADD_SCHEMA``.
        added: the files to add, rows of ``ADD_SCHEMA``.
        ensure: is called before each attempt; raises an error if the commit must not be made.
        needs_rows: whether a removal of any other rows conflicts too.
    """

    uri: str
    description: Description
    read_version: int
    removed: pa.Table = field(repr=False)
    added: pa.Table = field(default_factory=ADD_SCHEMA.empty_table, repr=False)
    ensure: Callable[[CommitBase], None] = ensure_may_remove
    needs_rows: bool = False

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        self.ensure(base)
        removed = self.removed.append_column("num_records", num_records(self.removed["stats"]))
        return Actions(
            description=self.description,
            read_version=self.read_version,
            added=with_data_change(self.added, True),
            removed=as_removes(removed, data_change=True),
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        reason = None
        if concurrent.changes_table:
            reason = "another writer changed the table's schema, properties or protocol"
        elif self._is_touched(concurrent):
            reason = "another writer added or removed the same files, or removed rows"
        elif RESTORE in concurrent.operations:  # it may need files that it does not add
            reason = "another writer restored an older version"
        if reason is not None:
            raise ConflictError(f"nothing was committed: {reason}", hint="Rerun.")

    def _is_touched(self, concurrent: Tail) -> bool:
        """Return whether commits add or remove one of the files, by any text of its path."""
        is_change = pc.fill_null(concurrent.removes["data_change"], True)
        if self.needs_rows and pc.any(is_change).as_py():
            return True
        ours = names_below_root(self.uri, self.removed).combine_chunks()
        return any(
            pc.any(pc.is_in(names_below_root(self.uri, files), value_set=ours)).as_py()
            for files in (concurrent.adds, concurrent.removes)
            if files.num_rows
        )


def describe_commit(
    report: FixReport, removed: pa.Table, added: pa.Table, context: RunContext
) -> Description:
    """Return the description of a commit; the metrics count the rows that readers lose."""
    metrics = {
        "numRemovedFiles": str(removed.num_rows),
        "numRemovedBytes": str(sum_sizes(removed)),
        "numAddedFiles": str(added.num_rows),
    }
    rows = sum_rows(removed)
    if rows is not None and not added.num_rows:
        metrics["numDeletedRows"] = str(rows)
    return Description(
        operation=FSCK,
        parameters={"fix": report.kind.value},
        metrics=metrics,
        engine_info=engine_info(context.engine.name),
        tags=run_tags(context.run_id),
    )


def commit_fix(
    log: DeltaLog, snapshot: Snapshot, draft: FileCommit, report: FixReport, context: RunContext
) -> FixReport:
    """Commit a fix; return its report. The history stays: the fix can be undone by a restore."""
    after = context.transaction(log, CommitBase.of(snapshot)).commit(draft)
    run_after_commit(log, snapshot, after, context, keeps_history=True)
    warn_of_manifests(log, after, context)
    return replace(report, versions=(after.version,))
