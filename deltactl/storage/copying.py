"""Copy a file from one store to another; it appears in the target whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from deltactl.errors import StorageError
from deltactl.storage.store import Store

_CHUNK_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A copy: its size, how it was made, and a checksum where the store gives one."""

    size_bytes: int
    how: Literal["server", "kernel", "stream"]
    checksum: str | None = None


def copy_file(
    source: Store,
    source_path: str,
    target: Store,
    target_path: str,
    *,
    size_bytes: int,
    replace: bool = False,
) -> CopiedFile:
    """Copy a file and compare its size.

    Raises:
        StorageError: the store failed, or the size differs; nothing is in the target.
    """
    with source.open_input(source_path) as reader:
        found = reader.size()
        if found != size_bytes:
            raise StorageError(f"{source_path!r} has {found} bytes, not {size_bytes}")
        writer = target.open_replacement(target_path)
        try:
            while data := reader.read(_CHUNK_BYTES):
                writer.write(data)
            writer.close()
        finally:
            writer.discard()
    return CopiedFile(size_bytes, "stream")
