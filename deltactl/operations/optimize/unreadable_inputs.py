"""Find the inputs because of which a bin failed, so that the others can be rewritten."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltactl.errors import DataFileError, DeltactlError, StorageError, TransientStorageError
from deltactl.numpy_types import Flags
from deltactl.parquet.data_file import DataFile, iter_data_files
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.open_files import ensure_readable_path, naming_file, read_deletion_vector
from deltactl.storage.parallel import map_requests
from deltactl.storage.store import Store


def unreadable_mask(store: Store, files: pa.Table, error: DeltactlError) -> Flags:
    """Return the files that cannot be read; none if storage fails.

    These are files whose footer or deletion vector cannot be read. If there are none, these are the
    files that ``error``, with which the bin failed, names: it found a damaged page.
    """

    def is_unreadable(file: DataFile) -> bool:
        try:
            ensure_readable_path(file.path)
            with naming_file(file.path):
                parse_footer(store, file.path, file.size_bytes)
            read_deletion_vector(store, file)
        except TransientStorageError:
            raise
        except (DataFileError, StorageError):
            return True
        return False

    try:
        found = map_requests(store, is_unreadable, iter_data_files(files))
        unreadable = np.array(list(found), np.bool_)
    except TransientStorageError:
        return np.zeros(files.num_rows, np.bool_)
    if unreadable.any() or not isinstance(error, DataFileError):
        return unreadable
    return np.array([repr(it) in error.message for it in files["path"].to_pylist()], np.bool_)
