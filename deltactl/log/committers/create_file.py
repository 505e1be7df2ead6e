"""Create a file of the log that every writer would write with the same content."""

from __future__ import annotations

from deltactl.errors import ObjectExistsError, SafetyError
from deltactl.storage.store import Store


def create_file(store: Store, name: str, data: bytes) -> None:
    """Put a file, unless it exists.

    If the store supports it, the put is conditional, so nothing is overwritten. Otherwise a file
    with the same content may be put again.

    Raises:
        ObjectExistsError: the file exists.
        StorageError: the store failed; it is unknown whether the file exists.
    """
    try:
        store.put_if_absent(name, data)
    except SafetyError:
        if store.stat_many([name]) != [None]:
            raise ObjectExistsError(f"cannot create {name!r}: another file has this name") from None
        store.put(name, data)
