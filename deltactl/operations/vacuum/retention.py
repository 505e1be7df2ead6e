"""How long removed files stay: the instant before which a vacuum may remove them."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import SafetyError
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.protocol.properties import TableProperties, ensure_understood
from deltactl.units import format_duration


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
