"""What is fuzzed: one kind of input each, given to the real code as bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from deltactl.storage.store import FileInfo
from tests.support.stores import MemoryStore

Form: TypeAlias = Literal["bytes", "text", "json", "parquet"]
"""How an input is bent besides byte by byte: ``json`` may be several lines, each an object."""


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of input.

    ``run`` may return or raise a ``DeltactlError``; anything else is a find. ``share`` is its part
    of 10,000,000 executions: what costs little gets many. ``by_arrow`` is what Arrow reads, in
    blocks of its own.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    share: int
    form: Form
    words: tuple[str, ...] = ()
    max_length: int = 4096
    by_arrow: bool = False


STORE = MemoryStore("memory://fuzz")


def stored(name: str, data: bytes) -> FileInfo:
    """Put the input into the store in memory."""
    STORE.put(name, data)
    return FileInfo(name, len(data), 1_700_000_000_000)


def as_text(data: bytes) -> str:
    """What the shell or the operating system hands over: any bytes, not always UTF-8."""
    return data.decode("utf-8", "surrogateescape")
