"""Options of ``restore``."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import UsageError
from deltactl.option_fields import ensure_declared, safety_option, selection_option
from deltactl.option_names import option
from deltactl.units import TimestampMs


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Parsed options of ``restore``: exactly one of ``version`` and ``timestamp_ms`` (UTC)."""

    version: int | None = selection_option(
        None, "Restore version N", flag="to-version", least=0, is_basic=True
    )
    timestamp_ms: TimestampMs | None = selection_option(
        None,
        'Restore the version that was the latest at this time: "2024-01-31 12:00", or "2h" for two '
        "hours ago",
        flag="to-timestamp",
        is_basic=True,
    )
    where: str | None = selection_option(
        None, "Restore only partitions that match this SQL condition", metavar="SQL", is_basic=True
    )
    ignore_missing: bool = safety_option(
        False,
        "Restore the version even if some of its files no longer exist. The rows of these files "
        "are lost. The command asks first",
    )
    expect_files: int | None = safety_option(
        None,
        "With --ignore-missing: restore the version only if exactly N of its files cannot be read. "
        "Needed if these are more than 5% of its files, or all files of a directory",
        metavar="N",
        least=0,
    )
    allow_protocol_downgrade: bool = safety_option(
        False,
        "Also restore the protocol of the earlier version, so that the table loses features that "
        "were added later. Without this option, the table has the features of both versions",
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        if (self.version is None) == (self.timestamp_ms is None):
            both = self.version is not None
            raise UsageError(
                f"{option('version')} and {option('timestamp')} cannot be combined"
                if both
                else f"restore needs {option('version')} or {option('timestamp')}",
                hint="Give one of them; `deltactl describe-history TABLE` lists the versions.",
            )
        if self.expect_files is not None and not self.ignore_missing:
            raise UsageError(
                f"{option('expect_files')} needs {option('ignore_missing')}",
                hint=f"Add {option('ignore_missing', True)}, or omit {option('expect_files')}.",
            )
        if self.where is not None and self.allow_protocol_downgrade:
            raise UsageError(
                f"{option('where')} and {option('allow_protocol_downgrade')} cannot be combined",
                hint=f"Omit {option('allow_protocol_downgrade')}: with {option('where')}, the "
                "protocol stays as it is.",
            )
