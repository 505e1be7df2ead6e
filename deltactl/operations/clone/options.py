"""Options of ``clone``."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import UsageError
from deltactl.option_fields import REQUIRED, Pairs, ensure_declared, safety_option, selection_option
from deltactl.option_names import option
from deltactl.protocol.new_tables import list_property_features
from deltactl.units import TimestampMs


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """Parsed options of ``clone``; ``version`` and ``timestamp_ms`` (UTC) select it in the source.

    A clone that is not ``deep`` refers to the files of the source.
    """

    deep: bool = selection_option(
        REQUIRED, "Copy the files, so that the clone is independent of the source", is_basic=True
    )
    version: int | None = selection_option(None, "Clone version N", least=0, is_basic=True)
    timestamp_ms: TimestampMs | None = selection_option(
        None,
        'Clone the version that was the latest at this time: "2024-01-31 12:00", or "2h" for two '
        "hours ago",
        is_basic=True,
    )
    where: str | None = selection_option(
        None, "Clone only partitions that match this SQL condition", metavar="SQL", is_basic=True
    )
    properties: Pairs = selection_option(
        {},
        "Set this table property in the clone; may be repeated",
        flag="property",
        metavar="PROPERTY=VALUE",
        is_repeated=True,
    )
    sync: bool = selection_option(
        False,
        "Update an existing deep clone to the latest version of the source, or to the version "
        "given with --version",
        is_basic=True,
    )
    replace: bool = selection_option(
        False,
        "With --shallow: replace an existing clone of the same source in a new version, as CREATE "
        "OR REPLACE TABLE of Delta on Spark does",
    )
    full: bool = selection_option(
        False,
        "With --sync: also update the clone if another writer changed it, or if the source was "
        "created again; copy files that the source replaced, also for earlier versions. Files are "
        "compared by name, size and time, not by content",
    )
    published_only: bool = selection_option(
        False,
        "Without its catalog, clone a catalogManaged table as far as its commits are published",
    )
    note: bool = safety_option(
        True,
        "With --shallow: do not record the clone in the source. Without this record, a vacuum of "
        "the source may delete files that the clone needs",
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        if self.version is not None and self.timestamp_ms is not None:
            raise UsageError(
                f"{option('version')} and {option('timestamp')} cannot be combined",
                hint="Give one of them; `deltactl describe-history TABLE` lists the versions.",
            )
        if self.sync and not self.deep:
            raise UsageError(
                f"{option('sync')} needs {option('deep')}: {option('sync')} keeps the files that "
                "an earlier run copied, and a shallow clone has no copied files",
                hint=f"To update a shallow clone, use {option('replace', True)}. To update a deep "
                f"clone, add {option('deep', True)}.",
            )
        if self.replace and self.deep:
            raise UsageError(
                f"{option('replace')} is for shallow clones",
                hint=f"To replace a deep clone, use {option('sync', True)} {option('full', True)}.",
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
