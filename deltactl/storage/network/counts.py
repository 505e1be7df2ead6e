"""Count the requests that this process sends to object stores, with any library."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from deltactl.units import format_size

RequestKind = Literal["lists", "gets", "heads", "puts", "deletes", "others"]
_KINDS: Final = len(get_args(RequestKind))


@dataclass(frozen=True, slots=True)
class Requests:
    """Number of requests by kind, including retries, and number of throttled requests.

    ``puts`` counts all requests that write: whole objects, parts, copies, completed uploads.
    """

    lists: int = 0
    gets: int = 0
    heads: int = 0
    puts: int = 0
    deletes: int = 0
    others: int = 0
    throttled: int = 0
    bytes_read: int = 0

    @property
    def total(self) -> int:
        """Return the number of all requests."""
        return self.lists + self.gets + self.heads + self.puts + self.deletes + self.others

    def __str__(self) -> str:
        """Return one line of text."""
        kinds = {f.name: getattr(self, f.name) for f in fields(self)[:_KINDS]}
        parts = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
        slowed = f", {self.throttled} throttled" if self.throttled else ""
        read = format_size(self.bytes_read)
        return f"requests to object stores: {self.total} ({parts}){slowed}, {read} read"

    def __add__(self, other: Requests) -> Requests:
        """Return the sum of two counts."""
        return Requests(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Requests) -> Requests:
        """Return the requests that were sent after an earlier count."""
        return Requests(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


_lock = threading.Lock()
_sent = Requests()


def requests_sent() -> Requests:
    """Return the requests that this process sent so far."""
    # Without the lock: the object never changes, it is only replaced.
    return _sent


def count(requests: Requests) -> None:
    """Add requests to the counts of this process."""
    global _sent  # noqa: PLW0603 - a process has one network
    with _lock:
        _sent = _sent + requests
