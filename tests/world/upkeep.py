"""Checkpoints and log cleanup as Delta on Spark makes them after a commit."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tests.support.table_checkpoints import checkpoint_parquet
from tests.world.reader import LOG, Action, State

if TYPE_CHECKING:
    from tests.world.world import World

DAY_MS = 86_400_000
_UNITS = {"hour": 3_600_000, "day": DAY_MS, "week": 7 * DAY_MS}
_COLUMNS = ("txn", "add", "remove", "metaData", "protocol", "domainMetadata")
_VERSIONED = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet|\d{20}\.compacted\.json)")


def interval_ms(properties: dict[str, str], name: str, default: int) -> int:
    """A retention, as ``interval 2 days``."""
    text = properties.get(name)
    if text is None:
        return default
    _, number, unit = text.split()
    return int(number) * _UNITS[unit.removesuffix("s")]


def write_checkpoint(world: World, place: str, state: State) -> None:
    """Write a checkpoint of the latest version, and remove what expired before it from the log."""
    removed_ms = world.now_ms - interval_ms(
        state.properties, "delta.deletedFileRetentionDuration", 7 * DAY_MS
    )
    removed = [
        body for body in state.tombstones.values() if (body["deletionTimestamp"] or 0) >= removed_ms
    ]
    actions: list[Action] = [{"protocol": state.protocol}, {"metaData": state.metadata}]
    actions += [{"txn": body} for body in state.txns.values()]
    actions += [{"domainMetadata": body} for body in state.domains.values()]
    actions += [{"add": body | {"dataChange": False}} for body in state.files.values()]
    actions += [{"remove": body | {"dataChange": False}} for body in removed]
    name = f"{place}/{LOG}/{state.version:020d}.checkpoint.parquet"
    world.space.write(name, checkpoint_parquet(actions, _COLUMNS), world.now_ms)
    hint = json.dumps({"version": state.version, "size": len(actions)}).encode()
    world.space.write(f"{place}/{LOG}/_last_checkpoint", hint, world.now_ms)
    if state.properties.get("delta.enableExpiredLogCleanup", "true") == "true":
        _clean_log(world, place, state)


def _clean_log(world: World, place: str, state: State) -> None:
    """Remove what lies before the newest checkpoint that all retained versions can do with."""
    expired_ms = world.now_ms - interval_ms(
        state.properties, "delta.logRetentionDuration", 30 * DAY_MS
    )
    files = world.space.files(f"{place}/{LOG}")
    found = {name: match for name in files if (match := _VERSIONED.fullmatch(name))}
    commits = {int(match[1]): files[name] for name, match in found.items() if match[2] == "json"}
    recent = [version for version, entry in commits.items() if entry.modified_ms >= expired_ms]
    oldest = min(recent, default=state.version + 1) - 1  # the oldest version that is retained
    checkpoints = [int(m[1]) for m in found.values() if m[2] == "checkpoint.parquet"]
    kept = max((version for version in checkpoints if version <= oldest), default=0)
    for name, match in found.items():
        if int(match[1]) < kept:
            world.space.delete(f"{place}/{LOG}/{name}")
