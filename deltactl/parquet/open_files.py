"""Open the data files and deletion vectors that the log references.

Source: PROTOCOL.md, "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, overload

import pyarrow as pa
from pyroaring import BitMap64

from deltactl.errors import (
    DataFileError,
    FileMissingError,
    ObjectNotFoundError,
    UnsupportedFeatureError,
    first_line,
)
from deltactl.parquet.data_file import DataFile
from deltactl.protocol.deletion_vectors import (
    FRAME_OVERHEAD,
    DeletionVector,
    decode_bitmap,
    decode_inline,
    ensure_known_format,
    read_framed,
)
from deltactl.protocol.paths import is_absolute, leaves_root
from deltactl.storage.store import Store

_READ_WHOLE_BYTES: Final = 4 << 20  # one request costs more time than these bytes
_AT_BROKEN: Final = (
    "Run `deltactl check TABLE --files data`, which lists broken files, and says what repairs them."
)


@overload
def open_in_turn(
    store: Store, files: Sequence[DataFile]
) -> Generator[pa.NativeFile, None, None]: ...


@overload
def open_in_turn(
    store: Store, files: Sequence[DataFile], leave: Callable[[DataFile], bool]
) -> Generator[pa.NativeFile | None, None, None]: ...


def open_in_turn(
    store: Store, files: Sequence[DataFile], leave: Callable[[DataFile], bool] = lambda file: False
) -> Generator[pa.NativeFile | None, None, None]:
    """Open each file in turn.

    Small files are read completely in advance, because this is cheaper on remote stores. A file is
    closed when the next one is opened, or when the iterator is closed. For a file that ``leave``
    accepts, yield ``None`` and do not open it.

    Raises:
        DataFileError: a file is missing, or its path is outside of the table directory.
    """
    for file in files:
        # All paths are checked before the first file is read: small files are read together.
        ensure_readable_path(file.path)
    read_whole = [_is_small(file) and not leave(file) for file in files]
    contents = store.read_many(
        [f.path for f, whole in zip(files, read_whole, strict=True) if whole]
    )
    for file, is_whole in zip(files, read_whole, strict=True):
        if leave(file):
            yield None
            continue
        with naming_file(file.path):
            whole = next(contents) if is_whole else None
            source = store.open_input(file.path) if whole is None else pa.BufferReader(whole)
        with source:
            yield source


def _is_small(file: DataFile) -> bool:
    # 0 can mean that the log has no size.
    return 0 < file.size_bytes <= _READ_WHOLE_BYTES


def ensure_readable_path(path: str) -> None:
    """Raise an error for a relative path to a file outside of the table directory.

    Raises:
        DataFileError: the path is outside; the message contains it.
    """
    if not is_absolute(path) and leaves_root(path):
        raise DataFileError(
            f"the log references {path!r}, which is outside of the table directory",
            hint="Do not use the file: a defective or hostile writer wrote its path into the log. "
            "Nothing was read.",
        )


def read_deletion_vector(store: Store, file: DataFile) -> BitMap64 | None:
    """Return positions of the deleted rows of a file; ``None`` if it has no deletion vector.

    Raises:
        DataFileError: the vector's file is missing, truncated, or fails its checksum.
    """
    vector = file.deletion_vector
    return None if vector is None else load_deletion_vector(store, vector)


def load_deletion_vector(store: Store, vector: DeletionVector, *, count: bool = True) -> BitMap64:
    """Return the rows that a deletion vector deletes.

    If ``count`` is true, their number is compared with the number in the log.

    Raises:
        DataFileError: the vector's file is missing, truncated, or fails its checksum; or the number
            of rows differs from the log.
    """
    name = vector.file_name
    if name is None:
        return decode_inline(vector, count=count)
    ensure_readable_path(name)
    with naming_file(name, "deletion vector"):
        offset, length = vector.offset or 0, vector.size_bytes + FRAME_OVERHEAD
        first, framed = store.read_ranges(name, [(0, 1), (offset, length)])
        payload = read_framed(framed, vector, name)
        ensure_known_format(first, name)
        return decode_bitmap(payload, what=name, cardinality=vector.cardinality if count else None)


@contextmanager
def naming_file(path: str, kind: str = "data file") -> Iterator[None]:
    """Add the file name to errors about data; convert those of Arrow and of the store."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise FileMissingError(
            f"{kind} {path!r} is in the log but not in the store",
            hint="Rerun with the table loaded again: a vacuum may have removed the file since. If "
            "it is still missing, run `deltactl check TABLE`, which says what repairs the table.",
        ) from error
    except (DataFileError, UnsupportedFeatureError) as error:
        hint = _AT_BROKEN if isinstance(error, DataFileError) else None
        said = error.message if path in error.message else f"{path!r}: {error.message}"
        raise type(error)(said, hint=error.hint or hint) from error
    except MemoryError:  # that of Arrow is also an ArrowException
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # or a non-UTF-8 name
        detail = first_line(error, 300) or type(error).__name__
        raise DataFileError(
            f"data file {path!r} cannot be read: {detail}", hint=_AT_BROKEN
        ) from error
