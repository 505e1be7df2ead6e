"""``vacuum --forget-clone``: find out whether a recorded clone uses files of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    AccessDeniedError,
    CorruptLogError,
    DeltactlError,
    InterruptedRunError,
    SafetyError,
    StorageError,
    TransientStorageError,
)
from deltactl.log.physical_names import possible_names
from deltactl.operations.clone_notes import CloneNote
from deltactl.operations.stored_files import list_names
from deltactl.operations.vacuum.kept_files import names_in_log_of
from deltactl.protocol.path_columns import absolute_mask
from deltactl.storage.open import open_store
from deltactl.storage.store import Store

_SAMPLED = 20  # files that are compared with those at the addresses in the log of the clone


def ensure_unused(
    store: Store, note: CloneNote, storage_options: Mapping[str, str] | None = None
) -> None:
    """Refuse to forget a clone that exists, unless it uses no file of the table of ``store``.

    A clone that does not exist uses none as far as known.

    Raises:
        SafetyError: it uses files below the root, or cannot be read although it exists.
        StorageError: the files below the root, or at addresses in the clone, cannot be listed.
    """
    list_all = cache(lambda: list_names(store))
    for addresses in _read_addresses(note, storage_options):
        used = _find_used(store, addresses, list_all)
        if used is not None:
            raise SafetyError(
                f"the record of the shallow clone {note.clone_uri} was kept: the log of the clone "
                f"can be read, and references files of this table, such as {used!r}",
                hint="Delete the clone first, if nobody needs it. If this table was moved, make "
                "the old address lead to it, for example with a symbolic link (first move another "
                "table that is there now), and make a deep clone of the clone. If this table is a "
                f"copy that the clone does not use, delete {note.name} in it.",
            )


def _read_addresses(
    note: CloneNote, storage_options: Mapping[str, str] | None
) -> Iterator[pa.Array]:
    """Yield the absolute names in the log of a clone, as far as it can be read."""
    # What the clone was before a `clone --replace` that did not commit also counts.
    noted = replace(note, clone_version=0)
    try:
        other = open_store(note.clone_uri, storage_options)
        for columns in names_in_log_of(other, noted):
            for names in columns:
                yield pc.unique(names.filter(absolute_mask(names)))
    except InterruptedRunError:
        raise
    except AccessDeniedError as error:
        raise SafetyError(
            f"the record of the shallow clone {note.clone_uri} was kept: this user may not read "
            f"the clone, which may use files of this table: {error.message}",
            hint="Rerun as a user who may read the clone.",
        ) from error
    except (CorruptLogError, TransientStorageError) as error:
        raise SafetyError(
            f"the record of the shallow clone {note.clone_uri} was kept: the clone cannot be read "
            f"now, and may use files of this table: {error.message}",
            hint="Rerun when the clone can be read. If nobody needs it, delete its directory.",
        ) from error
    except DeltactlError:
        return


def _find_used(
    store: Store, addresses: pa.Array, list_all: Callable[[], pa.ChunkedArray]
) -> str | None:
    """Return the name of a file below the root that has one of the addresses, or ``None``.

    If the table was moved, nothing is at the address. A file there with the same size and time
    may be the same file: an address may be an alias.
    """
    try:
        located = pa.array(store.real_names(addresses.to_pylist()), pa.string())
    except StorageError:  # on another kind of storage, where no file of this table is
        return None
    if located.null_count < len(located):
        return str(located.drop_null()[0].as_py())
    if not len(addresses):
        return None
    for ends in possible_names(addresses):
        names = pc.unique(ends.filter(pc.is_in(ends, value_set=list_all())))
        for name in names.slice(0, _SAMPLED).to_pylist():
            address = addresses.filter(pc.ends_with(addresses, f"/{name}"))[0].as_py()
            here, there = store.stat_many([name, address])
            if here is not None and (
                there is None
                or (here.size_bytes, here.modified_ms) == (there.size_bytes, there.modified_ms)
            ):
                return str(name)
    return None
