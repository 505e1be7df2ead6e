"""Convert a history to rows for JSON, ndjson and csv."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deltactl.units import format_timestamp

if TYPE_CHECKING:
    from deltactl.log.commits.changes import FileCounts
    from deltactl.operations.history.diff import VersionDiff


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON, with its timestamp as RFC 3339."""
    when = row["timestamp"]
    return {**row, "timestamp": None if when is None else format_timestamp(when)}


def change_row(
    partition_values: Mapping[str, str | None] | None, added: FileCounts, removed: FileCounts
) -> dict[str, Any]:
    """Return what was added and removed in flat columns, with the partition if there is one."""
    sides = (("added", added), ("removed", removed))
    counts = {f"{side}_{fact}": n for side, of in sides for fact, n in asdict(of).items()}
    return counts if partition_values is None else {"partition_values": partition_values, **counts}


def diff_rows(diff: VersionDiff) -> list[dict[str, Any]]:
    """Return a row for each partition that differs between two versions."""
    return [change_row(p.partition_values, p.added, p.removed) for p in diff.partitions]


def diff_result(diff: VersionDiff) -> dict[str, Any]:
    """Return the differences between two versions for JSON."""
    first, last = (None if it is None else format_timestamp(it) for it in diff.timestamps_ms)
    return {
        **diff.to_dict(),
        "first_timestamp": first,
        "last_timestamp": last,
        "partitions": diff_rows(diff),
    }
