"""Objects being written, whose errors are deltactl's."""

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
    """Give up a writer of fsspec, or one like it; the object stays as it was."""
    with suppress(Exception):
        file.discard()
    if not file.closed:
        file.closed = True  # what fsspec's own close asks before it uploads


class MappedFile(io.BufferedIOBase):
    """Forwards to a writer of fsspec, and turns what that raises by ``to_error``."""

    def __init__(self, file: Any, to_error: Callable[[Exception], StorageError]) -> None:
        """Take over ``file``: closing this closes it."""
        super().__init__()
        self._file = file
        self._to_error = to_error

    def writable(self) -> bool:
        """Tell that it takes bytes."""
        return True

    def tell(self) -> int:
        """Give the position."""
        return int(self._file.tell())

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Take some bytes."""
        return int(self._call(self._file.write, buffer))

    def close(self) -> None:
        """Close both; the object exists afterwards."""
        if not self.closed:
            try:
                self._call(self._file.close)
            finally:
                super().close()

    def discard(self) -> None:
        """Give up what was written; the object stays as it was."""
        if self.closed:
            return
        discard_file(self._file)
        super().close()

    def __del__(self) -> None:
        """Give up what nobody closed: the base class would put it in place half written."""
        self.discard()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise self._to_error(error) from error


_MODIFIED_KEYS: Final = ("LastModified", "mtime", "last_modified", "updated", "modified", "created")


def file_info(entry: Mapping[str, Any], name: str) -> FileInfo:
    """Give the facts in an entry of ``ls`` or ``info`` under ``name``."""
    return FileInfo(name, int(entry.get("size") or 0), _modified_ms(entry))


def _modified_ms(entry: Mapping[str, Any]) -> int:
    value = next((entry[key] for key in _MODIFIED_KEYS if entry.get(key)), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        # Library times without a zone are UTC throughout.
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = aware.timestamp()
    return round(value * 1000) if isinstance(value, (int, float)) else 0
