"""Write objects with writers whose errors are errors of deltactl."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from deltactl.errors import StorageError
from deltactl.storage.store import FileInfo

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def discard_file(file: Any) -> None:
    """Discard the data of a writer of fsspec, or of a similar one; the object does not change."""
    with suppress(Exception):
        file.discard()
    if not file.closed:
        file.closed = True  # fsspec's own close checks this attribute before it uploads


class MappedFile(io.BufferedIOBase):
    """Forward calls to a writer of fsspec, and convert its errors with ``to_error``."""

    def __init__(self, file: Any, to_error: Callable[[Exception], StorageError]) -> None:
        """Own ``file``: ``close`` closes ``file`` too."""
        super().__init__()
        self._file = file
        self._to_error = to_error

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return int(self._file.tell())

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        return int(self._call(self._file.write, buffer))

    def close(self) -> None:
        """Close this writer and ``file``; then the object exists."""
        if not self.closed:
            try:
                self._call(self._file.close)
            finally:
                super().close()

    def discard(self) -> None:
        """Discard the written data; the object does not change."""
        if self.closed:
            return
        discard_file(self._file)
        super().close()

    def __del__(self) -> None:
        """Discard if not closed: the base class would store a partly written object."""
        self.discard()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise self._to_error(error) from error


class MappedAssembly(MappedFile):
    """Forward calls to a writer that also copies ranges; see ``storage.store.Assembly``."""

    is_local = False

    def __init__(
        self,
        file: Any,
        to_error: Callable[[Exception], StorageError],
        readable: Callable[[str], str],
    ) -> None:
        """Own ``file``; ``readable`` returns the key for the name of a source."""
        super().__init__(file, to_error)
        self._readable = readable

    def copy(self, source: str, offset: int, length: int) -> None:
        """Append bytes of another object; see ``Assembly.copy``."""
        self._call(self._file.copy, self._readable(source), offset, length)


_MODIFIED_KEYS: Final = ("LastModified", "mtime", "last_modified", "updated", "modified", "created")


def file_info(entry: Mapping[str, Any], name: str) -> FileInfo:
    """Return the facts in an entry of ``ls`` or ``info``; the file gets the name ``name``."""
    return FileInfo(name, int(entry.get("size") or 0), _modified_ms(entry))


def _modified_ms(entry: Mapping[str, Any]) -> int:
    value = next((entry[key] for key in _MODIFIED_KEYS if entry.get(key)), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        # If a time from a library has no time zone, it is UTC.
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = aware.timestamp()
    return round(value * 1000) if isinstance(value, (int, float)) else 0
