"""The commits of an alter, and when commits of other writers do not allow them.

Source: the conflict rules of Delta on Spark: a change of metadata or protocol allows others to add
and to remove files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ConflictError
from deltactl.log.replay import Tail
from deltactl.log.writing.actions import Actions
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import RESTORE, Description
from deltactl.operations.alter.steps import Step
from deltactl.operations.optimize.conflicts import ensure_same_files
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.properties import PROTECTED_BEFORE


def ensure_same_table(concurrent: Tail) -> None:
    """Raise ``ConflictError`` if another writer changed the metadata or the protocol."""
    if concurrent.changes_table:
        raise _conflict("changed the table's schema, properties or protocol")


def _conflict(what: str) -> ConflictError:
    return ConflictError(
        f"another writer {what} during the run",
        hint="Rerun: what is left is then planned for the new state.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCommit:
    """Change metadata, protocol and domains, as a step says.

    ``trace`` is the column of files that must be empty after the commit.
    """

    description: Description
    read_version: int
    step: Step
    trace: str | None = None

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        ensure_supported(base.protocol, base.metadata, Operation.ALTER)
        step, metadata = self.step, self.step.metadata
        if step.drops is not None and step.drops.reader and metadata is not None:
            protected = {**metadata.configuration, PROTECTED_BEFORE: str(base.version + 1)}
            metadata = replace(metadata, configuration=protected)
        return Actions(
            description=self.description,
            read_version=self.read_version,
            protocol=step.protocol,
            metadata=metadata,
            enables_timestamps=step.enables_timestamps,
            domains=step.domains,
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        ensure_same_table(concurrent)
        if self.step.rewrite is not None:
            ensure_same_files(concurrent)
        adds = concurrent.adds
        if self.step.needs_row_ids and adds["base_row_id"].null_count:
            raise _conflict("added files without row ids")
        if self.trace is not None and adds[self.trace].null_count < adds.num_rows:
            raise _conflict("added files that use the feature")
        drops_domains = self.step.drops is not None or self.step.domains
        if drops_domains and concurrent.non_file_actions.domains:
            raise _conflict("changed domain metadata")
        if self.step.metadata is not None and RESTORE in concurrent.operations:
            raise _conflict("restored an earlier version")


@dataclass(slots=True)
class FilesCommit:
    """Add files again with other row ids (rows of ``ADD_SCHEMA``), or write tombstones."""

    description: Description
    read_version: int
    added: pa.Table | None = field(default=None, repr=False)
    removed: pa.Table | None = field(default=None, repr=False)

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        ensure_supported(base.protocol, base.metadata, Operation.ALTER)
        return Actions(
            description=self.description,
            read_version=self.read_version,
            added=() if self.added is None else self.added,
            removed=self.removed,
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``. Files that others changed are left to the next commit."""
        ensure_same_table(concurrent)
        for others in (concurrent.adds, concurrent.removes):
            if self.added is not None:
                changed = pc.is_in(self.added["path"], value_set=others["path"])
                self.added = self.added.filter(pc.invert(changed))
