"""Plan to drop a table feature: all steps after which the protocol does not need it.

If readers must support the feature, three checkpoints precede the commit that drops it, and the
feature ``checkpointProtection`` keeps readers without the feature from the older versions.

Source: PROTOCOL.md; the RFC "Checkpoint Protection"; DROP FEATURE in Delta on Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from deltactl.errors import SafetyError, UnsupportedFeatureError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.steps import (
    AlterPlan,
    Step,
    StepKind,
    changed_keys,
    property_step,
    spellings,
    to_json,
)
from deltactl.operations.alter.traces import (
    TRACES,
    count_traces,
    list_unmarked_vectors,
    plan_rewrite,
)
from deltactl.operations.alter.truncation import plan_truncation
from deltactl.operations.optimize.options import REMOVE_MAPPING, PurgeOptions
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import DomainMetadata, Metadata
from deltactl.protocol.column_ids import MAX_COLUMN_ID, remove_field_metadata, without_mapping
from deltactl.protocol.features import (
    CHECK_CONSTRAINTS,
    CHECKPOINT_PROTECTION,
    COLUMN_MAPPING,
    DELETION_VECTORS,
    DOMAIN_METADATA,
    IN_COMMIT_TIMESTAMP,
    MATERIALIZE_PARTITION_COLUMNS,
    REGISTRY,
    ROW_TRACKING,
    TYPE_WIDENING,
    TYPE_WIDENING_PREVIEW,
    V2_CHECKPOINT,
    VACUUM_PROTOCOL_CHECK,
    Feature,
    list_features,
    protocol_of,
)
from deltactl.protocol.properties import (
    PROTECTED_BEFORE,
    ROW_TRACKING_COLUMN_KEYS,
    ensure_valid_property,
    history_end_ms,
)
from deltactl.protocol.schema import TYPE_CHANGES_KEY, StructType, encode_schema
from deltactl.suggest import with_suggestion

if TYPE_CHECKING:
    from deltactl.operations.optimize.plan import OptimizePlan

_ROW_IDS: Final = "delta.enableRowTracking"
_SUSPENDED: Final = "delta.rowTrackingSuspended"
_CONSTRAINT: Final = "delta.constraints."
_BARRIERS: Final = 3

Changes = Mapping[str, str | None]

TURNED_OFF: Final[Mapping[str, Changes]] = {
    CHECK_CONSTRAINTS.name: {},
    CHECKPOINT_PROTECTION.name: {},
    COLUMN_MAPPING.name: {},
    DELETION_VECTORS.name: {"delta.enableDeletionVectors": None},
    DOMAIN_METADATA.name: {},
    IN_COMMIT_TIMESTAMP.name: dict.fromkeys(
        ("delta.enableInCommitTimestamps", ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)
    ),
    MATERIALIZE_PARTITION_COLUMNS.name: {"delta.enableMaterializePartitionColumnsFeature": None},
    ROW_TRACKING.name: {_ROW_IDS: "false", _SUSPENDED: "true"},
    TYPE_WIDENING.name: {"delta.enableTypeWidening": None},
    TYPE_WIDENING_PREVIEW.name: {"delta.enableTypeWidening": None},
    V2_CHECKPOINT.name: {"delta.checkpointPolicy": None},
    VACUUM_PROTOCOL_CHECK.name: {},
}
"""The features that can be dropped, and the properties that change first."""

_REMOVED: Final[Mapping[str, Changes]] = {
    CHECKPOINT_PROTECTION.name: {PROTECTED_BEFORE: None},
    COLUMN_MAPPING.name: {"delta.columnMapping.mode": None, MAX_COLUMN_ID: None},
    ROW_TRACKING.name: dict.fromkeys((_ROW_IDS, _SUSPENDED, *ROW_TRACKING_COLUMN_KEYS)),
}
"""Properties that are removed together with their feature."""

_LOST: Final[Mapping[str, str]] = {
    IN_COMMIT_TIMESTAMP.name: "the times of all versions become those of their files",
    ROW_TRACKING.name: "row ids are lost",
    DOMAIN_METADATA.name: "all domain metadata is removed",
}


def plan_drop(
    log: DeltaLog, snapshot: Snapshot, options: AlterOptions, context: RunContext
) -> AlterPlan:
    """Return the steps; none if the table does not have the feature.

    Raises:
        UsageError: no release of Delta knows the feature.
        UnsupportedFeatureError: the feature cannot be dropped, or not by deltactl.
        SafetyError: something still needs the feature.
    """
    name, now_ms = options.drop_feature or "", context.clock.now_ms()
    if name not in REGISTRY:
        raise UsageError(
            with_suggestion(f"the feature {name!r} is not known", name, REGISTRY),
            hint=f"Use one of: {', '.join(sorted(TURNED_OFF))}.",
        )
    before, has, row = snapshot.metadata, list_features(snapshot.protocol), REGISTRY[name]
    plan = AlterPlan(snapshot.version, before.id)
    if name not in has:
        return plan
    _ensure_droppable(snapshot, row)
    prepared = _change(before, TURNED_OFF[name])
    bare = _without_traces(prepared, row)
    final = _change(bare, _REMOVED.get(name, {}))
    protects = {CHECKPOINT_PROTECTION.name} if row.reader else set()
    truncation = []
    if row is CHECKPOINT_PROTECTION:
        truncation = plan_truncation(log, snapshot, context, truncates=options.truncate_history)
    steps = [
        *truncation,
        *([property_step(prepared, _changed(before, prepared))] if prepared != before else []),
        *_plan_files(log, snapshot, row, now_ms),
        *_plan_rewrite(log, snapshot, row, bare, now_ms),
        *_plan_domains(snapshot, row),
        *([_barrier()] * _BARRIERS if row.reader else []),
        Step(
            StepKind.STATE,
            "DROP FEATURE",
            {"featureName": name, "truncateHistory": options.truncate_history},
            metadata=final,
            protocol=protocol_of(has - {name} | protects),
            domains=_removed(snapshot, ROW_TRACKING_DOMAIN) if row is ROW_TRACKING else (),
            drops=row,
            writes_checkpoint=row.reader,
        ),
    ]
    lost = [f"engines without {it} can no longer write to the table" for it in protects - has]
    deleted = ["the versions that it protects can no longer be read"] if truncation else []
    until_ms = None
    if protects:
        with ensure_valid_property("delta.logRetentionDuration", "the feature cannot be dropped"):
            until_ms = history_end_ms(now_ms, snapshot.properties.log_retention_ms)
    return replace(
        plan,
        properties={
            key: (before.configuration.get(key), final.configuration.get(key))
            for key in _changed(before, final)
        },
        added=tuple(protects - has),
        dropped=(name,),
        steps=tuple(steps),
        risks=(*([_LOST[name]] if name in _LOST else []), *lost, *deleted),
        protected_until_ms=until_ms,
    )


def _change(metadata: Metadata, changes: Changes) -> Metadata:
    """Return the metadata with other values of properties; ``None`` removes a property."""
    configuration = dict(metadata.configuration)
    for key, value in changes.items():
        for name in spellings(metadata.configuration, key):
            del configuration[name]
        if value is not None:
            configuration[key] = value
    return replace(metadata, configuration=configuration)


def _changed(before: Metadata, after: Metadata) -> list[str]:
    return changed_keys(before.configuration, after.configuration)


def _barrier() -> Step:
    return Step(StepKind.STATE, "Empty Commit", writes_checkpoint=True)


def _without_traces(metadata: Metadata, row: Feature) -> Metadata:
    """Return the metadata without what its schema has of a feature."""
    schema = metadata.schema_string
    if row is COLUMN_MAPPING and metadata.column_mapping_mode != "none":
        return without_mapping(metadata)
    widens = row in (TYPE_WIDENING, TYPE_WIDENING_PREVIEW)
    if widens and schema is not None and TYPE_CHANGES_KEY in schema:
        schema = remove_field_metadata(schema, {TYPE_CHANGES_KEY})
    return replace(metadata, schema_string=schema)


def _plan_rewrite(
    log: DeltaLog, snapshot: Snapshot, row: Feature, after: Metadata, now_ms: int
) -> Iterator[Step]:
    """Yield the steps after which neither the schema nor a file has the feature."""
    before = snapshot.metadata
    if before.schema_string == after.schema_string:
        return
    if row is COLUMN_MAPPING:  # with the metadata, or readers would not find the columns
        # All rows are compared, because a wrong name would be read as nulls.
        options = PurgeOptions(purge=True, purged="other names", rewrite="encode", verify="full")
        step = _rewrite(plan_rewrite(log, snapshot, options, now_ms), options)
        yield replace(step, operation=REMOVE_MAPPING, metadata=after)
        return
    options = PurgeOptions(purge=True, purged="old types")
    plan = plan_rewrite(log, snapshot, options, now_ms)
    if not plan.is_empty:
        yield _rewrite(plan, options)
    pairs = zip(before.schema.fields, after.schema.fields, strict=True)
    changed = StructType(tuple(old for old, new in pairs if old != new))
    columns = to_json(json.loads(encode_schema(changed))["fields"])
    yield Step(StepKind.STATE, "DROP FEATURE", {"columns": columns}, metadata=after)


def _rewrite(plan: OptimizePlan, options: PurgeOptions) -> Step:
    return Step(
        StepKind.PURGE,
        "REORG",
        num_files=plan.files.num_rows,
        num_bytes=plan.bytes_to_rewrite,
        rewrite=options,
    )


def _plan_files(log: DeltaLog, snapshot: Snapshot, row: Feature, now_ms: int) -> Iterator[Step]:
    """Yield the steps that remove what files have of the feature."""
    column = TRACES.get(row.name)
    num_files = 0 if column is None else count_traces(snapshot, column)
    if row is ROW_TRACKING and num_files:
        yield Step(StepKind.UNBACKFILL, "ROW TRACKING UNBACKFILL", num_files=num_files)
    if row is DELETION_VECTORS:
        if num_files:
            options = PurgeOptions(purge=True, purged="vectors")
            yield _rewrite(plan_rewrite(log, snapshot, options, now_ms), options)
        if num_files or len(list_unmarked_vectors(snapshot)):
            yield Step(StepKind.TOMBSTONES, "Deletion Vector Tombstones")


def _plan_domains(snapshot: Snapshot, row: Feature) -> Iterator[Step]:
    domains = _removed(snapshot)
    if row is DOMAIN_METADATA and domains:
        yield Step(StepKind.STATE, "DOMAIN METADATA CLEANUP", domains=domains)


def _removed(snapshot: Snapshot, *names: str) -> tuple[DomainMetadata, ...]:
    """Return the actions that remove some domains, or all of them."""
    found = snapshot.domains
    return tuple(replace(found[name], removed=True) for name in names or found if name in found)


def _ensure_droppable(snapshot: Snapshot, row: Feature) -> None:
    name, before = row.name, snapshot.metadata
    if name not in TURNED_OFF:
        raise UnsupportedFeatureError(
            f"deltactl does not drop the feature {name}",
            hint="Copy the rows to a new table: Delta on Spark drops few other features.",
        )
    for other in sorted(list_features(snapshot.protocol)):
        needs = REGISTRY[other].needs
        is_for_iceberg = REGISTRY[other].without_vectors
        if name in needs or (is_for_iceberg and row in (COLUMN_MAPPING, ROW_TRACKING)):
            raise SafetyError(
                f"the feature {name} cannot be dropped while the table has {other}",
                hint=f"Drop {other} first, if possible.",
            )
    constraints = [key for key in before.configuration if key.startswith(_CONSTRAINT)]
    if row is CHECK_CONSTRAINTS and constraints:
        raise SafetyError(
            f"the feature {name} cannot be dropped: the table has {', '.join(constraints)}",
            hint="Unset them first.",
        )
