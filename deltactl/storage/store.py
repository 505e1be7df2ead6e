"""The storage seam: bytes by name under one root.

Names are relative to the root with ``/`` between parts, decoded (never URI-encoded). Reading
methods also take an absolute URI or path on the same kind of store (shallow clones and deletion
vectors name files that way); writing and deleting methods refuse anything outside the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import ReadableBuffer

    from deltactl.errors import StorageError


class Replacement(Protocol):
    """A writer whose content takes a name's place whole, when it is closed."""

    @property
    def closed(self) -> bool:
        """Whether it was closed or discarded."""
        ...

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Take some bytes."""
        ...

    def tell(self) -> int:
        """Bytes taken so far."""
        ...

    def flush(self) -> None:
        """Nothing that a reader could see."""
        ...

    def close(self) -> None:
        """Put the content in place; it is durable when this returns. Safe to call again."""
        ...

    def discard(self) -> None:
        """Leave everything as it was; nothing after ``close``. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One stored file: name relative to the root, bytes, modification time (ms since 1970)."""

    name: str
    size_bytes: int
    modified_ms: int


@dataclass(slots=True)
class Tree:
    """A part of what lies below a folder, as names relative to the root.

    ``folders`` are those of stores that have folders, entered or not. ``links`` are symbolic links
    to whatever; they are neither files nor folders here.
    """

    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


Enter = Callable[[str], bool]
"""``enter(folder) -> bool``: whether a walk is to look into a folder."""


class Directories(Protocol):
    """What only a store with directories can do: the empty ones stay, as do files half written."""

    def remove_directories(self, names: Sequence[str]) -> list[str]:
        """Remove the empty ones of these directories, in the order given; return their names."""
        ...

    def old_directories(self, names: Sequence[str], before_ms: int) -> list[str]:
        """Return those whose entries last changed before a timestamp (ms since 1970)."""
        ...

    def abandoned_files(self, prefix: str, before_ms: int) -> list[FileInfo]:
        """Return hidden files that killed writes of deltactl left directly in a directory.

        Only those last changed before a timestamp (ms since 1970): no write in progress.
        """
        ...


class Versions(Protocol):
    """What only a store that may keep versions of deleted files can do."""

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        """Restore deleted files; return what cannot be restored, by name.

        Skips a name that has a file. With ``dry_run`` nothing is changed.
        """
        ...


class Store(Protocol):
    """Bytes by name under ``uri``.

    Every method maps the library's errors to :class:`deltactl.errors.StorageError` and below,
    with the name in the message and never a credential.
    """

    @property
    def uri(self) -> str:
        """The root as an absolute URI with a scheme, without a trailing slash."""
        ...

    @property
    def directories(self) -> Directories | None:
        """The operations on directories; ``None`` if the store has only names of files."""
        ...

    @property
    def versions(self) -> Versions | None:
        """The operations on versions of files; ``None`` if the store keeps none."""
        ...

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """Files directly in folder ``prefix`` whose last part is >= ``start``, sorted by bytes.

        Sub-folders are left out. A missing folder yields nothing.
        """
        ...

    def list_folders(self, prefix: str = "") -> list[str]:
        """Names of the folders directly in folder ``prefix``, sorted; links to folders count.

        On object stores a folder is what has something below it. A missing one has none.
        """
        ...

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """Batches of names of all files below ``prefix``, unordered.

        Symlinked folders are not followed.
        """
        ...

    def walk_tree(self, enter: Enter) -> Iterator[Tree]:
        """Everything below the root, in parts, unordered; links are told and never followed.

        Files below a folder that ``enter`` refuses may still come: a flat listing cannot skip them.
        """
        ...

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """Facts of each name, in order; ``None`` where nothing is stored."""
        ...

    def read(self, name: str) -> bytes:
        """Whole content. Raises ``ObjectNotFoundError``."""
        ...

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole contents in the order of ``names``, fetched ahead, memory bounded."""
        ...

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length); a range past the end gives what is there."""
        ...

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """Facts and last bytes of a file, in one request where the store answers both at once.

        Else the facts are looked up first. ``None`` where nothing is stored.
        """
        ...

    def open_input(self, name: str) -> pa.NativeFile:
        """A random-access Arrow file; the caller closes it."""
        ...

    def open_output(self, name: str) -> BinaryIO:
        """A writer to a new file; complete and durable only after ``close()``.

        There is no way to abort: delete what was not wanted.
        """
        ...

    def open_replacement(self, name: str) -> Replacement:
        """A writer to a new or existing file; readers see old or new, never a part."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write or replace whole, durably; readers see old or new, never a part."""
        ...

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """``put`` each (name, content), as fast as the store can; gives how many.

        Some may be new when it raises, or when ``files`` does, which ends it. Disks put thousands
        in place together, so that readers find few moments between the first and the last.
        """
        ...

    def ensure_put_if_absent(self) -> None:
        """Make sure, before work that a commit is to end, that ``put_if_absent`` decides races.

        May write and remove an object; cheap when called again. Every ``put_if_absent`` makes sure
        of it anyway.

        Raises:
            SafetyError: it does not, or not for all who write here.
        """
        ...

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Create whole and durable, or raise ``ObjectExistsError``.

        Any other error leaves the outcome unknown: settle it by reading back. With an
        ``AccessDeniedError`` nothing is under way any more: what is not there now never will be.
        """
        ...

    def sync_folders(self, names: Iterable[str]) -> None:
        """Make the folder entries of these files durable (nothing to do on object stores)."""
        ...

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Delete each name; absent names count as deleted. Gives what failed, by name."""
        ...

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Rename each (name, new name); never over a file that is there.

        Gives what failed, by the old name: ``ObjectNotFoundError`` where nothing has it,
        ``ObjectExistsError`` where the new name is taken. After a failure in between a file may
        have both names; moving it again settles that.
        """
        ...

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        """Where each name, absolute or not, leads once links and ``..`` are followed.

        A name below the root, or ``None`` outside of it. The root itself is ``""``.

        Raises:
            StorageError: a name is on another kind of storage.
        """
        ...
