"""Define the interface of storage: files by name under one root.

Names are relative to the root with ``/`` between parts, decoded (never URI-encoded). Reading
methods also take an absolute URI or path on the same kind of store (shallow clones and deletion
vectors name files that way); writing and deleting methods refuse anything outside the root.

``Store`` is what every store can do. What only some can do is a protocol of its own; a property of
the store returns it, or ``None``: the caller then says what happens without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol

from deltactl.storage.file_copies import FileCopies

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import ReadableBuffer

    from deltactl.errors import StorageError


class Replacement(Protocol):
    """A writer whose content replaces a file as a whole, when it is closed."""

    @property
    def closed(self) -> bool:
        """Return whether it was closed or discarded."""
        ...

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        ...

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        ...

    def flush(self) -> None:
        """Do nothing that a reader could see."""
        ...

    def close(self) -> None:
        """Put the content in place; it is durable when this returns. Safe to call again."""
        ...

    def discard(self) -> None:
        """Leave the old file as it was; do nothing after ``close``. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One stored file: name relative to the root, size, modification time (ms since 1970)."""

    name: str
    size_bytes: int
    modified_ms: int


@dataclass(slots=True)
class Tree:
    """Some of the names below a directory, relative to the root.

    ``directories`` were entered or not; only on stores that have them. ``links`` are symbolic
    links to anything; they are neither files nor directories here.
    """

    files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


Enter = Callable[[str], bool]
"""``enter(directory) -> bool``: whether to walk into a directory."""


class Directories(Protocol):
    """What only a store with directories can do: empty ones and partly written files stay there."""

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


class Assembly(Protocol):
    """A writer of a new file, of written bytes and of bytes copied from other files."""

    @property
    def is_local(self) -> bool:
        """Return whether it costs next to nothing to read a few bytes of files, many times."""
        ...

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        ...

    def copy(self, source: str, offset: int, length: int) -> None:
        """Append bytes of another file.

        Raises:
            StorageError: the file does not have them.
        """
        ...

    def tell(self) -> int:
        """Return the number of bytes written and copied so far."""
        ...

    def close(self) -> None:
        """Return when the file is complete and durable. Safe to call again."""
        ...

    def discard(self) -> None:
        """Create no file; delete what was stored. Do nothing after ``close``. Never raises."""
        ...


class RangeCopies(Protocol):
    """What only a store that copies parts of files can do, without reading them."""

    def open_assembly(self, name: str) -> Assembly:
        """Open a writer to a new file, as ``Store.open_output`` does."""
        ...


OnUpload = Callable[[str, str], Callable[[], None]]
"""``on_upload(name, upload id) -> ended``: call ``ended()`` when nothing of the upload is left."""


class Uploads(Protocol):
    """What only a store can do that keeps the parts of files whose writer was killed."""

    def observed(self, on_upload: OnUpload) -> Store:
        """Return the same store, which calls ``on_upload`` before it sends parts of a file.

        If ``on_upload`` raises, no part is sent and the file is not written.
        """
        ...

    def abort_upload(self, name: str, upload_id: str) -> None:
        """Delete the parts of a file that was not completed; do nothing if there are none."""
        ...


class Store(Protocol):
    """Files by name under ``uri``.

    Every method maps the library's errors to :class:`deltactl.errors.StorageError` and its
    subclasses, with the name in the message and never a credential.
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

    @property
    def range_copies(self) -> RangeCopies | None:
        """The copying of parts of files; ``None`` if the store must read them."""
        ...

    @property
    def file_copies(self) -> FileCopies | None:
        """The copying of whole files; ``None`` if the store must read them."""
        ...

    @property
    def uploads(self) -> Uploads | None:
        """The parts of unfinished files; ``None`` if the store does not keep them."""
        ...

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """Yield files directly in ``prefix`` whose last part is >= ``start``, sorted by bytes.

        Subdirectories are left out. A missing directory yields nothing.
        """
        ...

    def list_directories(self, prefix: str = "") -> list[str]:
        """Return names of directories directly in ``prefix``, sorted, with links to directories.

        On object stores, a prefix with objects below it is a directory. A missing one has none.
        """
        ...

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """Yield batches of names of all files below ``prefix``, unordered.

        Links to directories are not followed.
        """
        ...

    def walk_tree(self, enter: Enter) -> Iterator[Tree]:
        """Yield all names below the root, in parts, unordered; links are never followed.

        Files below a directory that ``enter`` refuses may come too: a flat listing has them all.
        """
        ...

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """Return size and time of each name, in order; ``None`` where nothing is stored."""
        ...

    def read(self, name: str) -> bytes:
        """Return the whole content. Raises ``ObjectNotFoundError``."""
        ...

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield whole contents in the order of ``names``, fetched ahead in bounded memory."""
        ...

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, length); a range past the end is cut at the end."""
        ...

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """Return facts and last bytes of a file; ``None`` where nothing is stored.

        One request if the store can answer both at once; else the facts are looked up first.
        """
        ...

    def open_input(self, name: str) -> pa.NativeFile:
        """Open a random-access Arrow file; the caller closes it."""
        ...

    def open_output(self, name: str) -> BinaryIO:
        """Open a writer to a new file; complete and durable only after ``close()``.

        There is no way to abort: delete a file that is not wanted.
        """
        ...

    def open_replacement(self, name: str) -> Replacement:
        """Open a writer to a new or existing file; readers see old or new, never a part."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write or replace a whole file, durably; readers see old or new, never a part."""
        ...

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """``put`` each (name, content), as fast as the store can; return how many.

        If this or ``files`` raises, some files may be new. File systems rename thousands together,
        so that the time between the first and the last is short.
        """
        ...

    def ensure_put_if_absent(self) -> None:
        """Check, before work that ends in a commit, that ``put_if_absent`` decides races.

        May write and remove an object; cheap when called again. ``put_if_absent`` makes the same
        check.

        Raises:
            SafetyError: it does not decide them, or not for all writers of this table.
        """
        ...

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Create a whole, durable file, or raise ``ObjectExistsError``.

        After any other error the outcome is unknown: read the file to find out. After an
        ``AccessDeniedError`` no request is in progress: a file that is absent now stays absent.
        """
        ...

    def sync_directories(self, names: Iterable[str]) -> None:
        """Make the directory entries of these files durable (nothing to do on object stores)."""
        ...

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Delete each name; absent names count as deleted. Return what failed, by name."""
        ...

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Rename each (name, new name); never replace a file.

        Return what failed, by the old name: ``ObjectNotFoundError`` if no file has it,
        ``ObjectExistsError`` if the new name is taken. After other failures a file may have both
        names; move it again to fix that.
        """
        ...

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        """Return the real name of each name, absolute or not, after links and ``..``.

        ``None`` for a name outside the root. The root itself is ``""``.

        Raises:
            StorageError: a name is on another kind of storage.
        """
        ...
