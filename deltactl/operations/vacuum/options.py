"""Options of ``vacuum``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from deltactl.errors import UsageError
from deltactl.operations.thresholds import Need, need_of
from deltactl.option_fields import ensure_declared, output_option, safety_option, selection_option
from deltactl.option_names import option
from deltactl.protocol.properties import DEFAULT_RETENTION_MS
from deltactl.units import DAY_MS, DurationMs, format_duration

Mode = Literal["auto", "full", "lite"]
Orphans = Literal["keep", "named", "all"]
"""The files that no action names, to remove: none, those with a name of a Delta writer, or all.

It is no field of the options: only the command line may remove such files.
"""


@dataclass(frozen=True, slots=True)
class VacuumOptions:
    """Parsed options of ``vacuum``; times in milliseconds."""

    retain_ms: DurationMs | None = selection_option(
        None,
        "How long to keep files after they were removed from the table, e.g. 168h",
        default=f"delta.deletedFileRetentionDuration, else {format_duration(DEFAULT_RETENTION_MS)}",
        is_settable=True,
        table_property="delta.deletedFileRetentionDuration",
        is_basic=True,
        least=0,
    )
    mode: Mode = selection_option(
        "auto",
        "How to find files to remove. full: list all files. lite: read only the log. auto: full if "
        "no vacuum is recorded, or if the log lost commits before a vacuum processed them; else "
        "lite",
        is_settable=True,
        is_basic=True,
    )
    inventory: str | None = selection_option(
        None,
        "Read the file names from this inventory of the bucket instead of listing the table",
        metavar="FILE",
        is_for_one_table=True,
    )
    dump_listing: str | None = output_option(
        None,
        "Also write the list of all files to this Parquet file, which --inventory can read",
        metavar="FILE",
        is_for_one_table=True,
    )
    keep_versions: tuple[int, ...] = selection_option(
        (),
        "Keep version V readable; may be repeated",
        flag="keep-version",
        metavar="V",
        is_for_one_table=True,
    )
    keep_last: int | None = selection_option(
        None, "Keep the latest N versions readable", least=1, is_settable=True, is_basic=True
    )
    also_keep_for: tuple[str, ...] = selection_option(
        (),
        "Also keep the files that TABLE uses, for example if TABLE is a shallow clone of this "
        "table; may be repeated",
        metavar="TABLE",
    )
    max_files: int | None = selection_option(
        None, "Remove at most N files", default="all", least=1, is_settable=True
    )
    need: Annotated[Need, need_of("files", "size")] | None = selection_option(
        None,
        "Run only if there is enough to remove: at least N files (files=N), or files of at least "
        "SIZE (size=SIZE). If you give both, one of them is enough",
        flag="if-needed",
        metavar="WHAT=THRESHOLD",
        is_repeated=True,
    )
    ignore_manifests: bool = safety_option(
        False, "Also remove files that symlink manifests still list"
    )
    max_orphan_fraction: float = safety_option(
        0.5,
        "Refuse the run if it would remove more than this share of the files in the table "
        "directory although they are in no commit of the log",
        least=0,
        most=1,
    )
    force_retention: bool = safety_option(
        False,
        "Allow --retain to be shorter than the retention of the table. On a file system, trust the "
        "clock of this machine, even if the table has no recent commits",
    )
    quarantine: bool = safety_option(
        False,
        "Move files to _deltactl/quarantine/ instead of deleting them",
        is_settable=True,
        is_basic=True,
    )
    quarantine_for_ms: DurationMs = safety_option(
        7 * DAY_MS,
        "With --quarantine: keep the files in quarantine for at least this time",
        least=0,
        is_settable=True,
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        if self.inventory is not None and self.mode == "lite":
            raise UsageError(
                f"{option('inventory')} and {option('mode', 'lite')} cannot be combined: "
                f"{option('mode', 'lite')} uses no list of files",
                hint=f"Omit {option('inventory')} or {option('mode', 'lite')}.",
            )
        if self.dump_listing is not None and self.mode == "lite":
            raise UsageError(
                f"{option('dump_listing')} needs a listing, but {option('mode', 'lite')} makes none"
            )
        if self.dump_listing is not None and self.inventory is not None:
            raise UsageError(
                f"{option('dump_listing')} and {option('inventory')} cannot be combined: with "
                f"{option('inventory')}, the files are not listed",
                hint=f"Omit {option('dump_listing')} or {option('inventory')}.",
            )

    @property
    def needs_listing(self) -> bool:
        """Return whether the options need a listing of all files."""
        return self.mode == "full" or bool(self.inventory or self.dump_listing)
