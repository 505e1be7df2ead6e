"""What a user may ask of ``vacuum``, parsed, and the instant before which files may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deltactl.errors import SafetyError, UsageError
from deltactl.operations.thresholds import Need
from deltactl.protocol.properties import TableProperties, ensure_understood
from deltactl.units import DAY_MS, format_duration

Mode = Literal["auto", "full", "lite"]

DEFAULT_ORPHAN_FRACTION = 0.5
DEFAULT_QUARANTINE_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class VacuumOptions:
    """Parsed options of ``vacuum``; times in milliseconds.

    ``retain_ms`` of ``None`` means the table's property. ``also_keep_for`` are addresses of tables
    that use files of this one. ``inventory`` is read in place of a listing, ``dump_listing``
    written from one; both are addresses of files. ``need``: what has to be there to remove for the
    run to be worth it.
    """

    retain_ms: int | None = None
    mode: Mode = "auto"
    inventory: str | None = None
    dump_listing: str | None = None
    keep_versions: tuple[int, ...] = ()
    keep_last: int | None = None
    force_retention: bool = False
    max_files: int | None = None
    max_orphan_fraction: float = DEFAULT_ORPHAN_FRACTION
    include_unknown: bool = False
    ignore_manifests: bool = False
    also_keep_for: tuple[str, ...] = ()
    quarantine: bool = False
    quarantine_ms: int = DEFAULT_QUARANTINE_MS
    journal: bool = True
    need: Need | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            UsageError: naming the option.
        """
        for name, value in (("--max-files", self.max_files), ("--keep-last", self.keep_last)):
            if value is not None and value <= 0:
                raise UsageError(f"{name} must be more than zero")
        if self.retain_ms is not None and self.retain_ms < 0:
            raise UsageError("--retain must not be negative: nothing is from the future")
        if not 0 <= self.max_orphan_fraction <= 1:
            raise UsageError("--max-orphan-fraction must lie between 0 and 1")
        if self.quarantine and not self.journal:
            raise UsageError("--quarantine needs the journal", hint="leave out --no-journal")
        if self.inventory is not None and self.mode == "lite":
            raise UsageError(
                "--inventory and --mode lite do not go together: lite needs no listing",
                hint="leave out one of them",
            )
        if self.dump_listing is not None and self.mode == "lite":
            raise UsageError("--dump-listing needs a listing, and --mode lite makes none")
        if self.dump_listing is not None and self.inventory is not None:
            raise UsageError("--dump-listing and --inventory do not go together")

    @property
    def needs_listing(self) -> bool:
        """Whether only a run over all files will do."""
        return self.mode == "full" or bool(self.inventory or self.dump_listing)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long removed files stay. ``rule`` says in words what decided; times in ms."""

    retain_ms: int
    table_ms: int
    requested_ms: int | None
    cutoff_ms: int
    rule: str

    @property
    def is_short(self) -> bool:
        """Whether it is less than the table asks for."""
        return self.retain_ms < self.table_ms


def resolve_retention(
    properties: TableProperties, options: VacuumOptions, now_ms: int
) -> Retention:
    """Decide before which instant files may go.

    Raises:
        SafetyError: less than the table's retention was asked for without force, or the table's
            property cannot be understood.
    """
    with ensure_understood("delta.deletedFileRetentionDuration", "nothing is removed"):
        table_ms = properties.deleted_file_retention_ms
    asked = options.retain_ms
    if asked is None:
        is_set = properties.text("delta.deletedFileRetentionDuration") is not None
        rule = (
            "the table's delta.deletedFileRetentionDuration"
            if is_set
            else "the default of delta.deletedFileRetentionDuration"
        )
    else:
        rule = "--retain"
    retain_ms = table_ms if asked is None else asked
    if retain_ms < table_ms and not options.force_retention:
        raise SafetyError(
            f"--retain {format_duration(retain_ms)} is less than this table's retention of "
            f"{format_duration(table_ms)}: versions that should be readable would be lost, and "
            "files of writers at work could go",
            hint="leave out --retain, or add --force-retention if nobody else reads old versions "
            "or writes",
        )
    return Retention(retain_ms, table_ms, asked, now_ms - retain_ms, rule)
