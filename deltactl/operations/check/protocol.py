"""Check protocol and metaData actions. No I/O.

Source: PROTOCOL.md, "Table Features", "Schema Serialization Format", "Partition Value
Serialization", "Column Mapping", "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.operations.check.findings import Findings
from deltactl.operations.missing_columns import describe_lack
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.features import (
    COLUMN_MAPPING,
    IN_COMMIT_TIMESTAMP,
    MAX_READER_VERSION,
    MAX_WRITER_VERSION,
    REGISTRY,
    ROW_TRACKING,
    V2_CHECKPOINT,
    list_features,
)
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import (
    PHYSICAL_NAME_KEY,
    Field,
    PrimitiveType,
    StructType,
    leaf_types,
    render_type,
    walk_fields,
    walk_types,
)

# Types outside the protocol that Spark writes or reads.
_SPARK_TYPES: Final = re.compile(r"interval .*|(?:var)?char\(\d+\)|null|timestamp_ltz")


class Readable(IntEnum):
    """The level to which files can be checked with a schema; each includes the levels before it."""

    NOTHING = 0
    FILES = 1
    ROWS = 2


def check_protocol(
    protocol: Protocol, metadata: Metadata, version: int, findings: Findings
) -> Readable:
    """Check the protocol, the schema, and that each feature in use is supported."""
    for problem in _protocol_problems(protocol):
        findings.add("PROTOCOL_INVALID", problem, version=version)
    unknown = sorted(list_features(protocol) - REGISTRY.keys())
    if unknown:
        findings.note(
            "deltactl did not check the requirements of these table features, because it does "
            f"not support them: {', '.join(unknown)}"
        )
    try:
        schema = metadata.schema
    except CorruptLogError as error:
        findings.add("SCHEMA_INVALID", error.message, version=version)
        return Readable.NOTHING
    if not schema.fields:
        return Readable.ROWS  # there are no columns to check; see check_empty_schema
    for problem in _missing_features(protocol, metadata, schema):
        findings.add("FEATURE_MISSING", problem, version=version)
    problems = [*_column_problems(metadata, schema), *_type_problems(protocol, schema)]
    readable = Readable.ROWS
    if metadata.missing_partition_columns:
        problems.append(
            f"{describe_lack(metadata)}: do not rewrite files before a commit completes the schema"
        )
        readable = Readable.FILES
    if metadata.column_mapping_mode != "none":
        mapping = list(_mapping_problems(schema))
        readable = Readable.FILES if mapping else readable
        problems += [*mapping, *_counter_problems(metadata, schema)]
    for problem in problems:
        findings.add("SCHEMA_INVALID", problem, version=version)
    return readable


def check_empty_schema(
    metadata: Metadata, version: int, num_files: int, findings: Findings
) -> None:
    """Find a schema without columns that has live files or fails in every reader."""
    if metadata.schema.fields:
        return
    if metadata.schema_string == "":
        problem = "its schemaString is an empty string"
        findings.add("SCHEMA_EMPTY", f"{problem}, and {num_files} files are live", version=version)
    elif num_files:
        problem = f"{describe_lack(metadata)}, and {num_files} files are live"
        findings.add("SCHEMA_EMPTY", problem, version=version)


def _protocol_problems(protocol: Protocol) -> Iterator[str]:
    reader, writer = protocol.reader_features, protocol.writer_features
    lists = (
        ("reader", protocol.min_reader_version, MAX_READER_VERSION, reader),
        ("writer", protocol.min_writer_version, MAX_WRITER_VERSION, writer),
    )
    for who, number, last, names in lists:
        if number < 1:
            yield f"its {who} version is {number}"
        if names is not None and number != last:
            yield (
                f"it lists {who} features, which require {who} version {last}, but has {who} "
                f"version {number}"
            )
        if names is None and number == last:
            yield f"it has {who} version {number}, but no list of {who} features"
    if protocol.min_reader_version == MAX_READER_VERSION and writer is None:
        yield "it lists reader features without writer features"
    yield from _misplaced_features(protocol, reader or frozenset(), writer or frozenset())


def _misplaced_features(
    protocol: Protocol, reader: frozenset[str], writer: frozenset[str]
) -> Iterator[str]:
    """Yield features in the wrong list. Unknown features cannot be judged."""
    known = {name: REGISTRY[name] for name in reader | writer if name in REGISTRY}
    if protocol.writer_features is not None and (unlisted := sorted(reader - writer)):
        yield f"reader features that are not listed as writer features: {', '.join(unlisted)}"
    if wrong := sorted(n for n in reader & known.keys() if not known[n].reader):
        yield f"writer-only features are listed as reader features: {', '.join(wrong)}"
    hidden = sorted(n for n in writer - reader if n in known and known[n].reader)
    number = protocol.min_reader_version
    if number >= MAX_READER_VERSION:
        if hidden:
            yield f"features that readers must support are listed as writer features only: {hidden}"
        return
    for name in hidden:
        needed = known[name].legacy_reader or MAX_READER_VERSION
        if number < needed:
            yield f"the feature {name} needs reader version {needed}, the table has {number}"


def _missing_features(protocol: Protocol, metadata: Metadata, schema: StructType) -> Iterator[str]:
    supported = list_features(protocol)
    properties = TableProperties(metadata.configuration)
    types = {leaf.name for leaf in leaf_types(schema)}
    uses = (
        *(
            (not types.isdisjoint(row.column_types), row, "its columns")
            for row in REGISTRY.values()
            if row.column_types
        ),
        (metadata.column_mapping_mode != "none", COLUMN_MAPPING, "delta.columnMapping.mode"),
        (properties.row_tracking_enabled, ROW_TRACKING, "delta.enableRowTracking"),
        (properties.in_commit_timestamps, IN_COMMIT_TIMESTAMP, "delta.enableInCommitTimestamps"),
        # Spark refuses the table if the protocol lists features; else the policy has no effect.
        (
            properties.checkpoint_policy == "v2" and protocol.writer_features is not None,
            V2_CHECKPOINT,
            "delta.checkpointPolicy",
        ),
    )
    for is_used, row, by in uses:
        if is_used and supported.isdisjoint((row.name, *row.also)):
            yield f"{by} use the feature {row.name}, which the protocol does not list"
    for name in sorted(supported & REGISTRY.keys()):
        for needed in REGISTRY[name].needs:
            if needed not in supported:
                yield f"the feature {name} needs {needed}, which the protocol does not list"


def _column_problems(metadata: Metadata, schema: StructType) -> Iterator[str]:
    """Yield columns that differ only in case, and columns that cannot be partition columns."""
    for struct in walk_types(schema):
        if not isinstance(struct, StructType):
            continue
        names = Counter(field.name.lower() for field in struct.fields)
        for name, times in sorted(names.items()):
            if times > 1:
                yield (
                    f"{times} fields of a struct have the same name {name!r}, if case is ignored"
                )
    columns = metadata.known_partition_fields
    for name, times in Counter(field.name for field in columns).items():
        if times > 1:
            yield f"the partition column {name!r} is listed {times} times"
    for field in dict.fromkeys(columns):
        if not can_partition(field):
            kind = render_type(field.type)
            yield f"the partition column {field.name!r} has type {kind}, which is not allowed"


def can_partition(column: Field) -> bool:
    """Return whether ``partitionValues`` can contain values of the type of the column."""
    return isinstance(column.type, PrimitiveType) and column.type.name != "variant"


def _type_problems(protocol: Protocol, schema: StructType) -> Iterator[str]:
    """Yield types that the protocol does not define, unless a feature may have added them."""
    features = list_features(protocol)
    if any(name not in REGISTRY or REGISTRY[name].brings_types for name in features):
        return
    for name in sorted({leaf.name for leaf in leaf_types(schema)}):
        try:
            arrow_type(PrimitiveType(name))
        except UnsupportedFeatureError:
            if not _SPARK_TYPES.fullmatch(name):
                yield f"a column has type {name!r}, which Delta does not define"


def _mapping_problems(schema: StructType) -> Iterator[str]:
    """Yield problems of the column mapping that make columns of files ambiguous."""
    ids: Counter[int] = Counter()
    for field in walk_fields(schema):
        if PHYSICAL_NAME_KEY not in field.metadata:
            yield f"column {field.name!r} has no physical name, which column mapping needs"
        if (number := field.field_id) is None:
            yield f"column {field.name!r} has no id, which column mapping needs"
        else:
            ids[number] += 1
    for number, times in sorted(ids.items()):
        if times > 1:
            yield f"the column id {number} is used {times} times"
    names = Counter(field.physical_name for field in schema.fields)
    for name, times in sorted(names.items()):
        if times > 1:
            yield f"the physical name {name!r} is used {times} times"


def _counter_problems(metadata: Metadata, schema: StructType) -> Iterator[str]:
    """Yield a problem if the next column would get an id that is in use."""
    ids = [number for field in walk_fields(schema) if (number := field.field_id) is not None]
    highest = max(ids, default=0)
    counter = TableProperties(metadata.configuration).integer(
        "delta.columnMapping.maxColumnId", highest
    )
    if counter < highest:
        yield f"delta.columnMapping.maxColumnId is {counter}, below the column id {highest}"
