"""Check protocol and metaData actions.

Source: PROTOCOL.md, "Table Features", "Schema Serialization Format", "Partition Value
Serialization", "Column Mapping", "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

from deltactl.errors import CorruptLogError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.findings import Findings
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.features import (
    COLUMN_MAPPING,
    IN_COMMIT_TIMESTAMP,
    MAX_READER_VERSION,
    MAX_WRITER_VERSION,
    REGISTRY,
    ROW_TRACKING,
    V2_CHECKPOINT,
    list_features,
    may_have_new_types,
)
from deltactl.protocol.properties import FILE_RETENTION, LOG_RETENTION, TableProperties
from deltactl.protocol.schema import StructType, leaf_types
from deltactl.protocol.schema_rules import (
    ambiguity_problems,
    explain_missing_columns,
    schema_problems,
)
from deltactl.units import parse_duration

# For schemaString see SCHEMA_MISSING.
_MEMBERS: Final = ("id", "format.provider", "format.options", "partitionColumns", "configuration")
_OBJECTS: Final = frozenset({"format.options", "configuration"})


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
            "the requirements of these table features were not checked, because deltactl does not "
            f"support them: {', '.join(unknown)}"
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
    for problem in schema_problems(metadata, may_have_new_types=may_have_new_types(protocol)):
        findings.add("SCHEMA_INVALID", problem, version=version)
    for key in (FILE_RETENTION, LOG_RETENTION):
        _note_invalid(metadata, key, findings)
    return Readable.FILES if ambiguity_problems(metadata) else Readable.ROWS


def _note_invalid(metadata: Metadata, key: str, findings: Findings) -> None:
    """Note a retention that is not valid: runs that delete files are refused."""
    value = TableProperties(metadata.configuration).text(key)
    try:
        parse_duration("0s" if value is None else value)
    except UsageError as error:
        findings.note(
            f"the table property {key} is invalid, and vacuum, checkpoint and maintain are refused "
            f"because of it: {error.message}"
        )


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
        problem = f"{explain_missing_columns(metadata)}, and {num_files} files are live"
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


def describe_lacking(metadata: Mapping[str, Any]) -> str | None:
    """Return which required members are absent, or not an object as needed; or ``None``."""
    lacking = []
    for member in _MEMBERS:
        value: Any = metadata
        for name in member.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is None or (member in _OBJECTS and not isinstance(value, dict)):
            lacking.append(member)
    return f"its metaData action has no {' and no '.join(lacking)}" if lacking else None


def check_missing_schemas(
    log: DeltaLog, metadata_by_version: Mapping[int, Metadata], findings: Findings
) -> None:
    """Find metaData actions without a schema, unless readers start from a later checkpoint."""
    newest = max((c.version for c in log.checkpoints), default=-1)
    schemas = [
        v for v, metadata in metadata_by_version.items() if metadata.schema_string is not None
    ]
    for version, metadata in metadata_by_version.items():
        if metadata.schema_string is not None:
            continue
        later = min((v for v in schemas if v > version), default=None)
        if later is None or newest < later:
            rest = ", and no later metaData action has one"
            if later is not None:
                rest = f"; the next one with a schemaString is in version {later}"
            problem = f"its metaData action has no schemaString{rest}"
            name = log.commit_files[version].name
            findings.add("SCHEMA_MISSING", problem, version=version, file=name)
        else:
            findings.note(
                f"the metaData action of version {version} has no schemaString. delta-rs and "
                f"DuckDB can open the table only with the checkpoint of version {newest}, "
                "which has the schema"
            )
