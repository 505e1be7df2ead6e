"""The types of the keyword arguments of the library, for editors and type checkers.

Written by ``python -m dev.generate_files`` from the classes of options; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from deltactl.operations.check.fixes.options import Fix
    from deltactl.operations.check.options import Depth
    from deltactl.operations.convert.options import PartitionColumn
    from deltactl.operations.maintain.options import Budget
    from deltactl.operations.thresholds import Need


class AlterKeywords(TypedDict, total=False):
    """The fields of ``AlterOptions``; ``deltactl alter --help-all`` explains them.

    ``properties`` is ``--set``.
    """

    properties: Mapping[str, str] | Sequence[str]
    unset: Sequence[str]
    add_feature: Sequence[str]
    drop_feature: str | None
    truncate_history: bool


class CheckKeywords(TypedDict, total=False):
    """The fields of ``CheckOptions``; ``deltactl check --help-all`` explains them.

    ``depth`` is ``--files``, ``vectors`` is ``--dvs``.
    """

    version: int | None
    all_versions: bool
    depth: Depth | Literal["exists", "sizes", "footers", "data"]
    sample: float | str
    checkpoints: bool
    vectors: bool
    proofs: bool
    published_only: bool
    resume: str | None


class CheckpointKeywords(TypedDict, total=False):
    """The fields of ``CheckpointOptions``; ``deltactl checkpoint --help-all`` explains them.

    ``need`` is ``--if-needed``.
    """

    version: int | None
    kind: Literal["auto", "classic", "v2"]
    sidecar_rows: int
    top_format: Literal["json", "parquet"]
    compat: Literal["default", "spark", "plain"]
    cleanup: bool
    cleanup_only: bool
    if_enabled: bool
    if_due: bool
    compact_log: bool | str
    need: Need | Sequence[str] | None


class CloneKeywords(TypedDict, total=False):
    """The fields of ``CloneOptions``; ``deltactl clone --help-all`` explains them.

    ``properties`` is ``--property``.
    """

    deep: bool
    version: int | None
    timestamp: datetime | str | None
    where: str | None
    properties: Mapping[str, str] | Sequence[str]
    sync: bool
    replace: bool
    full: bool
    published_only: bool
    note: bool


class ConvertKeywords(TypedDict, total=False):
    """The fields of ``ConvertOptions``; ``deltactl convert --help-all`` explains them.

    ``properties`` is ``--property``.
    """

    partition_by: str | Sequence[PartitionColumn] | None
    statistics: bool
    schema_mode: Literal["strict", "widen"]
    column_mapping: bool
    properties: Mapping[str, str] | Sequence[str]
    name: str | None
    description: str | None


class FixKeywords(TypedDict, total=False):
    """The fields of ``FixOptions``; ``deltactl check --help-all`` explains them.

    ``kind`` is ``--fix``, ``texts`` is ``--path``.
    """

    kind: Fix | str | None
    texts: Sequence[str]
    expect_files: int | None
    drop_files: bool
    keep_deleted_rows: bool


class HistoryKeywords(TypedDict, total=False):
    """The fields of ``Selection``; ``deltactl describe-history --help-all`` explains them.

    ``operations`` is ``--operation``.
    """

    limit: int | None
    since: datetime | str | None
    until: datetime | str | None
    first_version: int
    last_version: int | None
    operations: Sequence[str]


class MaintainKeywords(TypedDict, total=False):
    """The fields of ``MaintainOptions``; ``deltactl maintain --help-all`` explains them.

    ``memory_bytes`` is ``--memory``.
    """

    only: str | Collection[str] | None
    budget: Budget | Sequence[str]
    jobs: int
    lease: bool
    memory_bytes: int | str | None


class ManifestKeywords(TypedDict, total=False):
    """The fields of ``ManifestOptions``; ``deltactl generate-manifest --help-all`` explains them.

    ``schemes`` is ``--scheme-map``.
    """

    version: int | None
    where: str | None
    since: int | None
    schemes: Mapping[str, str] | Sequence[str]
    purge_first: bool
    ddl: Literal["athena", "trino", "hive", "redshift"] | None
    check: bool


class OptimizeKeywords(TypedDict, total=False):
    """The fields of ``OptimizeOptions``; ``deltactl optimize --help-all`` explains them.

    ``min_cluster_bytes`` is ``--min-cluster-size``, ``target_bytes`` is ``--target-size``,
    ``min_file_bytes`` is ``--min-file-size``, ``memory_bytes`` is ``--memory``,
    ``min_row_group_bytes`` is ``--min-row-group``, ``need`` is ``--if-needed``.
    """

    where: str | None
    purge: bool
    cluster_by: str | Sequence[str] | None
    layout: Literal["tile", "hilbert", "zorder", "linear"] | None
    zorder_by: str | Sequence[str] | None
    full: bool
    min_cluster_bytes: int | str
    spill_dir: str | None
    since_version: int | str | None
    skip_hot: timedelta | str | None
    target_bytes: int | str | None
    min_file_bytes: int | str | None
    min_input_files: int
    max_deleted_rows_ratio: float
    max_bytes: int | str | None
    commit_every: timedelta | str
    commit_every_bytes: int | str
    memory_bytes: int | str | None
    codec: str | None
    rewrite: Literal["auto", "copy", "encode"]
    min_row_group_bytes: int | str | None
    verify: Literal["counts", "full"]
    need: Need | Sequence[str] | None
    partitions: Collection[str] | None


class RestoreKeywords(TypedDict, total=False):
    """The fields of ``RestoreOptions``; ``deltactl restore --help-all`` explains them.

    ``version`` is ``--to-version``, ``timestamp`` is ``--to-timestamp``.
    """

    version: int | None
    timestamp: datetime | str | None
    where: str | None
    ignore_missing: bool
    expect_files: int | None
    allow_protocol_downgrade: bool


class StorageKeywords(TypedDict, total=False):
    """The fields of ``StorageOptions``; ``deltactl describe-detail --help-all`` explains them."""

    price: float | str | None
    inventory: str | None


class VacuumKeywords(TypedDict, total=False):
    """The fields of ``VacuumOptions``; ``deltactl vacuum --help-all`` explains them.

    ``keep_versions`` is ``--keep-version``, ``need`` is ``--if-needed``.
    """

    retain: timedelta | str | None
    mode: Literal["auto", "full", "lite"]
    inventory: str | None
    dump_listing: str | None
    keep_versions: Sequence[int]
    keep_last: int | None
    also_keep_for: Sequence[str]
    max_files: int | None
    need: Need | Sequence[str] | None
    ignore_manifests: bool
    max_orphan_fraction: float
    force_retention: bool
    quarantine: bool
    quarantine_for: timedelta | str
