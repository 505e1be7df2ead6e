"""``commitInfo`` of a commit, and the time a version was committed.

Source: PROTOCOL.md, "Commit Provenance Information" and "In-Commit Timestamps".
"""

from __future__ import annotations

import json
from typing import Any

from deltactl.errors import CorruptLogError
from deltactl.log.segment import LogSegment
from deltactl.protocol.actions import Metadata
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store

_NEEDLE = b'"commitInfo"'


def parse_commit_info(name: str, data: bytes) -> dict[str, Any] | None:
    """The first ``commitInfo`` of a commit's content; ``None`` when it has none.

    Raises:
        CorruptLogError: the line that holds it is not JSON.
    """
    if _NEEDLE not in data:
        return None
    for number, line in enumerate(data.splitlines(), 1):
        if _NEEDLE not in line:
            continue
        try:
            node = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorruptLogError(f"{name}, line {number}: not valid JSON ({error})") from error
        info = node.get("commitInfo") if isinstance(node, dict) else None
        if isinstance(info, dict):
            return info
    return None


def in_commit_timestamp(info: dict[str, Any] | None) -> int | None:
    """The ``inCommitTimestamp`` in ms, if the commit has one."""
    value = None if info is None else info.get("inCommitTimestamp")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def uses_in_commit_timestamp(metadata: Metadata, version: int) -> bool:
    """Whether the table's present properties time ``version`` by its in-commit timestamp."""
    properties = TableProperties(metadata.configuration)
    if not properties.in_commit_timestamps:
        return False
    return version >= properties.integer("delta.inCommitTimestampEnablementVersion", 0)


def read_in_commit_timestamp(store: Store, name: str) -> int:
    """The in-commit timestamp of a commit file.

    Raises:
        CorruptLogError: the table demands one and the commit has none.
    """
    timestamp = in_commit_timestamp(parse_commit_info(name, store.read(name)))
    if timestamp is None:
        raise CorruptLogError(
            f"{name} has no inCommitTimestamp, though the table enables in-commit timestamps"
        )
    return timestamp


def commit_timestamp(store: Store, segment: LogSegment, metadata: Metadata) -> int:
    """When the segment's version was committed, ms since 1970 UTC."""
    if segment.commit is None:
        assert segment.checkpoint is not None
        return segment.checkpoint.files[0].modified_ms
    if uses_in_commit_timestamp(metadata, segment.version):
        return read_in_commit_timestamp(store, segment.commit.name)
    return segment.commit.modified_ms
