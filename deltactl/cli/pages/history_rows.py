"""Rows of a history for JSON, ndjson and csv."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deltactl.units import format_timestamp

if TYPE_CHECKING:
    from deltactl.log.commits.changes import FileCounts


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
