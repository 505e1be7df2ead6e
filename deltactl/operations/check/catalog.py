"""Check that the entry of a catalog, and the commits that it ratified, agree with the log."""

from __future__ import annotations

import re
from typing import Final

from deltactl.catalog.base import TableAddress
from deltactl.catalog.kinds import KINDS
from deltactl.catalog.names import parse_name
from deltactl.errors import SafetyError, UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.operations.manifest.engine_types import catalog_types, normal_type
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.place import find_schemes
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.run_context import RunContext
from deltactl.protocol.schema import PrimitiveType, StructType, is_void, render_type

_ID: Final = "io.unitycatalog.tableId"
_LENGTH: Final = re.compile(r"(var)?char\(\d+\)")
# Spark writes this column if the real ones are in properties or in the log only.
_DUMMY: Final = ("col", "array<string>")


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

    codes = {
        "wrong": "COMMIT_NOT_RATIFIED",
        "waiting": "COMMITS_NOT_PUBLISHED",
        "lost": "STAGED_NOT_RATIFIED",
    }
    for it in compare_commits(log.store, log.managed, now_ms):
        findings.add(codes[it.kind], it.text, version=it.version, file=it.file)


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
