"""Rules of a protocol and a metaData action: pure, over values.

Source: PROTOCOL.md, "Table Features", "Column Mapping", "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from deltactl.errors import CorruptLogError
from deltactl.operations.check_findings import Findings
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.features import (
    MAX_READER_VERSION,
    MAX_WRITER_VERSION,
    REGISTRY,
    list_features,
)
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import PHYSICAL_NAME_KEY, StructType, leaf_types, walk_fields

_NEEDS_DOMAINS = ("rowTracking", "clustering")


def check_protocol(
    protocol: Protocol, metadata: Metadata, version: int, findings: Findings
) -> None:
    """Check the protocol, the schema, and that each feature in use is supported."""
    for problem in _protocol_problems(protocol):
        findings.add("PROTOCOL_INVALID", problem, version=version)
    unknown = sorted(list_features(protocol) - REGISTRY.keys())
    if unknown:
        findings.note(
            f"what these table features ask for was not checked: {', '.join(unknown)}: "
            "this program does not know them"
        )
    try:
        schema = metadata.schema
        assert metadata.partition_fields is not None
    except CorruptLogError as error:
        findings.add("SCHEMA_INVALID", error.message, version=version)
        return
    for problem in _missing_features(protocol, metadata, schema):
        findings.add("FEATURE_MISSING", problem, version=version)
    if metadata.column_mapping_mode != "none":
        for problem in _mapping_problems(metadata, schema):
            findings.add("SCHEMA_INVALID", problem, version=version)


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
            yield f"it lists {who} features under {who} version {number}; they belong to {last}"
        if names is None and number == last:
            yield f"it has {who} version {number} and no list of {who} features"
    if protocol.min_reader_version == MAX_READER_VERSION and writer is None:
        yield "it lists reader features without writer features"
    if reader is not None and writer is not None:
        only_reader = sorted(reader - writer)
        if only_reader:
            yield f"reader features that writers do not have to know: {', '.join(only_reader)}"
        hidden = sorted(n for n in writer - reader if n in REGISTRY and REGISTRY[n].reader)
        if hidden:
            yield f"features that readers have to know are listed for writers only: {hidden}"


def _missing_features(protocol: Protocol, metadata: Metadata, schema: StructType) -> Iterator[str]:
    supported = list_features(protocol)
    properties = TableProperties(metadata.configuration)
    types = {leaf.name for leaf in leaf_types(schema)}
    uses = (
        ("timestamp_ntz" in types, "timestampNtz", ("timestampWithoutTimezone",), "its columns"),
        (
            "variant" in types,
            "variantType",
            ("variantType-preview", "variantShredding", "variantShredding-preview"),
            "its columns",
        ),
        (metadata.column_mapping_mode != "none", "columnMapping", (), "delta.columnMapping.mode"),
        (properties.row_tracking_enabled, "rowTracking", (), "delta.enableRowTracking"),
        (
            properties.in_commit_timestamps,
            "inCommitTimestamp",
            ("inCommitTimestamp-preview",),
            "delta.enableInCommitTimestamps",
        ),
        (properties.checkpoint_policy == "v2", "v2Checkpoint", (), "delta.checkpointPolicy"),
    )
    for is_used, name, others, by in uses:
        if is_used and supported.isdisjoint((name, *others)):
            yield f"{by} use the feature {name}, which the protocol does not list"
    for name in _NEEDS_DOMAINS:
        if name in supported and "domainMetadata" not in supported:
            yield f"the feature {name} needs domainMetadata, which the protocol does not list"


def _mapping_problems(metadata: Metadata, schema: StructType) -> Iterator[str]:
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
    greatest = TableProperties(metadata.configuration).integer(
        "delta.columnMapping.maxColumnId", max(ids, default=0)
    )
    if ids and greatest < max(ids):
        yield f"delta.columnMapping.maxColumnId is {greatest}, below the id {max(ids)} of a column"
