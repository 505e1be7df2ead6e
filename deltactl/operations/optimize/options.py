"""Options of ``optimize``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from deltactl.errors import UsageError
from deltactl.operations.target_size import DEFAULT_MIN_SHARE, DEFAULT_TARGET
from deltactl.operations.thresholds import Need, need_of
from deltactl.option_fields import (
    ensure_declared,
    execution_option,
    layout_option,
    safety_option,
    selection_option,
)
from deltactl.option_names import option
from deltactl.protocol.column_names import Columns
from deltactl.suggest import with_suggestion
from deltactl.units import GIB, MIB, DurationMs, SizeBytes, format_compact_size

CODEC_LEVELS: Mapping[str, range] = {
    "zstd": range(-131072, 23),
    "snappy": range(0),
    "gzip": range(1, 10),
    "lz4": range(0),
    "brotli": range(12),
    "none": range(0),
}
"""The codecs that can be written, and their compression levels."""

DEFAULT_CODEC: Final = "zstd"
"""For tables without ``delta.parquet.compression.codec``. Source: PROTOCOL.md, Table Properties."""

CODECS_SPARK_LACKS = frozenset({"brotli"})
"""Codecs that Apache Spark lacks unless they are installed on its cluster."""

Verification: TypeAlias = Literal["counts", "full"]
Rewrite: TypeAlias = Literal["auto", "copy", "encode"]
Layout: TypeAlias = Literal["tile", "hilbert", "zorder", "linear"]
Purged: TypeAlias = Literal["deleted", "vectors", "old types", "other names"]
"""What a purge removes: rows and columns that were deleted, all deletion vectors, values with an
earlier type, or names of columns that only column mapping finds."""

REMOVE_MAPPING: Final = "REMOVE COLUMN MAPPING"
"""The operation of Delta on Spark that ends column mapping."""
NOTHING_TO_PURGE: Final = "nothing to purge"
"""Why a purge leaves a file as it is."""

DEFAULT_LAYOUT: Layout = "tile"
LIQUID_LAYOUT: Layout = "hilbert"
"""The layout of tables with clustering columns, as in Delta on Spark."""
DEFAULT_MIN_CLUSTER_BYTES = 100 * GIB
"""Smaller clusters are rewritten together with new files, as in Delta on Spark."""

DEFAULT_MIN_ROW_GROUP_BYTES = 8 * MIB
"""Smaller row groups are merged: they are slow to read."""

LAST_RUN: Final = "last-run"

_LEVEL: Final = re.compile(r"-?[0-9]{1,20}")


def to_since(since: int | str) -> int | str:
    """Return a version, or ``last-run``.

    Raises:
        UsageError: it is neither.
    """
    text = str(since)
    if text == LAST_RUN:
        return text
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"{text!r} is neither a version nor {LAST_RUN}")
    return int(text)


def to_codec(text: str) -> str:
    """Return a codec that can be written, perhaps with its level, as it is.

    Raises:
        UsageError: there is no such codec or level.
    """
    name, level = _split_codec(text)
    levels = CODEC_LEVELS[name]
    if level is not None and not levels:
        raise UsageError(f"the codec {name} has no compression levels", hint=f"Write {name!r}.")
    if level is not None and level not in levels:
        raise UsageError(
            f"level {level} of the codec {name} is not between {levels[0]} and {levels[-1]}"
        )
    return text


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """Parsed options of ``optimize``; sizes in bytes, times in milliseconds.

    ``None`` means: decide from the table. ``memory_bytes`` bounds the row groups. ``partitions``:
    only these, by the names of their Hive directories, such as ``day=2024-01-31`` (empty for a
    table without partitions); ``None``: all. A run is divided into commits after ``commit_every``,
    and after each ``commit_every_bytes`` of input.
    """

    where: str | None = selection_option(
        None,
        "Rewrite only partitions that match this SQL condition, e.g. \"date >= '2024-01-01'\"",
        metavar="SQL",
        is_basic=True,
    )
    purge: bool = selection_option(
        False, "Rewrite every file that has a deletion vector or contains dropped columns"
    )
    cluster_by: Columns | None = layout_option(
        None,
        "Sort rows into files by these columns, e.g. country,day, so that queries with filters "
        "read fewer files",
        metavar="COLUMNS",
        is_basic=True,
    )
    layout: Layout | None = layout_option(
        None,
        "How --cluster-by arranges rows. tile: split each column into ranges with equal row "
        "counts. hilbert, zorder: sort along a Hilbert or Z-order curve. linear: sort by the "
        "columns",
        default=f"{DEFAULT_LAYOUT}; {LIQUID_LAYOUT} if the table has clustering columns",
    )
    zorder_by: Columns | None = layout_option(
        None,
        "Sort rows into files in Z-order of these columns, as OPTIMIZE ZORDER BY of Delta on Spark "
        "does",
        metavar="COLUMNS",
    )
    full: bool = selection_option(
        False, "With --cluster-by or --zorder-by: also rewrite files that already have this layout"
    )
    min_cluster_bytes: SizeBytes = layout_option(
        DEFAULT_MIN_CLUSTER_BYTES,
        "A cluster is a group of files that were sorted together in one run. If a cluster is "
        "smaller than SIZE, its files are sorted again, together with new files",
        flag="min-cluster-size",
        least=0,
    )
    spill_dir: str | None = layout_option(
        None,
        "Directory for rows that do not fit in memory while deltactl sorts them",
        metavar="DIR",
        default="TMPDIR, else /tmp",
    )
    since_version: Annotated[int | str, to_since] | None = selection_option(
        None,
        "Rewrite only partitions that changed after version N. last-run: rewrite only partitions "
        "that changed since the last optimize run that finished all work",
        metavar="N|last-run",
    )
    skip_hot_ms: DurationMs | None = selection_option(
        None,
        "Skip partitions whose newest file is younger than this age, e.g. 1h",
        metavar="AGE",
        is_settable=True,
        least=0,
    )
    target_bytes: SizeBytes | None = execution_option(
        None,
        "Target size of the new files",
        flag="target-size",
        default=f"delta.targetFileSize, else {DEFAULT_TARGET}",
        is_settable=True,
        table_property="delta.targetFileSize",
        is_basic=True,
        least=1,
    )
    min_file_bytes: SizeBytes | None = selection_option(
        None,
        "Merge files that are smaller than this size",
        flag="min-file-size",
        default=f"{DEFAULT_MIN_SHARE:.0%} of target",
        is_settable=True,
        least=0,
    )
    min_input_files: int = selection_option(
        2, "Merge files only in groups of at least this many files", least=1, is_settable=True
    )
    max_deleted_rows_ratio: float = selection_option(
        0.05,
        "Rewrite a file if more than this share of its rows is deleted",
        least=0,
        most=1,
        is_settable=True,
    )
    max_bytes: SizeBytes | None = selection_option(
        None,
        "Rewrite at most this many bytes of input files",
        default="no limit",
        is_settable=True,
        is_basic=True,
        least=0,
    )
    commit_every_ms: DurationMs = 10 * 60 * 1000
    commit_every_bytes: SizeBytes = 64 * GIB
    memory_bytes: SizeBytes | None = execution_option(
        None,
        "Memory limit of the process",
        flag="memory",
        default="half of the memory of the machine or cgroup",
        is_settable=True,
        least=1,
    )
    codec: Annotated[str, to_codec] | None = execution_option(
        None,
        f"Compression of the new files: {', '.join([*CODEC_LEVELS][:-1])} or none",
        metavar="NAME[:LEVEL]",
        default="delta.parquet.compression.codec, else zstd",
        is_settable=True,
        table_property="delta.parquet.compression.codec",
    )
    rewrite: Rewrite = execution_option(
        "auto",
        "How to write row groups. auto: copy large row groups without decoding, and merge small "
        "ones. copy: copy as many as possible. encode: copy none",
        is_settable=True,
    )
    min_row_group_bytes: SizeBytes | None = execution_option(
        None,
        "With --rewrite auto: copy row groups without decoding if their compressed size is at "
        "least SIZE. Merge smaller row groups",
        flag="min-row-group",
        default=format_compact_size(DEFAULT_MIN_ROW_GROUP_BYTES),
        is_settable=True,
        least=1,
    )
    verify: Verification = safety_option(
        "counts",
        "How to compare new files with their inputs before the commit. counts: compare row counts "
        "and null counts in the footers. full: also read and compare all rows",
        is_settable=True,
    )
    need: Annotated[Need, need_of("files", "size", "skip")] | None = selection_option(
        None,
        "Run only if one threshold is reached. files=N, size=SIZE: N files or SIZE to rewrite. "
        "skip=SHARE: for a clustering column, a query for one value skips less than SHARE of the "
        "files. May be repeated",
        flag="if-needed",
        metavar="WHAT=THRESHOLD",
        is_repeated=True,
    )
    partitions: frozenset[str] | None = None

    def __post_init__(self) -> None:
        ensure_declared(self)
        if not (self.commit_every_ms > 0 and self.commit_every_bytes > 0):
            raise UsageError(f"{option('commit_every')} must be more than zero")
        if self.rewrite != "auto" and self.min_row_group_bytes is not None:
            raise UsageError(
                f"{option('min_row_group_bytes')} cannot be combined with "
                f"{option('rewrite', self.rewrite)}",
                hint="Remove one of the two options.",
            )
        if self.codec is not None:
            to_codec(self.codec)
        self._ensure_layout()

    @property
    def purged(self) -> Purged:
        """Return what ``purge`` removes."""
        return "deleted"

    @property
    def codec_name(self) -> str | None:
        """Return the codec without its level."""
        return None if self.codec is None else _split_codec(self.codec)[0]

    @property
    def codec_level(self) -> int | None:
        """Return the compression level, if one is given."""
        return None if self.codec is None else _split_codec(self.codec)[1]

    @property
    def copies_from_bytes(self) -> int | None:
        """Return the minimum size of a row group that is copied; ``None``: none is copied.

        With a codec and a level, no row group is copied, because the level of existing pages is
        unknown.
        """
        if self.rewrite == "copy":
            return 0
        if self.rewrite == "encode" or self.codec_level is not None or self.places_rows:
            return None
        return self.min_row_group_bytes or DEFAULT_MIN_ROW_GROUP_BYTES

    @property
    def keeps_layouts(self) -> bool:
        """Return whether a plain run places new files by the layout of their partition."""
        return not self.purge and self.rewrite != "copy"

    @property
    def places_rows(self) -> bool:
        """Return whether these options request a layout."""
        return self.cluster_by is not None or self.zorder_by is not None

    @property
    def places_again(self) -> bool:
        """Return whether files that have the layout are placed again.

        Without options of a layout, ``full`` selects files that have another one than the table.
        """
        return self.full and (self.places_rows or self.layout is not None)

    def _ensure_layout(self) -> None:
        if self.cluster_by is not None and self.zorder_by is not None:
            raise UsageError(
                f"{option('cluster_by')} and {option('zorder_by')} cannot be combined",
                hint="Remove one of the two options.",
            )
        if self.layout is not None and self.zorder_by is not None:
            raise UsageError(
                f"{option('layout')} cannot be combined with {option('zorder_by')}",
                hint=f"Remove {option('layout')}, or use {option('cluster_by')} instead of "
                f"{option('zorder_by')}.",
            )
        if not self.places_rows:
            return
        chosen = option("cluster_by" if self.cluster_by is not None else "zorder_by")
        if self.purge:
            raise UsageError(
                f"{chosen} cannot be combined with {option('purge')}",
                hint="Use them in two separate runs.",
            )
        if self.rewrite == "copy":
            raise UsageError(
                f"{chosen} cannot be combined with {option('rewrite', 'copy')}. {chosen} moves "
                f"rows between files, but {option('rewrite', 'copy')} can only copy whole row "
                "groups",
                hint="Remove one of the two options.",
            )


@dataclass(frozen=True, slots=True)
class PurgeOptions(OptimizeOptions):
    """Options of a purge that removes something else than deleted rows and columns."""

    purged: Purged = "vectors"


def _split_codec(text: str) -> tuple[str, int | None]:
    """Return the codec and the level of ``NAME`` or ``NAME:LEVEL``."""
    name, colon, level = text.lower().partition(":")
    name = "none" if name == "uncompressed" else name
    if name not in CODEC_LEVELS or (colon and not _LEVEL.fullmatch(level)):
        message = f"the codec {text!r} is not NAME or NAME:LEVEL"
        raise UsageError(
            with_suggestion(message, name, CODEC_LEVELS),
            hint=f"Use one of: {', '.join(CODEC_LEVELS)}.",
        )
    return name, int(level) if level else None
