"""Options of ``restore``."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import UsageError
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
                "--to-version and --to-timestamp cannot be combined"
                if both
                else "restore needs --to-version or --to-timestamp",
                hint="Give one of them; `deltactl describe-history` lists the versions.",
            )
        if self.version is not None and self.version < 0:
            raise UsageError("--to-version must not be negative")
        if self.where is not None and self.allow_protocol_downgrade:
            raise UsageError(
                "--where and --allow-protocol-downgrade cannot be combined",
                hint="Omit --allow-protocol-downgrade: with --where, the protocol stays as it is.",
            )
