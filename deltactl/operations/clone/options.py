"""Options of ``clone``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltactl.errors import UsageError
from deltactl.option_names import option
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
                f"{option('version')} and {option('timestamp')} cannot be combined",
                hint="Give one of them; `deltactl describe-history` lists the versions.",
            )
        if self.version is not None and self.version < 0:
            raise UsageError(f"{option('version')} must not be negative")
        if self.sync and not self.deep:
            raise UsageError(
                f"{option('sync')} needs {option('deep')}: {option('sync')} keeps the files that "
                "an earlier run copied, and a shallow clone has no copied files",
                hint="To update a shallow clone, delete it and clone again. To update a deep "
                f"clone, add {option('deep', True)}.",
            )
        if self.full and not self.sync:
            raise UsageError(
                f"{option('full')} needs {option('sync')}",
                hint=f"Add {option('sync', True)}, or omit {option('full')}.",
            )
        if self.deep and not self.note:
            raise UsageError(
                f"{option('note', False)} is for shallow clones",
                hint=f"Omit {option('note', False)}: a deep clone is not recorded in the source.",
            )
        list_property_features(self.properties)
