"""Predict the time and the requests of actions, and the size of rewritten rows, by fixed rates."""

from __future__ import annotations

from typing import Final

from deltactl.operations.maintain.actions import Effect
from deltactl.storage.names import parse_scheme
from deltactl.units import MIB

SHARE_WRITTEN: Final = 0.9
"""Size of rows in larger files, as a share of their size in small files."""

_BYTES_PER_SECOND: Final = 100 * MIB  # bytes read and written, both counted
_REQUEST_SECONDS: Final = 0.03
_LOCAL_REQUEST_SECONDS: Final = 0.001
_START_SECONDS: Final = 0.05


def predict_cost(uri: str, *, bytes_read: int, bytes_written: int, requests: int) -> Effect:
    """Return the cost of an action on the table at ``uri``; a local table needs no requests."""
    is_remote = (parse_scheme(uri) or "file") not in ("file", "memory")
    request_seconds = _REQUEST_SECONDS if is_remote else _LOCAL_REQUEST_SECONDS
    moved = bytes_read + bytes_written
    return Effect(
        bytes_read=bytes_read,
        bytes_written=bytes_written,
        seconds=_START_SECONDS + moved / _BYTES_PER_SECOND + requests * request_seconds,
        requests=requests if is_remote else 0,
    )
