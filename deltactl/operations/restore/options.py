"""Options of ``restore``."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import UsageError
from deltactl.option_names import option
from deltactl.units import TimestampMs


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Parsed options of ``restore``: exactly one of ``version`` and ``timestamp_ms`` (UTC).

    ``where`` is SQL over partition columns: only these partitions are restored.
    ``ignore_missing``: restore without the files that no longer exist.
    """

    version: int | None = None
    timestamp_ms: TimestampMs | None = None
    where: str | None = None
    ignore_missing: bool = False
    allow_protocol_downgrade: bool = False

    def __post_init__(self) -> None:
        """Refuse invalid values.

        Raises:
            UsageError: naming the option.
        """
        if (self.version is None) == (self.timestamp_ms is None):
            both = self.version is not None
            raise UsageError(
                f"{option('version')} and {option('timestamp')} cannot be combined"
                if both
                else f"restore needs {option('version')} or {option('timestamp')}",
                hint="Give one of them; `deltactl describe-history` lists the versions.",
            )
        if self.version is not None and self.version < 0:
            raise UsageError(f"{option('version')} must not be negative")
        if self.where is not None and self.allow_protocol_downgrade:
            raise UsageError(
                f"{option('where')} and {option('allow_protocol_downgrade')} cannot be combined",
                hint=f"Omit {option('allow_protocol_downgrade')}: with {option('where')}, the "
                "protocol stays as it is.",
            )
