"""Define the capability of a store to copy whole files without reading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from deltactl.errors import StorageError

How = Literal["server", "kernel", "stream"]
"""Who copied: the object service, the operating system (local files), or this process."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A finished copy: its size, who made it, and a checksum that both files have, or ``None``.

    ``checksum`` is ``<algorithm>:<value>``, as the service writes the value.
    """

    size_bytes: int
    how: How
    checksum: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The address of a file to copy, in the form that the service of its store uses.

    ``service`` is equal for stores that can copy from each other: stores with the same endpoint
    that are opened with the same credentials. ``server`` has the addresses of the store: on another
    server, an address is of another file. It is empty if it is not known, or is this machine.
    """

    service: object = field(repr=False)
    address: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class FileToCopy:
    """A file to copy: its name in the source (may be absolute) and in the target, and its size."""

    source_path: str
    target_path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FileCopy(FileToCopy):
    """A file to copy, with its address."""

    origin: Origin


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """Facts about a file that a store can give without reading the file.

    ``checksums`` are checksums of the content, by algorithm: hexadecimal ``md5``, base64
    ``crc32c``. ``version`` identifies this content in a conditional request (an ETag, a
    generation).
    """

    size_bytes: int
    checksums: Mapping[str, str] = field(default_factory=dict)
    version: str = ""


class FileCopies(Protocol):
    """Methods of a store that can copy whole files of stores of the same service."""

    def origin_of(self, name: str) -> Origin:
        """Return the address of a file, for stores of the same service; it need not exist."""
        ...

    def facts_of(self, name: str) -> StoredFacts | None:
        """Return size and checksums of a file; ``None`` if it does not exist."""
        ...

    def copy_files(self, copies: Sequence[FileCopy]) -> list[CopiedFile | None]:
        """Copy each file from a store of the same service. All are durable when this returns.

        A copy replaces a file of its name, and is visible only when it is complete. If this raises
        an error, some files may be copied. The result has ``None`` for a file that the service
        refuses to copy: the store has no copy of this file, and the caller must stream it.

        Raises:
            ObjectNotFoundError: a file to copy does not exist.
            StorageError: a file has another size than expected, or the store failed.
        """
        ...


def ensure_size(size_bytes: int, copy: FileToCopy, name: str) -> None:
    """Raise ``StorageError`` if the source or the copy has another size than expected."""
    if size_bytes != copy.size_bytes:
        raise StorageError(
            f"{name!r} has {size_bytes:,} bytes, not {copy.size_bytes:,} as expected:"
            " it was not copied",
            hint="Run `deltactl check` on the table of this file.",
        )


def compare_facts(copy: FileToCopy, before: StoredFacts | None, after: StoredFacts) -> str | None:
    """Return a checksum that the source and the copy both have; ``None`` if there is none.

    Raises:
        StorageError: the source and the copy differ in size or in a checksum.
    """
    ensure_size(after.size_bytes, copy, copy.target_path)
    if before is None:
        return None
    common = sorted(before.checksums.keys() & after.checksums.keys())
    for algorithm in common:
        if before.checksums[algorithm] != after.checksums[algorithm]:
            raise StorageError(
                f"the {algorithm} of the copy {copy.target_path!r} differs from that of"
                f" {copy.source_path!r}, so the copy was removed",
                hint="Rerun; if it happens again, check the network and the stores.",
            )
    return f"{common[0]}:{after.checksums[common[0]]}" if common else None
