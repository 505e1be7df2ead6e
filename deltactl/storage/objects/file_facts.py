"""What fsspec's libraries tell about a file, each its own way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from deltactl.storage.store import FileInfo

_MODIFIED_KEYS: Final = ("LastModified", "mtime", "last_modified", "updated", "modified", "created")


def file_info(entry: Mapping[str, Any], name: str) -> FileInfo:
    """Give the facts in an entry of ``ls`` or ``info`` under ``name``."""
    return FileInfo(name, int(entry.get("size") or 0), _modified_ms(entry))


def _modified_ms(entry: Mapping[str, Any]) -> int:
    value = next((entry[key] for key in _MODIFIED_KEYS if entry.get(key)), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        # Library times without a zone are UTC throughout.
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = aware.timestamp()
    return round(value * 1000) if isinstance(value, (int, float)) else 0
