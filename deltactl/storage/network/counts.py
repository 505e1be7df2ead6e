"""How many requests this process sent to object stores, whatever library sent them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from deltactl.units import format_size

Kind = Literal["lists", "gets", "heads", "puts", "deletes", "others"]
_KINDS: Final = len(get_args(Kind))


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests of each kind were sent, tries included, and how many were throttled.

    ``puts`` are all requests that write: whole objects, parts, copies, the ends of uploads.
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
        """All requests."""
        return self.lists + self.gets + self.heads + self.puts + self.deletes + self.others

    def __str__(self) -> str:
        """Tell it in one line."""
        kinds = {f.name: getattr(self, f.name) for f in fields(self)[:_KINDS]}
        parts = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
        slowed = f", {self.throttled} told to slow down" if self.throttled else ""
        read = format_size(self.bytes_read)
        return f"requests to object stores: {self.total} ({parts}){slowed}, {read} read"

    def __add__(self, other: Requests) -> Requests:
        """Sum two counts."""
        return Requests(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Requests) -> Requests:
        """What came since an earlier count."""
        return Requests(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


_lock = threading.Lock()
_sent = Requests()


def requests_sent() -> Requests:
    """What this process sent to object stores so far."""
    return _sent


def count(requests: Requests) -> None:
    """Add to what was sent."""
    global _sent  # noqa: PLW0603 - a process has one network
    with _lock:
        _sent = _sent + requests
