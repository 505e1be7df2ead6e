"""The result of ``describe-detail --storage``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltactl.operations.short_repr import ShortRepr
from deltactl.units import DAY_MS, GIB, format_timestamp


class Reason(StrEnum):
    """What a file is for. Each listed file has one reason."""

    LIVE = "live"
    TIME_TRAVEL = "time_travel"
    CHANGE_DATA = "change_data"
    DELETION_VECTORS = "deletion_vectors"
    NEEDED_ELSEWHERE = "needed_elsewhere"
    REMOVABLE = "removable"
    UNREFERENCED = "unreferenced"
    KEPT = "kept"
    COMMITS = "commits"
    CHECKPOINTS = "checkpoints"
    SIDECARS = "sidecars"
    OTHER_LOG_FILES = "other_log_files"
    MANIFESTS = "manifests"
    QUARANTINE = "quarantine"
    DELTACTL = "deltactl"
    OTHER_TABLES = "other_tables"
    OTHER_FILES = "other_files"


@dataclass(frozen=True, slots=True)
class Use:
    """Files and bytes."""

    files: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"files": self.files, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class VersionUse:
    """Files that versions before ``version`` need, and no later one; times in ms since 1970.

    ``version`` removed them, or wrote them, if they are change data; it is ``None`` if the log has
    no commit of it any more. Without ``removable_ms``, it is not known when they will be removable.
    """

    version: int | None
    removed_ms: int | None
    removable_ms: int | None
    use: Use

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        times = {"removed_at": self.removed_ms, "removable_at": self.removable_ms}
        shown = {name: None if ms is None else format_timestamp(ms) for name, ms in times.items()}
        return {"version": self.version, **shown, **self.use.to_dict()}


@dataclass(frozen=True, slots=True, repr=False)
class StorageReport(ShortRepr):
    """The files below the root of a table, by reason; ``price`` is that of a GiB for a month.

    ``removable``: by reason of ``vacuum``. ``versions``: the files kept for time travel, change
    data and deletion vectors included; ``days``: the same by the day (ms) on which they become
    removable. ``cleanup``: the log files that a log cleanup deletes, if it is possible.
    ``halving_ms``: the longest retention with which a vacuum halves all bytes, if there is one.
    ``is_listed``: whether the files were listed, and not read from an inventory. ``not_counted``:
    what else the store may keep, in its terms.
    """

    version: int
    table_id: str
    is_listed: bool
    retention_ms: int
    reasons: dict[Reason, Use]
    removable: Sequence[dict[str, Any]]
    versions: Sequence[VersionUse]
    days: Sequence[tuple[int, Use]]
    cleanup: Use | None
    halving_ms: int | None
    price: float | None = None
    not_counted: str | None = None

    @property
    def total(self) -> Use:
        """Return the sum of all reasons."""
        uses = self.reasons.values()
        return Use(sum(it.files for it in uses), sum(it.bytes for it in uses))

    @property
    def bytes_after_vacuum(self) -> int:
        """Return the bytes without those that a vacuum removes now."""
        return self.total.bytes - self.reasons.get(Reason.REMOVABLE, Use(0, 0)).bytes

    @property
    def bytes_after_cleanup(self) -> int:
        """Return the bytes after a vacuum and a log cleanup."""
        return self.bytes_after_vacuum - (0 if self.cleanup is None else self.cleanup.bytes)

    def cost(self, size_bytes: int) -> float | None:
        """Return the price of some bytes for a month; ``None`` without a price."""
        return None if self.price is None else size_bytes / GIB * self.price

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; sizes in bytes, times RFC 3339."""
        stages = {
            "now": self.total.bytes,
            "after_vacuum": self.bytes_after_vacuum,
            "after_cleanup": self.bytes_after_cleanup,
        }
        return {
            "source": "listing" if self.is_listed else "inventory",
            "price": self.price,
            "not_counted": self.not_counted,
            **self.total.to_dict(),
            "bill": {
                name: {"bytes": size, "cost": self.cost(size)} for name, size in stages.items()
            },
            "retention_ms": self.retention_ms,
            "halving_retention_ms": self.halving_ms,
            "by_reason": [
                {"reason": reason.value, **use.to_dict(), "cost": self.cost(use.bytes)}
                for reason, use in self.reasons.items()
            ],
            "removable": [
                {name: row[name] for name in ("reason", "files", "bytes")} for row in self.removable
            ],
            "log_cleanup": None if self.cleanup is None else self.cleanup.to_dict(),
            "by_version": [it.to_dict() for it in self.versions],
            "removable_by_day": [
                {"day": format_timestamp(day * DAY_MS)[:10], **use.to_dict()}
                for day, use in self.days
            ],
        }
