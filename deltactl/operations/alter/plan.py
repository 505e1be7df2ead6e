"""Plan changes of properties, and features to add.

Source: PROTOCOL.md, "Table Features"; ALTER TABLE in Delta on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from deltactl.errors import SafetyError, UsageError, Warn
from deltactl.log.snapshot import Snapshot
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
from deltactl.option_names import option
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.column_ids import MAX_COLUMN_ID, add_column_ids
from deltactl.protocol.features import (
    COLUMN_MAPPING,
    REGISTRY,
    forbids_vectors,
    list_features,
    protocol_of,
)
from deltactl.protocol.properties import (
    DEFAULT_LOG_RETENTION_MS,
    DEFAULT_RETENTION_MS,
    FILE_RETENTION,
    LOG_RETENTION,
    ROW_TRACKING_COLUMN_KEYS,
    TableProperties,
    list_shorter_retentions,
)
from deltactl.protocol.property_rules import (
    MANIFESTS_KEY,
    RULES,
    ensure_changeable,
    ensure_manifests_fit,
    find_key,
    needed_feature,
    parse_properties,
)
from deltactl.protocol.stats import num_records
from deltactl.protocol.stats_columns import (
    INDEXED_COLUMNS_KEY,
    STATS_COLUMNS_KEY,
    ensure_stats_columns,
)
from deltactl.suggest import with_suggestion
from deltactl.units import format_duration

_CDF_COLUMNS: Final = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})
_CONSTRAINT: Final = "delta.constraints."
_CDF: Final = "delta.enableChangeDataFeed"
_STATS: Final = (INDEXED_COLUMNS_KEY, STATS_COLUMNS_KEY)
_MODE: Final = "delta.columnMapping.mode"
_VECTORS: Final = "delta.enableDeletionVectors"


def plan_alter(snapshot: Snapshot, options: AlterOptions, new_id: str, warn: Warn) -> AlterPlan:
    """Compare the table with the wanted state. ``new_id`` makes names of hidden columns unique.

    Raises:
        UsageError: a property or feature is not possible.
        SafetyError: the table does not allow a change.
    """
    before = snapshot.metadata
    configuration = _change_properties(before.configuration, options)
    changed = changed_keys(before.configuration, configuration)
    metadata = _map_columns(before, replace(before, configuration=configuration))
    wanted = parse_properties(options.properties)
    features = {needed_feature(key, value) for key, value in wanted.items()} - {None}
    features |= set(map(_find_feature, options.add_feature))
    protocol = _upgrade(snapshot.protocol, features)
    _ensure_possible(metadata, set(changed))
    steps: list[Step] = []
    old, new = TableProperties(before.configuration), TableProperties(configuration)
    if not {FILE_RETENTION, LOG_RETENTION}.isdisjoint(changed):
        _warn_of_short_log(new, warn)
    if INDEXED_COLUMNS_KEY in changed and None not in map(new.text, _STATS):
        warn(f"{INDEXED_COLUMNS_KEY} has no effect: {STATS_COLUMNS_KEY} is set, and replaces it")
    needs_row_ids = new.row_tracking_enabled and not old.row_tracking_enabled
    if needs_row_ids:
        metadata = _name_row_id_columns(metadata, new_id)
        steps += _plan_row_ids(snapshot, protocol)
    added = tuple(sorted(list_features(protocol) - list_features(snapshot.protocol)))
    if metadata != before or (added and not steps):
        state = property_step(
            metadata,
            changed,
            () if steps else sorted(set(added) & set(options.add_feature)),
            protocol=protocol if added and not steps else None,
            enables_timestamps=new.in_commit_timestamps and not old.in_commit_timestamps,
            needs_row_ids=needs_row_ids,
        )
        steps.append(state if metadata != before else replace(state, metadata=None))
    return AlterPlan(
        snapshot.version,
        before.id,
        {key: (before.configuration.get(key), configuration.get(key)) for key in changed},
        added,
        steps=tuple(steps),
        risks=tuple(_find_risks(before, metadata, added)),
    )


def _change_properties(before: Mapping[str, str], options: AlterOptions) -> dict[str, str]:
    """Return the properties after the change."""
    after = dict(before)
    for key, value in parse_properties(options.properties).items():
        spelled = spellings(before, key)
        if not (spelled and _is_same(key, before[spelled[0]], value)):
            for name in spelled:
                del after[name]
            after[key] = value
    for key in options.unset:
        spelled = spellings(before, key)
        if not key.startswith(_CONSTRAINT):
            ensure_changeable(key)
        if not spelled and not key.startswith(_CONSTRAINT):
            find_key(key)
        for name in spelled:
            after.pop(name, None)
    return after


def _is_same(key: str, text: str, value: str) -> bool:
    try:
        return RULES.get(key, str)(text) == value
    except UsageError:
        return False


def _map_columns(before: Metadata, after: Metadata) -> Metadata:
    """Return the metadata with column ids, if the change turns on column mapping."""
    old, new = before.column_mapping_mode, after.column_mapping_mode
    if old == new:
        return after
    if (old, new) != ("none", "name"):
        raise SafetyError(
            f"{_MODE} cannot be changed from {old} to {new}, only from none to name",
            hint=f"Rewrite the files: {option('drop_feature', COLUMN_MAPPING.name)}."
            if new == "none"
            else "Use the mode name.",
        )
    schema_string, last = add_column_ids(before.schema_string or '{"type":"struct","fields":[]}')
    configuration = {**after.configuration, MAX_COLUMN_ID: str(last)}
    return replace(after, schema_string=schema_string, configuration=configuration)


def _name_row_id_columns(metadata: Metadata, new_id: str) -> Metadata:
    row_id, commit_version = ROW_TRACKING_COLUMN_KEYS
    names = {row_id: f"_row-id-col-{new_id}", commit_version: f"_row-commit-version-col-{new_id}"}
    return replace(metadata, configuration={**names, **metadata.configuration})


def _find_feature(name: str) -> str:
    row = REGISTRY.get(name)
    if row is None:
        raise UsageError(with_suggestion(f"the feature {name!r} is not known", name, REGISTRY))
    if row.not_added:
        raise UsageError(f"deltactl cannot add the feature {name}: {row.not_added}")
    return name


def _upgrade(protocol: Protocol, features: set[str | None]) -> Protocol:
    """Return the protocol with more features, and with those that they need."""
    has = list_features(protocol)
    rows = [REGISTRY[name] for name in features if name is not None]
    missing = {row.name for row in rows if has.isdisjoint((row.name, *row.also))}
    if not missing:
        return protocol
    needs = {name for row in rows for name in row.needs}
    return protocol_of(has | missing | needs, protocol.min_reader_version)


def _plan_row_ids(snapshot: Snapshot, protocol: Protocol) -> Iterator[Step]:
    """Yield the commits that give each file row ids before they are turned on."""
    if protocol != snapshot.protocol:
        lists = {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
            "readerFeatures": protocol.reader_features and sorted(protocol.reader_features),
            "writerFeatures": protocol.writer_features and sorted(protocol.writer_features),
        }
        yield Step(
            StepKind.STATE, "UPGRADE PROTOCOL", {"newProtocol": to_json(lists)}, protocol=protocol
        )
    bare = 0
    for batch in snapshot.file_batches(("path", "stats", "base_row_id")):
        files = batch.filter(batch["base_row_id"].is_null())
        bare += files.num_rows
        unknown = files.filter(num_records(files["stats"]).is_null())
        if unknown.num_rows:
            raise SafetyError(
                f"row ids cannot be assigned: the log does not say how many rows "
                f"{unknown['path'][0].as_py()!r} has",
                hint="Rewrite the files without statistics, for example with `deltactl optimize`.",
            )
    if bare or protocol != snapshot.protocol:
        yield Step(StepKind.BACKFILL, "ROW TRACKING BACKFILL", num_files=bare)


def _ensure_possible(after: Metadata, changed: Set[str]) -> None:
    """Refuse values that do not fit the schema or each other."""
    properties = TableProperties(after.configuration)
    taken = sorted(_CDF_COLUMNS & {f.name.lower() for f in after.schema.fields})
    if _CDF in changed and properties.flag(_CDF) and taken:
        raise SafetyError(
            f"{_CDF} cannot be true: change data has a column {taken[0]!r}, and the table too",
            hint="Give the column of the table another name first, with Delta on Spark.",
        )
    if _VECTORS in changed and properties.deletion_vectors_enabled and forbids_vectors(after):
        raise SafetyError(
            f"{_VECTORS} cannot be true: the table is also for readers without deletion vectors",
            hint="Use Delta on Spark to turn off IcebergCompat first.",
        )
    if not changed.isdisjoint((MANIFESTS_KEY, _MODE, _VECTORS)):
        ensure_manifests_fit(after)
    if properties.row_tracking_enabled and properties.row_tracking_suspended:
        raise SafetyError(
            "delta.enableRowTracking cannot be true: delta.rowTrackingSuspended is true",
            hint="Wait until the other writer has dropped the feature, then rerun.",
        )
    if STATS_COLUMNS_KEY in changed:
        ensure_stats_columns(after.data_schema, properties.text(STATS_COLUMNS_KEY) or "")


def _warn_of_short_log(properties: TableProperties, warn: Warn) -> None:
    files_ms = properties.duration_ms(FILE_RETENTION, DEFAULT_RETENTION_MS)
    log_ms = properties.duration_ms(LOG_RETENTION, DEFAULT_LOG_RETENTION_MS)
    if log_ms < files_ms:
        warn(
            f"{LOG_RETENTION} ({format_duration(log_ms)}) is shorter than {FILE_RETENTION} "
            f"({format_duration(files_ms)}): a log cleanup removes versions whose files are still "
            "kept"
        )


def _find_risks(before: Metadata, after: Metadata, added: Sequence[str]) -> Iterator[str]:
    """Yield what another alter does not simply undo."""
    readers = [name for name in added if REGISTRY[name].reader]
    writers = [name for name in added if not REGISTRY[name].reader]
    if readers:
        yield f"engines without {', '.join(readers)} can no longer read the table"
    if writers:
        yield f"engines without {', '.join(writers)} can no longer write to the table"
    old, new = TableProperties(before.configuration), TableProperties(after.configuration)
    yield from list_shorter_retentions(old, new)
    if old.in_commit_timestamps and not new.in_commit_timestamps:
        yield "the times of all versions become those of their files"
