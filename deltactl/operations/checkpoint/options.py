"""Options of ``checkpoint``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from deltactl.errors import UsageError
from deltactl.log.checkpoint.compat import Compat
from deltactl.operations.thresholds import Need
from deltactl.option_names import option

Kind: TypeAlias = Literal["auto", "classic", "v2"]
TopFormat: TypeAlias = Literal["json", "parquet"]


def no_parts_error() -> UsageError:
    """Return the error for a request to write a multi-part checkpoint."""
    return UsageError(
        "deltactl reads multi-part checkpoints but does not write them: PROTOCOL.md "
        "deprecates them for writers",
        hint=f"Rerun with {option('kind', 'classic')}, or with {option('kind', 'v2')} "
        f"{option('sidecar_rows')} ROWS if the table has the feature v2Checkpoint.",
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
            raise UsageError(f"{option('version')} must not be negative")
        if self.sidecar_rows <= 0:
            raise UsageError(f"{option('sidecar_rows')} must be more than zero")
        if self.kind not in get_args(Kind):
            raise no_parts_error()
        if self.cleanup_only and (self.cleanup or self.compact_log or self.kind != "auto"):
            raise UsageError(
                f"{option('cleanup_only')} cannot be combined with {option('cleanup')}, "
                f"{option('compact_log')} or {option('kind')}, because {option('cleanup_only')} "
                "writes no checkpoint"
            )
