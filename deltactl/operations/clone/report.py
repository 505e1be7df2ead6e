"""The result of a clone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from deltactl.errors import CommitDamagedError
from deltactl.operations.clone.plan import ClonePlan
from deltactl.operations.clone.tasks import Copied
from deltactl.operations.missing_files import Missing, list_missing
from deltactl.operations.short_repr import ShortRepr
from deltactl.units import format_count


@dataclass(frozen=True, slots=True, repr=False)
class CloneReport(ShortRepr):
    """The result of a clone; ``version_after`` of the target is ``None`` if nothing was committed.

    ``files_kept`` were in the target before the run: from an earlier run that did not finish, or
    from the clone that a sync updates. ``is_done``: the target already is this clone. ``notes`` are
    the tables with a note of the shallow clone; ``gone`` are files that a vacuum removed from them
    during the run.
    """

    plan: ClonePlan
    target_uri: str
    engine: str
    engine_reason: str
    version_before: int | None = None
    version_after: int | None = None
    dry_run: bool = False
    is_done: bool = False
    files_copied: int = 0
    bytes_copied: int = 0
    files_kept: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    notes: tuple[str, ...] = ()
    gone: tuple[Missing, ...] = ()

    def with_copies(self, copied: Copied) -> CloneReport:
        """Return the report with the numbers of the files that were copied, or would be."""
        return replace(
            self,
            files_copied=copied.files_copied,
            bytes_copied=copied.bytes_copied,
            files_kept=copied.files_kept,
        )

    def find_error(self) -> CommitDamagedError | None:
        """Return the error of a shallow clone whose files a vacuum removed during the run."""
        if not self.gone:
            return None
        return CommitDamagedError(
            f"the clone was created, but {format_count(len(self.gone), 'file', 'files')} of its "
            f"source cannot be read: {list_missing(self.gone)}",
            hint="Delete the clone, then clone the latest version: a vacuum removed files of the "
            "source during the run.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        plan = self.plan
        return {
            "target": self.target_uri,
            "kind": "deep" if plan.deep else "shallow",
            "source_version": plan.version,
            "predicate": plan.predicate,
            "files": plan.num_files,
            "bytes": plan.size_bytes,
            "vector_files": plan.num_vectors,
            "already_cloned": self.is_done,
            "files_copied": self.files_copied,
            "bytes_copied": self.bytes_copied,
            "files_kept": self.files_kept,
            "files_added": self.files_added,
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
            "noted_in": list(self.notes),
            "gone": [asdict(it) for it in self.gone],
        }
