"""Options of ``checkpoint``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from deltactl.errors import UsageError
from deltactl.log.checkpoint.compat import Compat
from deltactl.operations.thresholds import Need

Kind: TypeAlias = Literal["auto", "classic", "v2"]
TopFormat: TypeAlias = Literal["json", "parquet"]

NO_PARTS: Final = (
    "deltactl reads multi-part checkpoints but does not write them: PROTOCOL.md "
    "deprecates them for writers"
)
USE_SIDECARS: Final = (
    "Rerun with --kind classic, or with --kind v2 --sidecar-size ROWS if the table has the feature "
    "v2Checkpoint."
)


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """Parsed options of ``checkpoint``.

    ``version`` ``None`` is the latest. ``sidecar_rows`` is the maximum number of file actions of
    a sidecar. ``cleanup_only`` writes no checkpoint; with ``version`` the log is cleaned up to the
    checkpoint of that version. ``if_enabled``: do not clean up if the newest version
    has ``delta.enableExpiredLogCleanup`` set to false. ``need``: run only after at least this many
    commits since the last checkpoint.
    """

    version: int | None = None
    kind: Kind = "auto"
    sidecar_rows: int = 50_000
    top_format: TopFormat = "json"
    compat: Compat = "default"
    cleanup: bool = False
    cleanup_only: bool = False
    if_enabled: bool = False
    compact_log: bool = False
    need: Need | None = None

    def __post_init__(self) -> None:
        """Refuse invalid or contradictory options.

        Raises:
            UsageError: the message has the option.
        """
        if self.version is not None and self.version < 0:
            raise UsageError("--version must not be negative")
        if self.sidecar_rows <= 0:
            raise UsageError("--sidecar-size must be more than zero")
        if self.kind not in get_args(Kind):
            raise UsageError(NO_PARTS, hint=USE_SIDECARS)
        if self.cleanup_only and (self.cleanup or self.compact_log or self.kind != "auto"):
            raise UsageError(
                "--cleanup-only cannot be combined with --cleanup, --compact-log or --kind, "
                "because --cleanup-only writes no checkpoint"
            )
