"""Open files of fsspec whose errors are deltactl's."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltactl.errors import StorageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class MappedFile(io.BufferedIOBase):
    """Forwards to an fsspec file, and turns what that raises by ``to_error``."""

    def __init__(self, file: Any, to_error: Callable[[Exception], StorageError]) -> None:
        """Take over ``file``: closing this closes it."""
        super().__init__()
        self._file = file
        self._to_error = to_error

    def readable(self) -> bool:
        """Tell whether it was opened for reading."""
        return bool(self._file.readable())

    def writable(self) -> bool:
        """Tell whether it was opened for writing."""
        return bool(self._file.writable())

    def seekable(self) -> bool:
        """Tell whether ``seek`` works."""
        return bool(self._file.seekable())

    def tell(self) -> int:
        """Give the position."""
        return int(self._file.tell())

    def read(self, size: int | None = -1, /) -> bytes:
        """Give up to ``size`` bytes."""
        return bytes(self._call(self._file.read, -1 if size is None else size))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a position."""
        return int(self._call(self._file.seek, offset, whence))

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Take some bytes."""
        return int(self._call(self._file.write, buffer))

    def close(self) -> None:
        """Close both; for a writer, the object exists afterwards."""
        if not self.closed:
            try:
                self._call(self._file.close)
            finally:
                super().close()

    def discard(self) -> None:
        """Give up what was written; the object stays as it was."""
        if self.closed:
            return
        with suppress(Exception):
            self._file.discard()
        self._file.closed = True  # what fsspec's own close asks before it uploads
        super().close()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise self._to_error(error) from error
