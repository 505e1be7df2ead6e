"""The result of a check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deltactl.operations.check.findings import count_by_severity
from deltactl.operations.check.options import CheckOptions
from deltactl.operations.check.tasks import BatchResult
from deltactl.operations.short_repr import ShortRepr


@dataclass(slots=True)
class CheckedCounts:
    """The extent of the check. ``num_gone``: files of older versions that no longer exist.

    ``num_files`` and ``size_bytes`` are those of the version; ``num_checked`` files of them (and of
    older versions, if requested) were checked. ``num_digests`` of rows were compared.
    """

    num_commits: int = 0
    num_checkpoints: int = 0
    num_compacted: int = 0
    num_checksums: int = 0
    num_files: int = 0
    size_bytes: int = 0
    num_checked: int = 0
    num_rows: int = 0
    num_vectors: int = 0
    num_gone: int = 0
    num_digests: int = 0

    def take(self, batch: BatchResult) -> None:
        """Add the counts of a batch."""
        self.num_checked += batch.num_files
        self.num_rows += batch.num_rows
        self.num_vectors += batch.num_vectors
        self.num_gone += batch.num_gone


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(ShortRepr):
    """The outcome of a check.

    ``version`` is ``None`` if no version can be rebuilt. ``findings`` has the columns of
    ``findings.FINDINGS``; ``notes`` list parts that were not checked, with reasons. ``unsupported``
    is an error message: the table needs a reader feature that deltactl does not support.
    """

    _SHOWN = ("findings.num_rows",)

    version: int | None
    options: CheckOptions
    engine: str
    engine_reason: str
    counts: CheckedCounts
    findings: pa.Table = field(repr=False)
    notes: tuple[str, ...] = ()
    unsupported: str | None = None

    @property
    def is_sound(self) -> bool:
        """Return whether there are no findings."""
        return bool(self.findings.num_rows == 0)

    def count_codes(self) -> dict[str, int]:
        """Return the number of findings of each code."""
        return dict(sorted(Counter(self.findings["code"].to_pylist()).items()))

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        counts = self.counts
        return {
            "version": self.version,
            "sound": self.is_sound,
            "depth": self.options.depth.name.lower(),
            "sample": self.options.sample,
            "all_versions": self.options.all_versions,
            "commits": counts.num_commits,
            "checkpoints": counts.num_checkpoints,
            "compacted": counts.num_compacted,
            "checksums": counts.num_checksums,
            "files": counts.num_files,
            "bytes": counts.size_bytes,
            "files_checked": counts.num_checked,
            "rows_checked": counts.num_rows,
            "deletion_vectors": counts.num_vectors,
            "files_gone": counts.num_gone,
            "digests": counts.num_digests,
            **count_by_severity(self.findings),
            "codes": self.count_codes(),
            "findings": self.findings.to_pylist(),
            "notes": list(self.notes),
        }
