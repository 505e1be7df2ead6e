"""The reports of other commands without user data."""

from __future__ import annotations

from typing import Any, Final

from deltactl.operations.bundle.log_lines import COMMIT_INFO, PROPERTIES
from deltactl.operations.bundle.pseudonyms import Pseudonyms
from deltactl.operations.bundle.rules import (
    columns,
    feature,
    hide,
    items,
    members,
    name,
    number,
    own,
    path,
    prose,
)
from deltactl.operations.check.report import CheckReport
from deltactl.operations.detail import DetailReport
from deltactl.operations.history.run import HistoryReport
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.operations.vacuum.report import VacuumReport

MOST_ROWS: Final = 1000
"""Rows of a list in a report; ``rows_left_out`` counts the others."""

_HISTORY_ROW: Final = members(
    {**COMMIT_INFO, "reconstructible": own, "problem": prose},
)
_DETAIL_ROW: Final = members(
    {
        "format": own,
        "id": hide,
        "name": name,
        "description": hide,
        "location": path,
        "partitionColumns": columns,
        "clusteringColumns": items(name),
        "properties": PROPERTIES,
        "tableFeatures": items(feature),
    },
    other=number,
    key=own,
)
_OPTIMIZE_PLAN: Final = members(
    {
        "partitions": items(members({"partition": path}, other=number, key=own)),
        "left_alone": own,
        "sizes_before": own,
        "sizes_after": own,
    },
    other=number,
    key=own,
)
_VACUUM: Final = members(
    {
        "mode": own,
        "retention": own,
        "by_reason": own,
        "by_folder": items(
            members({"folder": path, "oldest": own, "newest": own}, other=number, key=own)
        ),
        "kept": own,
        "foreign_tables": items(path),
        "horizon": own,
    },
    other=number,
    key=own,
)
_VACUUM_PLAN: Final = (
    "mode", "complete_since_version", "retention", "files", "bytes", "folders", "by_reason",
    "by_folder", "left_over_files", "listed_files", "kept", "foreign_tables", "horizon",
)  # fmt: skip
_CHECK: Final = members({"depth": own, "sample": own, "codes": own}, other=number, key=own)
_FINDING: Final = members(
    {"code": own, "severity": own, "version": own, "meaning": own, "file": path, "problem": prose}
)


def redact_history(names: Pseudonyms, report: HistoryReport) -> dict[str, Any]:
    """Return the rows of a history."""
    rows = [_HISTORY_ROW(names, row) for row in report.rows]
    return {
        "latest_version": report.latest_version,
        "older_versions": report.num_unread,
        "rows": rows,
    }


def redact_detail(names: Pseudonyms, report: DetailReport) -> dict[str, Any]:
    """Return the row of a table, its columns and what deltactl refuses."""
    return {
        "version": report.version,
        "timestamp_ms": report.timestamp_ms,
        "row": _DETAIL_ROW(names, report.row),
        "file_sizes": report.sizes.to_dict(),
        "refusals": {
            operation.name.lower(): names.prose(why) for operation, why in report.refusals.items()
        },
    }


def redact_check(names: Pseudonyms, report: CheckReport) -> dict[str, Any]:
    """Return counts and findings; ``explain`` and the page of ``check`` have their repairs."""
    counts = {key: it for key, it in report.to_dict().items() if key not in ("findings", "notes")}
    rows = [
        {key: it for key, it in row.items() if key != "repair"}
        for row in report.findings.slice(0, MOST_ROWS).to_pylist()
    ]
    return {
        **_CHECK(names, counts),
        "findings": items(_FINDING)(names, rows),
        "rows_left_out": max(report.findings.num_rows - MOST_ROWS, 0),
        "notes": items(prose)(names, list(report.notes)),
        "unsupported": names.prose(report.unsupported),
    }


def redact_optimize(names: Pseudonyms, report: OptimizeReport) -> dict[str, Any]:
    """Return the plan of an optimize."""
    result = report.to_dict()
    return {
        "version": report.version_before,
        "target_size_bytes": result["target_size_bytes"],
        "min_file_size_bytes": result["min_file_size_bytes"],
        **_cut(_OPTIMIZE_PLAN(names, result["plan"]), "partitions"),
        "rewrite": result["rewrite"],
    }


def redact_vacuum(names: Pseudonyms, report: VacuumReport) -> dict[str, Any]:
    """Return the plan of a vacuum."""
    result = report.to_dict()
    plan = _VACUUM(names, {key: result[key] for key in _VACUUM_PLAN})
    return {"version": report.version_before, **_cut(plan, "by_folder")}


def redact_warnings(names: Pseudonyms, warnings: list[str]) -> list[Any]:
    """Return warnings of a part."""
    return [names.prose(text) for text in warnings]


def _cut(report: dict[str, Any], key: str) -> dict[str, Any]:
    rows = report[key]
    return {**report, key: rows[:MOST_ROWS], "rows_left_out": max(len(rows) - MOST_ROWS, 0)}
