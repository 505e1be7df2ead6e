"""The result of a restore."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from deltactl.errors import CommitDamagedError
from deltactl.log.lifetimes import VersionRange
from deltactl.operations.missing_files import Missing, list_missing
from deltactl.operations.restore.plan import RestorePlan
from deltactl.operations.short_repr import ShortRepr
from deltactl.units import format_count


@dataclass(frozen=True, slots=True, repr=False)
class RestoreReport(ShortRepr):
    """The result of a restore; ``version_after`` is ``None`` if nothing was committed.

    ``ends`` are versions that the next vacuum makes unreadable. ``gone`` are restored files that no
    longer exist: a vacuum removed them during the run.
    """

    _SHOWN = ("plan.added.num_rows", "plan.removed.num_rows")

    plan: RestorePlan
    engine: str
    version_after: int | None = None
    dry_run: bool = False
    ends: tuple[VersionRange, ...] = ()
    gone: tuple[Missing, ...] = ()

    def find_error(self, table: str) -> CommitDamagedError | None:
        """Return the error of a restore whose files a vacuum removed; ``table`` is its address."""
        if not self.gone:
            return None
        return CommitDamagedError(
            f"version {self.version_after} is committed, but "
            f"{format_count(len(self.gone), 'restored file is', 'restored files are')} missing: "
            f"{list_missing(self.gone)}",
            hint="Wait until the vacuum that removed the files has ended. If deltactl ran this "
            f"vacuum, run `deltactl vacuum {shlex.quote(table)} --undo last`. Otherwise, run "
            f"`deltactl restore {shlex.quote(table)} --to-version {self.plan.version}` to undo "
            "this restore.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope without the changes; sizes in bytes."""
        plan = self.plan
        return {
            "target_version": plan.target_version,
            "predicate": plan.predicate,
            "files_restored": plan.added.num_rows,
            "bytes_restored": plan.added_bytes,
            "files_removed": plan.removed.num_rows,
            "bytes_removed": plan.removed_bytes,
            "versions_undone": list(plan.undone),
            "files_after": plan.files_after,
            "bytes_after": plan.bytes_after,
            "files_lost": plan.lost["path"].to_pylist(),
            "rows_lost": plan.lost_rows,
            "missing": [asdict(it) for it in plan.missing],
            "gone": [asdict(it) for it in self.gone],
            "versions_ended_by_vacuum": [list(it) for it in self.ends],
        }
