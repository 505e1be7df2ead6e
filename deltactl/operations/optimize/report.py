"""The result of an optimize."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deltactl.errors import DeltactlError, explain_rest, find_worst_error
from deltactl.operations.file_sizes import FileSizes
from deltactl.operations.optimize.layout.plan import LayoutPlan
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.plan import OptimizePlan
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.operations.short_repr import ShortRepr
from deltactl.operations.skipping.report import LayoutReport
from deltactl.units import format_count

_COUNTS = (
    "files_added", "files_removed", "bytes_added", "bytes_removed", "rows_rewritten",
    "deletion_vectors_removed", "carried_bins", "carried_rows", "rounds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BinFailure:
    """A bin that was not committed: its files are unchanged.

    ``partition`` is the Hive directory name of its partition; empty without partitions. ``error``
    is the cause; ``None`` for a bin that other writers changed.
    """

    files: int
    bytes: int
    reason: str
    partition: str = ""
    error: DeltactlError | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the form of a failure in JSON; sizes in bytes."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "reason": self.reason,
            "partition": self.partition,
        }


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The bins that a stopped run did not begin, or did not finish: their files are unchanged.

    ``largest_bytes``: the input bytes of the largest one. ``partitions`` are Hive directory names.
    """

    bins: int = 0
    files: int = 0
    bytes: int = 0
    largest_bytes: int = 0
    partitions: frozenset[str] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "bins": self.bins,
            "files": self.files,
            "bytes": self.bytes,
            "partitions": len(self.partitions),
        }


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeReport(ShortRepr):
    """The outcome of an optimize.

    ``versions`` are those committed; ``strays`` names orphaned outputs, not committed, that could
    not be removed; ``strays_removed`` those that failed or repeated attempts of an engine wrote and
    that were removed. ``rewritten`` counts row groups, also those of bins that were not committed;
    for a dry run, what would be done. ``dropped`` are the bins that other writers took, in any
    round; they were planned again, and ``conflicts`` are those left after the last of ``rounds``.
    ``carried_bins`` were committed with deletions of others: ``carried_rows`` rows of outputs.
    ``skipped`` says how much work was pending if it was below the threshold. ``skipping`` says for
    a dry run what lookups skip before and after. ``sizes_after`` counts the considered files after
    the commits. ``interrupted``: the run was stopped, and
    ``unfinished`` are the bins that it did not do, if any. ``error``: set if a run had work and
    committed nothing: the first failure, else the conflict of every bin.
    """

    _SHOWN = ("plan.files.num_rows", "plan.bytes_to_rewrite")

    plan: OptimizePlan
    engine: str
    engine_reason: str
    dry_run: bool = False
    versions: tuple[int, ...] = ()
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    rows_rewritten: int = 0
    deletion_vectors_removed: int = 0
    rewritten: RewriteCounts | None = None
    failures: tuple[BinFailure, ...] = ()
    conflicts: tuple[BinFailure, ...] = ()
    dropped: tuple[BinFailure, ...] = ()
    carried_bins: int = 0
    carried_rows: int = 0
    rounds: int = 0
    strays: tuple[str, ...] = ()
    strays_removed: tuple[str, ...] = ()
    interrupted: bool = False
    unfinished: Unfinished = Unfinished()
    run_id: str | None = field(default=None, compare=False)
    skipped: str | None = None
    options: OptimizeOptions = field(default=OptimizeOptions(), repr=False, compare=False)
    skipping: LayoutReport | None = None
    sizes_after: FileSizes | None = None
    error: DeltactlError | None = field(default=None, compare=False)

    @property
    def verified(self) -> tuple[str, ...]:
        """Return how the rewritten rows were verified before the commit.

        ``rows``: every row of the outputs was compared with the inputs, or a digest of all rows.
        ``bytes``: row groups were copied byte for byte. ``counts``: numbers of rows and nulls.
        """
        if not self.versions:
            return ()
        if self.options.verify == "full":
            return ("rows",)
        layout, counts = self.plan.layout, self.rewritten
        if layout is not None:
            return ("rows", "counts") if None in layout.requests else ("rows",)
        if counts is None or not counts.groups_copied:
            return ("counts",)
        return ("bytes", "counts") if counts.groups_encoded else ("bytes",)

    @property
    def version_before(self) -> int:
        """Return the version of the plan."""
        return self.plan.version

    @property
    def version_after(self) -> int:
        """Return the last version committed; the version of the plan if none was."""
        return self.versions[-1] if self.versions else self.plan.version

    @property
    def caught_up_version(self) -> int | None:
        """Return the version up to which all partitions are optimized; ``None`` if some are not.

        If a run excluded, deferred or failed to rewrite files, a later one with ``since_version``
        must not skip them.
        """
        options = self.options
        deferred = (
            options.where, options.partitions, options.max_bytes, options.skip_hot_ms, self.skipped
        )  # fmt: skip
        if any(it is not None for it in deferred) or self.failures or self.conflicts:
            return None
        if self.dry_run or self.interrupted or options.purge:
            return None
        before, after = self.version_before, self.version_after
        # Commits of other writers in between were not considered.
        return after if after - before == len(self.versions) else before

    def find_worst_failure(self) -> DeltactlError:
        """Return the cause of the failures that matters most; there must be a failure."""
        return find_worst_error(it.error for it in self.failures if it.error is not None)

    def find_error(self) -> DeltactlError | None:
        """Return the error of a run that committed only a part, because of failures."""
        if not self.failures:
            return None
        cause = self.find_worst_failure()
        files = format_count(sum(it.files for it in self.failures), "file was", "files were")
        hint = (cause.hint or "Fix the cause, then rerun.") + f" {self.committed.capitalize()}."
        return explain_rest(cause, f"{files} not rewritten: {cause.message}", hint=hint)

    @property
    def committed(self) -> str:
        """Return what was committed, as the end of a sentence."""
        if not self.versions:
            return "nothing was committed"
        removed = format_count(self.files_removed, "file")
        versions = ", ".join(map(str, self.versions))
        return f"{removed} became {self.files_added} in version {versions}"

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        return {
            "target_size_bytes": self.plan.target_bytes,
            "min_file_size_bytes": self.plan.min_bytes,
            "plan": {
                "files": self.plan.files.num_rows,
                "bytes": self.plan.bytes_to_rewrite,
                "bins": self.plan.num_bins,
                "partitions": self.plan.partitions.to_pylist(),
                "considered_files": self.plan.considered_files,
                "considered_bytes": self.plan.considered_bytes,
                "left_alone": dict(self.plan.left_alone),
                "sizes_before": self.plan.sizes_before.to_dict(),
                "sizes_after": self.plan.sizes_after.to_dict(),
                "layout": None if self.plan.layout is None else self._layout(self.plan.layout),
            },
            **{
                name: list(getattr(self, name)) for name in ("versions", "strays", "strays_removed")
            },
            **{name: getattr(self, name) for name in _COUNTS},
            "verified": list(self.verified),
            "rewrite": {
                "mode": self.options.rewrite,
                **(self.rewritten or RewriteCounts()).to_dict(),
            },
            "failures": [it.to_dict() for it in self.failures],
            "conflicts": [it.to_dict() for it in self.conflicts],
            "dropped": [it.to_dict() for it in self.dropped],
            "interrupted": self.interrupted,
            "unfinished": self.unfinished.to_dict(),
            "run_id": self.run_id,
        }

    def _layout(self, layout: LayoutPlan) -> dict[str, Any]:
        return {
            "kind": layout.request.kind,
            "layout": layout.request.layout,
            "columns": layout.request.names,
            "files_after": sum(layout.files_after),
            "placed_bytes": layout.placed_bytes,
            "skipping": None if self.skipping is None else self.skipping.to_dict(),
        }
