"""Options of ``optimize``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from deltactl.errors import UsageError
from deltactl.operations.thresholds import Need
from deltactl.option_names import option
from deltactl.protocol.column_names import Columns
from deltactl.units import GIB, MIB, DurationMs, SizeBytes

CODEC_LEVELS: Mapping[str, range] = {
    "zstd": range(-131072, 23),
    "snappy": range(0),
    "gzip": range(1, 10),
    "lz4": range(0),
    "brotli": range(12),
    "none": range(0),
}
"""The codecs that can be written, and their compression levels."""

CODECS_SPARK_LACKS = frozenset({"brotli"})
"""Codecs that Apache Spark lacks unless they are installed on its cluster."""

Verification: TypeAlias = Literal["counts", "full"]
Rewrite: TypeAlias = Literal["auto", "copy", "encode"]
Layout: TypeAlias = Literal["tile", "hilbert", "zorder", "linear"]

DEFAULT_LAYOUT: Layout = "tile"
LIQUID_LAYOUT: Layout = "hilbert"
"""The layout of tables with clustering columns, as in Delta on Spark."""
DEFAULT_MIN_CLUSTER_BYTES = 100 * GIB
"""Smaller clusters are rewritten together with new files, as in Delta on Spark."""

DEFAULT_MIN_ROW_GROUP_BYTES = 8 * MIB
"""Smaller row groups are merged: they are slow to read."""

_CODEC_ALIASES = {"uncompressed": "none", "lz4_raw": "lz4"}


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """Parsed options of ``optimize``; sizes in bytes, times in milliseconds.

    ``None`` means: decide from the table. ``where`` is SQL over partition columns;
    ``memory_bytes`` is the memory limit of the whole process, which bounds the row groups.
    ``rewrite``: copy row groups of at least ``min_row_group_bytes`` compressed bytes (auto), all
    that can be copied, or none (encode). ``since_version``: only partitions changed after this
    version; ignored if the table's id is not ``since_table_id``. ``need``: run only if at least
    this much work is pending.

    ``partitions``: only these, by the names of their Hive directories, such as ``day=2024-01-31``
    (empty for a table without partitions); ``None``: all.

    ``cluster_by`` and ``zorder_by`` are columns, as in ``["a", "b.c"]``, by which rows are placed.
    ``layout`` is the layout of ``cluster_by``. ``full``: also files that have this layout already.
    Clusters of fewer than ``min_cluster_bytes`` are rewritten together with new files. Rows that
    do not fit the memory are written to ``spill_dir`` in between.
    """

    where: str | None = None
    target_bytes: SizeBytes | None = None
    min_file_bytes: SizeBytes | None = None
    min_input_files: int = 2
    max_deleted_rows_ratio: float = 0.05
    max_bytes: SizeBytes | None = None
    commit_every_ms: DurationMs = 10 * 60 * 1000
    commit_every_bytes: SizeBytes = 64 * GIB
    codec: str | None = None
    codec_level: int | None = None
    verify: Verification = "counts"
    rewrite: Rewrite = "auto"
    min_row_group_bytes: SizeBytes | None = None
    purge: bool = False
    skip_hot_ms: DurationMs | None = None
    memory_bytes: SizeBytes | None = None
    since_version: int | None = None
    since_table_id: str | None = None
    need: Need | None = None
    partitions: frozenset[str] | None = None
    cluster_by: Columns | None = None
    zorder_by: Columns | None = None
    layout: Layout | None = None
    full: bool = False
    min_cluster_bytes: SizeBytes = DEFAULT_MIN_CLUSTER_BYTES
    spill_dir: str | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values.

        Raises:
            UsageError: naming the option.
        """
        for name, value in (
            (option("target_bytes"), self.target_bytes),
            (option("min_input_files"), self.min_input_files),
            (option("commit_every"), self.commit_every_ms),
            (option("commit_every"), self.commit_every_bytes),
            (option("memory_bytes"), self.memory_bytes),
            (option("min_row_group_bytes"), self.min_row_group_bytes),
        ):
            if value is not None and value <= 0:
                raise UsageError(f"{name} must be more than zero")
        for name, value in (
            (option("min_file_bytes"), self.min_file_bytes),
            (option("max_bytes"), self.max_bytes),
            (option("skip_hot"), self.skip_hot_ms),
            (option("since_version"), self.since_version),
            (option("min_cluster_bytes"), self.min_cluster_bytes),
        ):
            if value is not None and value < 0:
                raise UsageError(f"{name} must not be negative")
        if not 0 <= self.max_deleted_rows_ratio <= 1:
            raise UsageError(f"{option('max_deleted_rows_ratio')} must be between 0 and 1")
        if self.verify not in get_args(Verification):
            raise UsageError(f"{option('verify')} {self.verify!r} is neither counts nor full")
        if self.rewrite not in get_args(Rewrite):
            raise UsageError(f"{option('rewrite')} {self.rewrite!r} is not auto, copy or encode")
        if self.rewrite != "auto" and self.min_row_group_bytes is not None:
            raise UsageError(
                f"{option('min_row_group_bytes')} cannot be combined with "
                f"{option('rewrite', self.rewrite)}",
                hint="Remove one of the two options.",
            )
        self._ensure_codec()
        self._ensure_layout()

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

    def _ensure_layout(self) -> None:
        if self.cluster_by is not None and self.zorder_by is not None:
            raise UsageError(
                f"{option('cluster_by')} and {option('zorder_by')} cannot be combined",
                hint="Remove one of the two options.",
            )
        if self.layout is not None and self.layout not in get_args(Layout):
            raise UsageError(
                f"{option('layout')} {self.layout!r} is not tile, hilbert, zorder or linear"
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

    def _ensure_codec(self) -> None:
        codec, level = self.codec, self.codec_level
        if codec is not None and codec not in CODEC_LEVELS:
            raise UsageError(f"{option('codec')} {codec!r} is not one of {', '.join(CODEC_LEVELS)}")
        if level is None:
            return
        if codec is None:
            raise UsageError(
                f"a compression level needs {option('codec')}",
                hint=f"Give the codec, such as {option('codec')} zstd:3.",
            )
        levels = CODEC_LEVELS[codec]
        if not levels:
            raise UsageError(
                f"{option('codec', codec)}: this codec has no compression levels",
                hint=f"Write {option('codec', codec)}.",
            )
        if level not in levels:
            raise UsageError(
                f"{option('codec', codec)}: level {level} is not between {levels[0]} and "
                f"{levels[-1]}"
            )


def resolve_codec(name: str | None) -> str | None:
    """Return the codec for a name in a table or a footer; ``None`` if it cannot be written."""
    folded = (name or "").strip().lower()
    codec = _CODEC_ALIASES.get(folded, folded)
    return codec if codec in CODEC_LEVELS else None
