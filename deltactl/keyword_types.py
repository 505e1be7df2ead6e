"""The types of the keyword arguments of the library, for editors and type checkers.

Written by ``python -m dev.generate_files`` from the classes of options; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from deltactl.operations.check.options import Depth
    from deltactl.operations.convert.partition_by import PartitionColumn
    from deltactl.operations.maintain.budget import Budget
    from deltactl.operations.thresholds import Need


class CheckKeywords(TypedDict, total=False):
    """The fields of ``CheckOptions``."""

    version: int | None
    all_versions: bool
    depth: Depth
    sample: float
    checkpoints: bool
    vectors: bool
    proofs: bool
    resume: str | None


class CheckpointKeywords(TypedDict, total=False):
    """The fields of ``CheckpointOptions``."""

    version: int | None
    kind: Literal["auto", "classic", "v2"]
    sidecar_rows: int
    top_format: Literal["json", "parquet"]
    compat: Literal["default", "spark", "plain"]
    cleanup: bool
    cleanup_only: bool
    if_enabled: bool
    compact_log: bool
    need: Need | None


class CloneKeywords(TypedDict, total=False):
    """The fields of ``CloneOptions``."""

    deep: bool
    version: int | None
    timestamp: datetime | str | None
    where: str | None
    properties: Mapping[str, str]
    sync: bool
    full: bool
    note: bool


class ConvertKeywords(TypedDict, total=False):
    """The fields of ``ConvertOptions``."""

    partition_by: str | Sequence[PartitionColumn] | None
    statistics: bool
    schema_mode: Literal["strict", "widen"]
    column_mapping: bool
    properties: Mapping[str, str]
    name: str | None


class HistoryKeywords(TypedDict, total=False):
    """The fields of ``Selection``."""

    limit: int | None
    since: datetime | str | None
    until: datetime | str | None
    first_version: int
    last_version: int | None
    operations: Collection[str]


class MaintainKeywords(TypedDict, total=False):
    """The fields of ``MaintainOptions``."""

    only: Collection[Literal["optimize", "checkpoint", "manifest", "log-cleanup", "vacuum"]] | None
    budget: Budget
    jobs: int
    lease: bool
    memory_bytes: int | str | None


class ManifestKeywords(TypedDict, total=False):
    """The fields of ``ManifestOptions``."""

    mode: str
    version: int | None
    where: str | None
    since: int | None
    schemes: Mapping[str, str]
    check: bool
    purge_first: bool
    ddl: Literal["athena", "trino", "hive", "redshift"] | None


class OptimizeKeywords(TypedDict, total=False):
    """The fields of ``OptimizeOptions``."""

    where: str | None
    target_bytes: int | str | None
    min_file_bytes: int | str | None
    min_input_files: int
    max_deleted_rows_ratio: float
    max_bytes: int | str | None
    commit_every: timedelta | str
    commit_every_bytes: int | str
    codec: str | None
    codec_level: int | None
    verify: Literal["counts", "full"]
    rewrite: Literal["auto", "copy", "encode"]
    min_row_group_bytes: int | str | None
    purge: bool
    skip_hot: timedelta | str | None
    memory_bytes: int | str | None
    since_version: int | None
    since_table_id: str | None
    need: Need | None
    partitions: Collection[str] | None
    cluster_by: str | Sequence[str] | None
    zorder_by: str | Sequence[str] | None
    layout: Literal["tile", "hilbert", "zorder", "linear"] | None
    full: bool
    min_cluster_bytes: int | str
    spill_dir: str | None


class RestoreKeywords(TypedDict, total=False):
    """The fields of ``RestoreOptions``."""

    version: int | None
    timestamp: datetime | str | None
    where: str | None
    ignore_missing: bool
    allow_protocol_downgrade: bool


class VacuumKeywords(TypedDict, total=False):
    """The fields of ``VacuumOptions``."""

    retain: timedelta | str | None
    mode: Literal["auto", "full", "lite"]
    inventory: str | None
    dump_listing: str | None
    keep_versions: Sequence[int]
    keep_last: int | None
    also_keep_for: Sequence[str]
    include_orphans: bool
    include_unknown: bool
    max_files: int | None
    need: Need | Sequence[str] | None
    ignore_manifests: bool
    max_orphan_fraction: float
    force_retention: bool
    quarantine: bool
    quarantine_for: timedelta | str
