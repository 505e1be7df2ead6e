"""Options of ``vacuum``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deltactl.errors import UsageError
from deltactl.operations.thresholds import Need
from deltactl.option_names import option
from deltactl.units import DAY_MS, DurationMs

Mode = Literal["auto", "full", "lite"]


@dataclass(frozen=True, slots=True)
class VacuumOptions:
    """Parsed options of ``vacuum``; times in milliseconds.

    ``retain_ms`` ``None``: use the table property. ``also_keep_for`` are addresses of tables
    that use files of this one. ``inventory`` is read instead of a listing; ``dump_listing`` is
    written from a listing; both are addresses of files. ``need``: run only if at least this much is
    removable.

    By default, only files that a commit removed are removed. ``include_orphans`` is for runs that
    somebody watches: also files that no action names, if a Delta writer certainly wrote them.
    ``include_unknown``: all files that no action names.
    """

    retain_ms: DurationMs | None = None
    mode: Mode = "auto"
    inventory: str | None = None
    dump_listing: str | None = None
    keep_versions: tuple[int, ...] = ()
    keep_last: int | None = None
    force_retention: bool = False
    max_files: int | None = None
    max_orphan_fraction: float = 0.5
    include_orphans: bool = False
    include_unknown: bool = False
    ignore_manifests: bool = False
    also_keep_for: tuple[str, ...] = ()
    quarantine: bool = False
    quarantine_for_ms: DurationMs = 7 * DAY_MS
    journal: bool = True
    need: Need | None = None

    def __post_init__(self) -> None:
        """Refuse invalid or contradictory options.

        Raises:
            UsageError: naming the option.
        """
        for name, value in (
            (option("max_files"), self.max_files),
            (option("keep_last"), self.keep_last),
        ):
            if value is not None and value <= 0:
                raise UsageError(f"{name} must be more than zero")
        if self.retain_ms is not None and self.retain_ms < 0:
            raise UsageError(f"{option('retain')} must not be negative")
        if not 0 <= self.max_orphan_fraction <= 1:
            raise UsageError(f"{option('max_orphan_fraction')} must be between 0 and 1")
        if self.quarantine and not self.journal:
            raise UsageError(
                f"{option('quarantine')} cannot be combined with {option('journal', False)}: the "
                "journal lists the files in the quarantine",
                hint=f"Omit {option('journal', False)}.",
            )
        if self.inventory is not None and self.mode == "lite":
            raise UsageError(
                f"{option('inventory')} and {option('mode', 'lite')} cannot be combined: "
                f"{option('mode', 'lite')} uses no list of files",
                hint=f"Omit {option('inventory')} or {option('mode', 'lite')}.",
            )
        if self.dump_listing is not None and self.mode == "lite":
            raise UsageError(
                f"{option('dump_listing')} needs a listing, but {option('mode', 'lite')} makes none"
            )
        if self.dump_listing is not None and self.inventory is not None:
            raise UsageError(
                f"{option('dump_listing')} and {option('inventory')} cannot be combined: with "
                f"{option('inventory')}, the files are not listed",
                hint=f"Omit {option('dump_listing')} or {option('inventory')}.",
            )

    @property
    def needs_listing(self) -> bool:
        """Return whether the options need a listing of all files."""
        return self.mode == "full" or bool(self.inventory or self.dump_listing)
