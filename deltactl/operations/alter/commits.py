"""The commits of an alter, and when commits of other writers do not allow them.

Source: the conflict rules of Delta on Spark: a change of metadata or protocol allows others to add
and to remove files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ConflictError
from deltactl.log.replay import Tail
from deltactl.log.writing.actions import Actions
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.features import Operation, ensure_supported


def ensure_same_table(concurrent: Tail) -> None:
    """Raise ``ConflictError`` if another writer changed the metadata or the protocol."""
    news = concurrent.non_file_actions
    if news.metadata is not None or news.protocol is not None:
        raise ConflictError(
            "another writer changed the table's schema, properties or protocol during the run",
            hint="Rerun: the change is then planned for the new state.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCommit:
    """Change metadata and protocol; ``needs_row_ids``: each file must have row ids."""

    description: Description
    read_version: int
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    enables_timestamps: bool = False
    needs_row_ids: bool = False

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        ensure_supported(base.protocol, base.metadata, Operation.ALTER)
        return Actions(
            description=self.description,
            read_version=self.read_version,
            protocol=self.protocol,
            metadata=self.metadata,
            enables_timestamps=self.enables_timestamps,
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        ensure_same_table(concurrent)
        if self.needs_row_ids and concurrent.adds["base_row_id"].null_count:
            raise ConflictError(
                "another writer added files without row ids during the run",
                hint="Rerun: these files then get row ids.",
            )


@dataclass(slots=True)
class BackfillCommit:
    """Add files again, with row ids; ``files`` are rows of ``ADD_SCHEMA`` that have none."""

    description: Description
    read_version: int
    files: pa.Table = field(repr=False)

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        ensure_supported(base.protocol, base.metadata, Operation.ALTER)
        return Actions(
            description=self.description,
            read_version=self.read_version,
            added=self.files,
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``. Files that others changed are left to the next commit."""
        ensure_same_table(concurrent)
        for others in (concurrent.adds, concurrent.removes):
            changed = pc.is_in(self.files["path"], value_set=others["path"])
            self.files = self.files.filter(pc.invert(changed))
