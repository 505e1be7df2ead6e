"""Check that the catalog by whose name the table was opened agrees with its log."""

from __future__ import annotations

import re
from typing import Final

from deltactl.catalog.base import TableAddress
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.protocol.schema import PrimitiveType, StructType, render_type

_ID: Final = "io.unitycatalog.tableId"
# Names of SQL and of the catalogs, for those of the log.
_SQL_NAMES: Final = {
    "bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte", "real": "float",
}  # fmt: skip
_LENGTH: Final = re.compile(r"(var)?char\(\d+\)")
# Spark writes this column if the real ones are in properties or in the log only.
_DUMMY: Final = (("col", "array<string>"),)


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


def check_entry(log: DeltaLog, snapshot: Snapshot, findings: Findings) -> None:
    """Compare id, columns and location of the entry of a catalog with the log."""
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
    if entry.other_names:
        findings.add(
            "CATALOG_NAMES", f"{', '.join((entry.name, *entry.other_names))} have the same location"
        )


def _column_problems(entry: TableAddress, schema: StructType) -> list[str]:
    if not entry.columns or entry.columns == _DUMMY:
        return []
    ours = {field.name.lower(): field.type for field in schema.fields}
    theirs = {name.lower(): kind for name, kind in entry.columns}
    problems = [f"the catalog lacks the column {name!r}" for name in ours if name not in theirs]
    problems += [f"the log lacks the column {name!r}" for name in theirs if name not in ours]
    for name, kind in ours.items():
        is_simple = isinstance(kind, PrimitiveType)
        if name in theirs and is_simple and render_type(kind) != _log_type(theirs[name]):
            problems.append(
                f"{name!r} is {theirs[name]} in the catalog, and {render_type(kind)} in the log"
            )
    return problems


def _log_type(kind: str) -> str:
    lowered = kind.lower().replace(" ", "")
    return "string" if _LENGTH.fullmatch(lowered) else _SQL_NAMES.get(lowered, lowered)
