"""Options of ``clone``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltactl.errors import UsageError
from deltactl.protocol.new_tables import list_property_features
from deltactl.units import TimestampMs


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """Parsed options of ``clone``; ``version`` and ``timestamp_ms`` (UTC) select it in the source.

    ``where`` is SQL over partition columns: only these partitions are cloned. ``properties`` are
    set on the target instead of those of the source. ``sync``: update an earlier deep clone;
    ``full``: also if its changes since then are not known. ``note``: write a note of a shallow
    clone to the source, for its vacuums.
    """

    deep: bool
    version: int | None = None
    timestamp_ms: TimestampMs | None = None
    where: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    sync: bool = False
    full: bool = False
    note: bool = True

    def __post_init__(self) -> None:
        """Refuse invalid values.

        Raises:
            UsageError: naming the option.
        """
        if self.version is not None and self.timestamp_ms is not None:
            raise UsageError(
                "--version and --timestamp cannot be combined",
                hint="Give one of them; `deltactl describe-history` lists the versions.",
            )
        if self.version is not None and self.version < 0:
            raise UsageError("--version must not be negative")
        if self.sync and not self.deep:
            raise UsageError(
                "--sync needs --deep: --sync keeps the files that an earlier run copied, and a "
                "shallow clone has no copied files",
                hint="To update a shallow clone, delete it and clone again. To update a deep "
                "clone, add --deep.",
            )
        if self.full and not self.sync:
            raise UsageError("--full needs --sync", hint="Add --sync, or omit --full.")
        if self.deep and not self.note:
            raise UsageError(
                "--no-note is for shallow clones",
                hint="Omit --no-note: a deep clone is not recorded in the source.",
            )
        list_property_features(self.properties)
