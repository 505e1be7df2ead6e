"""Register table features: the facts of each feature, and the operations that it allows.

To add a feature, add a row to the registry. Other modules contain no names of features: they call
:func:`ensure_supported`, or use the rows below and their facts.

Source: PROTOCOL.md, "Table Features" and its appendix; RFCs of Delta for features that PROTOCOL.md
does not contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from deltactl.errors import SafetyError, UnsupportedFeatureError, join_reasons
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.iceberg import VERSION_KEYS, iceberg_problems
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import is_decoded
from deltactl.protocol.schema_rules import (
    ambiguity_problems,
    describe_mapping_mode,
    schema_problems,
    void_problems,
)

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7


class Operation(Enum):
    """The kinds of operations that commands do on a table."""

    READ = "read rows of"
    REWRITE = "rewrite files of"
    REMOVE = "remove files from"
    RESTORE = "restore"
    VACUUM = "vacuum"
    CHECKPOINT = "checkpoint"
    CLONE = "clone"
    ALTER = "alter"


EVERYTHING = frozenset(Operation)
READ_ONLY = frozenset({Operation.READ})
# These operations change no statistics and no paths, so the content of data files does not matter.
NO_REWRITE = EVERYTHING - {Operation.REWRITE}
NO_RESTORE = EVERYTHING - {Operation.RESTORE, Operation.ALTER}
NOTHING: frozenset[Operation] = frozenset()
_READING = frozenset({Operation.READ, Operation.REWRITE})
_NAMELESS = frozenset({Operation.REMOVE, Operation.VACUUM, Operation.CHECKPOINT, Operation.CLONE})

Condition = Callable[[Metadata], bool]


def _always(_: Metadata) -> bool:
    return True


def _enabled(key: str) -> Condition:
    def is_enabled(metadata: Metadata) -> bool:
        return TableProperties(metadata.configuration).flag(key)

    return is_enabled


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the registry. A feature restricts operations only if it is ``active`` for the table.

    Args:
        name: the name in the protocol action.
        reader: whether readers must support the feature.
        legacy_reader: the lowest reader version that implies the feature; 0: no version does.
        legacy_writer: the lowest writer version that implies the feature; 0: no version does.
        allows: operations that deltactl supports on a table with the active feature.
        reason: why the other operations are refused, or what is done instead; see features.md.
        active: returns, from the metadata, whether the feature is active.
        column_types: types of columns that need the feature.
        brings_types: whether the feature only adds types. If deltactl does not decode a type, the
            row groups of files with such a column are copied.
        switch: boolean table property that enables the feature in a new table.
        needs: names of the features that this feature needs.
        also: names of other features that can replace this feature.
        binds_new_files: whether files that were written without the feature can violate its rules.
        without_vectors: whether tables with the feature must not get new deletion vectors.
        stores_partitions: whether data files must contain the partition columns.
        not_added: why ``alter`` does not add the feature, or what to do instead.
    """

    name: str
    reader: bool = False
    legacy_reader: int = 0
    legacy_writer: int = 0
    allows: frozenset[Operation] = EVERYTHING
    reason: str = ""
    active: Condition = _always
    column_types: tuple[str, ...] = ()
    brings_types: bool = False
    switch: str | None = None
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    binds_new_files: bool = False
    without_vectors: bool = False
    stores_partitions: bool = False
    not_added: str = ""


def _iceberg(name: str, key: str) -> Feature:
    return Feature(
        name,
        active=_enabled(key),
        without_vectors=True,
        stores_partitions=True,
        not_added="Use Delta on Spark, which rewrites the files: REORG TABLE.",
    )


def _refused(name: str, reason: str, *, reader: bool = False) -> Feature:
    allows = NOTHING if reader else READ_ONLY
    return Feature(name, reader=reader, allows=allows, reason=reason, not_added=_UNKNOWN)


_UNKNOWN = "Delta on Spark does not know it, or not for existing tables."
_REDIRECT = "the data is at another address"
_DOMAINS = "domainMetadata"
APPEND_ONLY = Feature("appendOnly", legacy_writer=2, switch="delta.appendOnly")
INVARIANTS = Feature("invariants", legacy_writer=2)
COLUMN_MAPPING = Feature("columnMapping", reader=True, legacy_reader=2, legacy_writer=5)
DELETION_VECTORS = Feature("deletionVectors", reader=True, switch="delta.enableDeletionVectors")
DOMAIN_METADATA = Feature(_DOMAINS)
ROW_TRACKING = Feature("rowTracking", needs=(_DOMAINS,), switch="delta.enableRowTracking")
IN_COMMIT_TIMESTAMP = Feature(
    "inCommitTimestamp",
    switch="delta.enableInCommitTimestamps",
    also=("inCommitTimestamp-preview",),
)
V2_CHECKPOINT = Feature("v2Checkpoint", reader=True)
CHECKPOINT_PROTECTION = Feature("checkpointProtection")
CHECK_CONSTRAINTS = Feature("checkConstraints", legacy_writer=3)
VACUUM_PROTOCOL_CHECK = Feature("vacuumProtocolCheck", reader=True)
TYPE_WIDENING_PREVIEW = Feature("typeWidening-preview", reader=True)
TYPE_WIDENING = Feature(
    "typeWidening",
    reader=True,
    switch="delta.enableTypeWidening",
    also=(TYPE_WIDENING_PREVIEW.name,),
)
# A catalog decides the commits; ``DeltaLog`` refuses to do without it.
CATALOG_MANAGED = tuple(
    Feature(
        name,
        reader=True,
        allows=NO_RESTORE,
        reason="the catalog decides the commits, and which maintenance it allows: see [catalogs]"
        "(catalogs.md)",
        not_added="only a new table can have it",
    )
    for name in ("catalogManaged", "catalogOwned-preview")
)
COORDINATED_COMMITS = _refused("coordinatedCommits-preview", "commits go through a coordinator")
MATERIALIZE_PARTITION_COLUMNS = Feature(
    "materializePartitionColumns",
    switch="delta.enableMaterializePartitionColumnsFeature",
    binds_new_files=True,
    stores_partitions=True,
)

_ROWS = (
    APPEND_ONLY,
    INVARIANTS,
    CHECK_CONSTRAINTS,
    Feature("changeDataFeed", legacy_writer=4, switch="delta.enableChangeDataFeed"),
    Feature("generatedColumns", legacy_writer=4),
    COLUMN_MAPPING,
    Feature("identityColumns", legacy_writer=6),
    Feature("allowColumnDefaults"),
    DELETION_VECTORS,
    DOMAIN_METADATA,
    ROW_TRACKING,
    Feature(
        "clustering",
        needs=(_DOMAINS,),
        not_added="Use Delta on Spark: ALTER TABLE CLUSTER BY.",
    ),
    Feature(
        "timestampNtz",
        reader=True,
        column_types=("timestamp_ntz",),
        also=("timestampWithoutTimezone",),
    ),
    Feature("timestampWithoutTimezone", reader=True),
    TYPE_WIDENING,
    TYPE_WIDENING_PREVIEW,
    IN_COMMIT_TIMESTAMP,
    Feature("inCommitTimestamp-preview", not_added=_UNKNOWN),
    V2_CHECKPOINT,
    VACUUM_PROTOCOL_CHECK,
    CHECKPOINT_PROTECTION,
    Feature("columnMappingUsageTracking", not_added=_UNKNOWN),
    MATERIALIZE_PARTITION_COLUMNS,
    # Statistics in UTF-8 order are valid for any collation, and the schema does not change.
    Feature("collations", not_added=_UNKNOWN),
    Feature("collations-preview", not_added=_UNKNOWN),
    Feature(
        "variantType",
        reader=True,
        column_types=("variant",),
        also=("variantType-preview", "variantShredding", "variantShredding-preview"),
    ),
    Feature("variantType-preview", reader=True),
    Feature("variantShredding", reader=True),
    Feature("variantShredding-preview", reader=True, switch="delta.enableVariantShredding"),
    *(_iceberg(f"icebergCompatV{version}", key) for version, key in VERSION_KEYS.items()),
    _iceberg("icebergWriterCompatV1", "delta.enableIcebergWriterCompatV1"),
    _iceberg("icebergWriterCompatV3", "delta.enableIcebergWriterCompatV3"),
    *CATALOG_MANAGED,
    COORDINATED_COMMITS,
    _refused("redirectReaderWriter-preview", _REDIRECT, reader=True),
    _refused("redirectWriterOnly-preview", _REDIRECT),
    _refused("adaptiveMetadata-preview", "file actions are not in the log", reader=True),
    *(
        Feature(
            name,
            reader=True,
            brings_types=True,
            reason="values are not decoded: `optimize` copies row groups, and cannot sort rows",
            not_added="the engine that adds a column of this type adds it",
        )
        for name in ("geospatial", "geospatial-dev", "timestampNanos")
    ),
)
REGISTRY: dict[str, Feature] = {row.name: row for row in _ROWS}


def list_features(protocol: Protocol) -> frozenset[str]:
    """Return the names of all features that a protocol lists or its versions imply."""
    listed = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    implied = {
        row.name
        for row in _ROWS
        if (
            protocol.min_writer_version < MAX_WRITER_VERSION
            and 0 < row.legacy_writer <= protocol.min_writer_version
        )
        or (
            protocol.min_reader_version < MAX_READER_VERSION
            and 0 < row.legacy_reader <= protocol.min_reader_version
        )
    }
    return listed | implied


def has_feature(protocol: Protocol, *features: Feature) -> bool:
    """Return whether the protocol supports one of the features, by its lists or its versions."""
    return not list_features(protocol).isdisjoint(feature.name for feature in features)


def without_features(protocol: Protocol, *features: Feature) -> Protocol:
    """Return the protocol without some features that only its lists can have."""
    names = frozenset(feature.name for feature in features)
    reader, writer = protocol.reader_features, protocol.writer_features
    return replace(
        protocol,
        reader_features=None if reader is None else reader - names,
        writer_features=None if writer is None else writer - names,
    )


def protocol_of(names: Iterable[str], least_reader: int = 1) -> Protocol:
    """Return the lowest protocol with exactly these known features, as Delta on Spark writes it.

    The versions of old protocols are used if they imply the same features.
    """
    features = frozenset(names)
    readers = features & _reader_names()
    mapped = {COLUMN_MAPPING.name}
    reader = max(least_reader, 1 if not readers else 2 if readers == mapped else 3)
    least_writer = {1: 1, 2: COLUMN_MAPPING.legacy_writer}.get(reader, MAX_WRITER_VERSION)
    for writer in range(least_writer, MAX_WRITER_VERSION):
        if list_features(found := Protocol(reader, writer)) == features:
            return found
    listed = readers if reader == MAX_READER_VERSION else None
    return Protocol(reader, MAX_WRITER_VERSION, listed, features)


def merge_protocols(one: Protocol, other: Protocol) -> Protocol:
    """Return the lowest protocol with all features of two protocols."""
    union = list_features(one) | list_features(other)
    for protocol, rest in ((one, other), (other, one)):
        if list_features(protocol) == union and _has_versions_of(protocol, rest):
            return protocol
    reader = max(one.min_reader_version, other.min_reader_version)
    writer = max(one.min_writer_version, other.min_writer_version)
    return Protocol(
        reader,
        writer,
        union & _reader_names() if reader >= MAX_READER_VERSION else None,
        union if writer >= MAX_WRITER_VERSION else None,
    )


def _has_versions_of(protocol: Protocol, other: Protocol) -> bool:
    return (
        protocol.min_reader_version >= other.min_reader_version
        and protocol.min_writer_version >= other.min_writer_version
    )


def forbids_vectors(metadata: Metadata) -> bool:
    """Return whether a feature is active that is for readers which ignore deletion vectors."""
    return any(row.without_vectors and row.active(metadata) for row in REGISTRY.values())


def stores_partitions(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether new data files contain the partition columns.

    A feature demands it, or ``delta.writePartitionColumnsToParquet`` is set to ``true``.
    """
    if TableProperties(metadata.configuration).flag("delta.writePartitionColumnsToParquet"):
        return True
    return _must_store_partitions(protocol, metadata)


def _must_store_partitions(protocol: Protocol, metadata: Metadata) -> bool:
    rows = (REGISTRY[name] for name in list_features(protocol) & REGISTRY.keys())
    return any(row.stores_partitions and row.active(metadata) for row in rows)


def may_have_new_types(protocol: Protocol) -> bool:
    """Return whether a feature of the table can have types that deltactl does not support."""
    features = list_features(protocol)
    return any(name not in REGISTRY or REGISTRY[name].brings_types for name in features)


def ensure_supported(protocol: Protocol, metadata: Metadata, operation: Operation) -> None:
    """Raise an error if deltactl cannot do an operation with the features and schema of the table.

    Raises:
        UnsupportedFeatureError: the message lists each unsupported feature, version or column.
        SafetyError: the schema is invalid, so that columns could be misread.
        CorruptLogError: the schema cannot be parsed.
    """
    blockers = list(_version_blockers(protocol, operation))
    relevant = (
        protocol.reader_features or frozenset()
        if operation is Operation.READ
        else list_features(protocol)
    )
    if metadata.format_provider.lower() != "parquet":
        blockers.append(f"data format {metadata.format_provider!r}")
    blockers += [
        name
        for name in sorted(relevant | list_features(protocol) & _reader_names())
        if not _is_allowed(name, metadata, operation)
    ]
    is_mapped = metadata.column_mapping_mode != "none"
    if is_mapped and operation not in _NAMELESS and not has_feature(protocol, COLUMN_MAPPING):
        # For such a table, some readers use column mapping and others do not.
        blockers.append("delta.columnMapping.mode without columnMapping in the protocol")
    problem = describe_mapping_mode(metadata)
    if problem is not None and operation in _READING:
        blockers.append(problem)
    if operation is Operation.REWRITE:
        blockers += _rewrite_blockers(protocol, metadata)
    if blockers:
        is_managed = any(row.name in blockers for row in CATALOG_MANAGED)  # it cannot be dropped
        drop = "" if is_managed else ", or drop the feature from the table"
        raise UnsupportedFeatureError(
            f"cannot {operation.value} this table: unsupported table feature"
            f"{'s' if len(blockers) > 1 else ''}: {', '.join(blockers)}",
            hint=f"Use a tool that supports the feature{drop}. "
            "`deltactl describe-detail TABLE` still shows the table.",
        )
    problems = []
    if operation is Operation.REWRITE:
        problems = schema_problems(metadata, may_have_new_types=may_have_new_types(protocol))
    elif operation is Operation.READ:
        problems = ambiguity_problems(metadata)
    if problems:
        raise SafetyError(
            f"cannot {operation.value} this table: its schema is invalid: {join_reasons(problems)}",
            hint="Let the writer of the table commit a valid metaData action. `deltactl check "
            "TABLE` lists all problems, and says what repairs them.",
        )


def _rewrite_blockers(protocol: Protocol, metadata: Metadata) -> Iterator[str]:
    """Yield why no file of the table can be written."""
    yield from void_problems(metadata.data_schema)
    if not _must_store_partitions(protocol, metadata):
        return
    yield from iceberg_problems(metadata)
    for column in metadata.known_partition_fields:
        if not is_decoded(column.type):
            yield f"partition columns in data files with the type of column {column.name!r}"


def _reader_names() -> frozenset[str]:
    return frozenset(row.name for row in _ROWS if row.reader)


def _version_blockers(protocol: Protocol, operation: Operation) -> Iterable[str]:
    if not 1 <= protocol.min_reader_version <= MAX_READER_VERSION:
        yield f"minReaderVersion {protocol.min_reader_version}"
    writes = operation is not Operation.READ
    if writes and not 1 <= protocol.min_writer_version <= MAX_WRITER_VERSION:
        yield f"minWriterVersion {protocol.min_writer_version}"


def _is_allowed(name: str, metadata: Metadata, operation: Operation) -> bool:
    row = REGISTRY.get(name)
    if row is None:
        return False
    return operation in row.allows or not row.active(metadata)
