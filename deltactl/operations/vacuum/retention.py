"""How long removed files are kept: the retention cutoff of a vacuum.

``removal`` moves it back if the clock of the store is slower.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import SafetyError
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.protocol.properties import TableProperties, ensure_valid_property
from deltactl.units import format_duration


@dataclass(frozen=True, slots=True)
class Retention:
    """How long removed files are kept. ``rule`` names the deciding setting; times in ms."""

    retain_ms: int
    table_ms: int
    requested_ms: int | None
    cutoff_ms: int
    rule: str

    @property
    def is_short(self) -> bool:
        """Return whether it is shorter than the table's property."""
        return self.retain_ms < self.table_ms


def resolve_retention(
    properties: TableProperties, options: VacuumOptions, now_ms: int
) -> Retention:
    """Return the retention and the cutoff before which files may be removed.

    Raises:
        SafetyError: the retention is shorter than the table's without ``force_retention``, or the
            table's property is invalid.
    """
    with ensure_valid_property("delta.deletedFileRetentionDuration", "nothing is removed"):
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
            f"{format_duration(table_ms)}: versions inside the retention would become "
            f"unreadable, and "
            "files of running writers could be removed",
            hint="Omit --retain, or rerun with --force-retention if nobody else writes or reads "
            "old versions.",
        )
    return Retention(retain_ms, table_ms, asked, now_ms - retain_ms, rule)
