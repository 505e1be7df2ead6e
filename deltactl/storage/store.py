"""Define the interface of storage: files by name under one root.

Names are relative to the root with ``/`` between parts, decoded (never URI-encoded). Reading
methods also accept an absolute URI or path on the same kind of store, because shallow clones and
deletion vectors reference files in this way. Writing and deleting methods refuse names outside of
the root.

``Store`` has the methods of every store. Methods that only some stores have are in separate
protocols. A property of the store returns an object with these methods, or ``None``. If it returns
``None``, the caller must work without these methods.
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
    """A writer. When it is closed, its content replaces the whole file."""

    @property
    def closed(self) -> bool:
        """Return whether the writer was closed or discarded."""
        ...

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        ...

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        ...

    def flush(self) -> None:
        """Do nothing that readers can notice: the content is visible only after ``close``."""
        ...

    def close(self) -> None:
        """Replace the file. The content is durable when this returns. Safe to call again."""
        ...

    def discard(self) -> None:
        """Keep the old file. Do nothing if ``close`` was called. Never raises an error."""
        ...


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One stored file: name relative to the root, size, modification time (ms since 1970).

    ``is_archived``: its storage class is one of S3 whose objects are read after a restore only.
    """

    name: str
    size_bytes: int
    modified_ms: int
    is_archived: bool = False


@dataclass(slots=True)
class Tree:
    """Some of the names below a directory, relative to the root.

    ``directories`` contains directories, also those that are not entered; on object stores only
    those. ``links`` contains symbolic links, which are in neither of the other lists.
    ``unaddressable`` contains keys of an object store that are not normal forms of names, as
    ``a//b`` or ``a/./b``: methods of a store would take another object, ``a/b``.
    ``sizes_bytes`` and ``modified_ms`` are the facts of the files, if they were requested;
    a size is ``None`` if the listing has none.
    """

    files: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    unaddressable: list[str] = field(default_factory=list)
    sizes_bytes: list[int | None] = field(default_factory=list)
    modified_ms: list[int] = field(default_factory=list)


Enter = Callable[[str], bool]
"""``enter(directory) -> bool``: whether to walk into a directory."""


class Directories(Protocol):
    """Methods of a store in which empty directories and incomplete files can remain."""

    def remove_directories(self, names: Sequence[str]) -> list[str]:
        """Remove the directories that are empty; return their names.

        The directories are handled one after the other, and each is removed if it is empty at that
        time. So name children before parents.
        """
        ...

    def old_directories(self, names: Sequence[str], before_ms: int) -> list[str]:
        """Return directories whose entries last changed before ``before_ms`` (ms since 1970)."""
        ...

    def foreign_directories(self, names: Sequence[str]) -> list[str]:
        """Return directories that are on another file system than the root.

        Files cannot be moved between file systems by a rename.
        """
        ...

    def abandoned_files(self, prefix: str, before_ms: int) -> list[FileInfo]:
        """Return hidden files that killed writes of deltactl left directly in a directory.

        Only files that last changed before ``before_ms`` (ms since 1970) are returned, so that
        files of writes in progress are excluded.
        """
        ...


@dataclass(frozen=True, slots=True)
class OldVersion:
    """A version of a file that was replaced or deleted."""

    name: str
    version_id: str
    size_bytes: int
    modified_ms: int


class Versions(Protocol):
    """Methods of a store that may keep versions of deleted files."""

    @property
    def term(self) -> str:
        """The store's term for old versions, and for what else it may keep of deleted files."""
        ...

    def list_old(self) -> Iterator[OldVersion]:
        """Yield the versions of all files below the root that were replaced or deleted.

        Raises:
            UnsupportedByStoreError: the store does not say whether it keeps versions.
        """
        ...

    def open_old(self, version: OldVersion) -> pa.NativeFile:
        """Open an old version for random access; the caller closes it."""
        ...

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        """Restore deleted files; return errors of files that cannot be restored, by name.

        A name that has a file is skipped. With ``dry_run``, nothing is changed.
        """
        ...


class Assembly(Protocol):
    """A writer of a new file from written bytes and from bytes of other files."""

    @property
    def is_local(self) -> bool:
        """Return whether it is cheap to read small parts of files, as on a local disk."""
        ...

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        ...

    def copy(self, source: str, offset: int, length: int) -> None:
        """Append bytes of another file.

        Raises:
            StorageError: the other file does not have these bytes.
        """
        ...

    def tell(self) -> int:
        """Return the number of bytes written and copied so far."""
        ...

    def close(self) -> None:
        """Return when the file is complete and durable. Safe to call again."""
        ...

    def discard(self) -> None:
        """Create no file, and delete what was stored. Do nothing after ``close``. Never raises."""
        ...


class RangeCopies(Protocol):
    """Methods of a store that can copy byte ranges without reading them."""

    def open_assembly(self, name: str) -> Assembly:
        """Open a writer to a new file, as ``Store.open_output`` does."""
        ...


OnUpload = Callable[[str, str], Callable[[], None]]
"""``on_upload(name, upload id)`` returns a function to call when the upload has no parts left."""


class Uploads(Protocol):
    """Extra methods of a store that keeps uploaded parts after a writer was killed."""

    def observed(self, on_upload: OnUpload) -> Store:
        """Return a store that calls ``on_upload`` before it sends parts of a file.

        If ``on_upload`` raises, no part is sent and the file is not written.
        """
        ...

    def abort_upload(self, name: str, upload_id: str) -> None:
        """Delete the parts of a file that was not completed; do nothing if there are none."""
        ...


class Store(Protocol):
    """Files by name under ``uri``.

    Every method converts errors of the library to :class:`deltactl.errors.StorageError` and its
    subclasses. Messages contain the name and never a credential.
    """

    @property
    def uri(self) -> str:
        """The root as an absolute URI with a scheme, without a trailing slash."""
        ...

    @property
    def engine_uri(self) -> str:
        """The root as Hadoop, Hive, Trino and Spark know it: one text for all spellings of it.

        Raises:
            UnsupportedFeatureError: no such address is known.
        """
        ...

    @property
    def directories(self) -> Directories | None:
        """The methods for directories; ``None`` if the store has no directories."""
        ...

    @property
    def versions(self) -> Versions | None:
        """The methods for versions of files; ``None`` if the store keeps no versions."""
        ...

    @property
    def range_copies(self) -> RangeCopies | None:
        """The methods that copy byte ranges; ``None`` if ranges must be read and written."""
        ...

    @property
    def file_copies(self) -> FileCopies | None:
        """The methods that copy whole files; ``None`` if files must be read and written."""
        ...

    @property
    def uploads(self) -> Uploads | None:
        """The methods for parts of unfinished files; ``None`` if the store does not keep parts."""
        ...

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """Yield files directly in ``prefix``, sorted by bytes, from the last part ``start`` on.

        Subdirectories are omitted. A missing directory yields nothing.
        """
        ...

    def list_directories(self, prefix: str = "") -> list[str]:
        """Return names of directories directly in ``prefix``, sorted, with links to directories.

        On object stores, a prefix with objects below it is a directory. If ``prefix`` does not
        exist, the list is empty. A link that cannot be followed counts as a directory; a listing
        of it raises ``StorageError``.
        """
        ...

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """Yield batches of names of all files below ``prefix``, unordered.

        Links to directories are not followed.
        """
        ...

    def walk_tree(self, enter: Enter, *, facts: bool = False) -> Iterator[Tree]:
        """Yield all names below the root, in parts, unordered; links are never followed.

        If ``enter`` refuses a directory, files below it may still be included, because some
        listings contain all files. With ``facts``, size and time of each file are included: on
        object stores, listings contain them; on file systems, each file is looked up.
        """
        ...

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """Return size and time of each name, in order; ``None`` if the file does not exist."""
        ...

    def read(self, name: str) -> bytes:
        """Return the whole content. Raises ``ObjectNotFoundError``."""
        ...

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield whole contents in the order of ``names``; read ahead in bounded memory."""
        ...

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, length); fewer bytes if a range ends after the file."""
        ...

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """Return facts and last bytes of a file; ``None`` if the file does not exist.

        This needs one request if the store can return both in one answer. Otherwise the facts are
        requested first.
        """
        ...

    def open_input(self, name: str) -> pa.NativeFile:
        """Open a random-access Arrow file; the caller closes it."""
        ...

    def open_output(self, name: str) -> BinaryIO:
        """Open a writer to a new file; the file is complete and durable only after ``close()``.

        The writer cannot be aborted: delete the file instead.
        """
        ...

    def open_replacement(self, name: str) -> Replacement:
        """Open a writer to a new or existing file.

        Readers see the old or the new content, always complete.
        """
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write or replace a whole file, durably.

        Readers see the old or the new content, always complete.
        """
        ...

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """``put`` each (name, content), as fast as the store can; return the number of files.

        If this method or ``files`` raises an error, some files may have the new content. File
        systems rename thousands of files together, so that the time between the first and the last
        rename is short.
        """
        ...

    def ensure_put_if_absent(self) -> None:
        """Check, before work that ends in a commit, that the store supports put-if-absent.

        This may write and remove an object; it is fast when called again. ``put_if_absent`` makes
        the same check.

        Raises:
            SafetyError: the store does not support put-if-absent.
        """
        ...

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Create a complete, durable file, or raise ``ObjectExistsError``.

        After any other error the outcome is unknown: read the file to find out. After an
        ``AccessDeniedError`` no request is in progress. So if the file does not exist then, no
        request can create it later.
        """
        ...

    def sync_directories(self, names: Iterable[str]) -> None:
        """Make the directory entries of these files durable. On object stores, do nothing."""
        ...

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Delete each name; return errors by name. A name without a file counts as deleted."""
        ...

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Rename each (name, new name); never replace a file.

        A file then has the time of the move, like a copy in an object store. One that could not be
        moved to ``OWN_DIR`` keeps its time.

        Return errors by old name: ``ObjectNotFoundError`` if no file has the old name,
        ``ObjectExistsError`` if a file has the new name. After any other error a file may have both
        names; to repair this, move it again.
        """
        ...

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        """Return, for each name (absolute or not), the name after links and ``..`` are resolved.

        The result is ``None`` for a name outside the root, and ``""`` for the root itself.

        Raises:
            StorageError: a name is on another kind of storage.
        """
        ...
