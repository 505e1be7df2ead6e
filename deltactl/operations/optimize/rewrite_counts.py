"""Count row groups that are copied or encoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deltactl.parquet.splice.copy_conditions import CopyRefusal, GroupChoice
from deltactl.parquet.splice.source import Group


@dataclass(slots=True)
class RewriteCounts:
    """Row groups and bytes of the inputs, copied and encoded; ``reasons`` counts row groups.

    ``copied_because`` counts row groups that could only be copied. If only some columns of a row
    group are copied, it counts as copied, and its reasons are also counted. ``estimated_from``: the
    number of footers that were read, if it was not all of them.
    """

    groups_copied: int = 0
    bytes_copied: int = 0
    groups_encoded: int = 0
    bytes_encoded: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    copied_because: Counter[str] = field(default_factory=Counter)
    estimated_from: int | None = None

    def scale(self, factor: float) -> RewriteCounts:
        """Return an estimate for ``factor`` times as many row groups."""
        return RewriteCounts(
            round(self.groups_copied * factor),
            round(self.bytes_copied * factor),
            round(self.groups_encoded * factor),
            round(self.bytes_encoded * factor),
            _scale(self.reasons, factor),
            _scale(self.copied_because, factor),
        )

    def add(self, other: RewriteCounts) -> None:
        """Add the counts of another task."""
        self.groups_copied += other.groups_copied
        self.bytes_copied += other.bytes_copied
        self.groups_encoded += other.groups_encoded
        self.bytes_encoded += other.bytes_encoded
        self.reasons.update(other.reasons)
        self.copied_because.update(other.copied_because)
        if other.estimated_from is not None:
            self.estimated_from = (self.estimated_from or 0) + other.estimated_from

    def encode(self, groups: int, size_bytes: int, reasons: Iterable[CopyRefusal]) -> None:
        """Count row groups that are encoded, for one or several reasons."""
        self.groups_encoded += groups
        self.bytes_encoded += size_bytes
        for reason in {reason.value for reason in reasons}:
            self.reasons[reason] += groups

    def copy(self, group: Group, copied_bytes: int, choice: GroupChoice) -> None:
        """Count a row group that is copied, perhaps without some columns."""
        self.groups_copied += 1
        self.bytes_copied += copied_bytes
        self.bytes_encoded += group.compressed_bytes - copied_bytes
        self.reasons.update({reason.value for reason in choice.encoded.values()})

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; sizes in bytes."""
        return {
            "row_groups_copied": self.groups_copied,
            "bytes_copied": self.bytes_copied,
            "row_groups_encoded": self.groups_encoded,
            "bytes_encoded": self.bytes_encoded,
            "encoded_because": dict(sorted(self.reasons.items())),
            "copied_because": dict(sorted(self.copied_because.items())),
            "estimated_from_files": self.estimated_from,
        }


def _scale(counts: Counter[str], factor: float) -> Counter[str]:
    return Counter({reason: round(count * factor) for reason, count in counts.items()})
