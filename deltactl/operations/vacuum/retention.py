"""Calculate the cutoff of a vacuum.

``removal`` changes the cutoff to an earlier time if the clock of the store is behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import SafetyError
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.option_names import option
from deltactl.protocol.properties import TableProperties, ensure_valid_property
from deltactl.units import format_duration


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of removed files, in ms; ``rule`` is the setting that determines it.

    ``table_ms`` is the retention in the table property, ``requested_ms`` that of ``--retain``.
    Files that were removed before ``cutoff_ms`` may be deleted.
    """

    retain_ms: int
    table_ms: int
    requested_ms: int | None
    cutoff_ms: int
    rule: str

    @property
    def is_short(self) -> bool:
        """Return whether the retention is shorter than that in the table property."""
        return self.retain_ms < self.table_ms

    @property
    def now_ms(self) -> int:
        """Return the time from which the cutoff was calculated, which is not in the future."""
        return self.cutoff_ms + self.retain_ms


def resolve_retention(
    properties: TableProperties, options: VacuumOptions, now_ms: int
) -> Retention:
    """Return the retention, and the cutoff before which files may be removed.

    Raises:
        SafetyError: the retention is shorter than in the table property, and ``force_retention`` is
            not set; or the table property is invalid.
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
        rule = option("retain")
    retain_ms = table_ms if asked is None else asked
    if retain_ms < table_ms and not options.force_retention:
        raise SafetyError(
            f"{option('retain')} {format_duration(retain_ms)} is less than this table's retention "
            f"of {format_duration(table_ms)}. Versions inside the retention would become "
            "unreadable, and files of running writers could be removed",
            hint=f"Omit {option('retain')}. If nobody else writes to the table or reads old "
            f"versions, run vacuum with {option('force_retention', True)}.",
        )
    return Retention(retain_ms, table_ms, asked, now_ms - retain_ms, rule)
