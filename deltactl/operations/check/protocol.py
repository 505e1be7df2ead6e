"""Check protocol and metaData actions, and that the entry of a catalog agrees with them.

Source: PROTOCOL.md, "Table Features", "Schema Serialization Format", "Partition Value
Serialization", "Column Mapping", "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from deltactl.catalog.base import TableAddress
from deltactl.catalog.kinds import KINDS
from deltactl.catalog.names import parse_name
from deltactl.errors import CorruptLogError, SafetyError, UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.operations.manifest.engine_types import catalog_types, normal_type
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.place import find_schemes
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.run_context import RunContext
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
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import (
    PrimitiveType,
    StructType,
    is_void,
    leaf_types,
    render_type,
)
from deltactl.protocol.schema_rules import (
    ambiguity_problems,
    explain_missing_columns,
    schema_problems,
)

_ID: Final = "io.unitycatalog.tableId"
_LENGTH: Final = re.compile(r"(var)?char\(\d+\)")
# Spark writes this column if the real ones are in properties or in the log only.
_DUMMY: Final = ("col", "array<string>")


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
    return Readable.FILES if ambiguity_problems(metadata) else Readable.ROWS


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


def check_location(log: DeltaLog, findings: Findings) -> bool:
    """Return whether there is a log; a missing one is a finding if a catalog names its place."""
    if log.entry is None:
        log.ensure_exists()
    elif not log.exists:
        findings.add(
            "CATALOG_LOCATION",
            f"{log.entry.name} is at {log.entry.location}, where there is no Delta table",
        )
    return log.exists


def check_entry(log: DeltaLog, snapshot: Snapshot, findings: Findings, context: RunContext) -> None:
    """Compare id, columns, manifests and location of the entry of a catalog with the log."""
    entry = log.entry
    if entry is None:
        return
    wanted = snapshot.metadata.configuration.get(_ID)
    if wanted is not None and entry.table_id is not None and wanted != entry.table_id:
        findings.add(
            "CATALOG_ID",
            f"the catalog has the id {entry.table_id} for {entry.name}, the log has {wanted}",
            version=snapshot.version,
        )
    for problem in _column_problems(entry, snapshot.metadata.schema):
        findings.add("CATALOG_COLUMNS", problem, version=snapshot.version)
    if entry.is_symlink and snapshot.version == log.latest_version:
        _check_manifests(log, snapshot, findings, context)
    if entry.other_names:
        findings.add(
            "CATALOG_NAMES", f"{', '.join((entry.name, *entry.other_names))} have the same location"
        )


def _check_manifests(
    log: DeltaLog, snapshot: Snapshot, findings: Findings, context: RunContext
) -> None:
    problem = f"they do not match version {snapshot.version}"
    options = ManifestOptions(schemes=find_schemes(log) or {})
    try:
        report = generate_manifests(log, options, context, snapshot=snapshot, dry_run=True)
        is_same = report.plan.is_empty
    except (SafetyError, UnsupportedFeatureError) as error:
        is_same, problem = False, error.message
    if not is_same:
        findings.add("CATALOG_MANIFESTS", problem, version=snapshot.version)


def check_catalog_commits(log: DeltaLog, now_ms: int, findings: Findings) -> None:
    """Compare what a catalog ratified with the log, if it decides the commits."""
    if log.managed is None:
        return
    from deltactl.log.audit.catalog_commits import compare_commits

    found = compare_commits(log.store, log.managed, now_ms)
    for code, problems in (
        ("COMMIT_NOT_RATIFIED", found.wrong),
        ("COMMITS_NOT_PUBLISHED", found.waiting),
        ("STAGED_NOT_RATIFIED", found.lost),
    ):
        for problem in problems:
            findings.add(code, problem.text, version=problem.version, file=problem.file)


def _column_problems(entry: TableAddress, schema: StructType) -> list[str]:
    if [column[:2] for column in entry.columns] in ([], [_DUMMY]):
        return []
    ours = {field.name.lower(): field.type for field in schema.fields}
    theirs = {column.name.lower(): column.type for column in entry.columns}
    lacks = [name for name in ours if name not in theirs and not is_void(ours[name])]
    problems = [f"the catalog lacks the column {name!r}" for name in lacks]
    problems += [f"the log lacks the column {name!r}" for name in theirs if name not in ours]
    repeated = entry.repeated_columns
    problems += [f"the catalog has the column {name!r} more than once" for name in repeated]
    names = catalog_types(KINDS[parse_name(entry.name).scheme])
    for name, kind in ours.items():
        if name not in theirs or not isinstance(kind, PrimitiveType):
            continue
        expected = names.get(kind.name, kind.name), normal_type(kind.name)
        stated = normal_type(theirs[name])
        if ("string" if _LENGTH.fullmatch(stated) else stated) not in expected:
            problems.append(
                f"{name!r} is {theirs[name]} in the catalog, and {render_type(kind)} in the log"
            )
    return problems
