"""Find out whether a path is a Delta table, or inside one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from deltactl.errors import NotATableError, SafetyError, StorageError
from deltactl.protocol.names import LAST_CHECKPOINT, LOG_DIR, TABLE_MARKERS, parse_log_name
from deltactl.storage.local.uris import path_to_uri
from deltactl.storage.names import OWN_DIR, decode_address
from deltactl.storage.store import Store
from deltactl.suggest import find_nearest

PROGRESS_FILE: Final = f"{OWN_DIR}/clone.json"
"""Marks an unfinished deep clone."""

_LEVELS_UP = 4  # each costs a request; deeper partitions are rare
_MOST_BELOW = 10  # directories to look into: each costs a request
_GIVE: Final = "Give the directory that contains _delta_log."

LOG_MARKERS: Final = tuple(name for name in TABLE_MARKERS if name.startswith(f"{LOG_DIR}/"))
"""Files that show, without a listing, that a directory has a log. Some logs lack them."""


def log_directory(directory: str) -> str:
    """Return the name of the directory of the log of a table in a directory."""
    return f"{directory}/{LOG_DIR}" if directory else LOG_DIR


def is_in_log(name: str) -> bool:
    """Return whether a name is that of a file in the log of the table at the root."""
    return name.startswith(f"{LOG_DIR}/")


def is_from_a_log(name: str) -> bool:
    """Return whether a file outside the log has a name of log files: a log was moved there."""
    last = name.rpartition("/")[2]
    return not is_in_log(name) and (last == LAST_CHECKPOINT or parse_log_name(last) is not None)


def find_inner_table(name: str) -> str | None:
    """Return the directory of the inner table to whose log a file belongs, if it does to one."""
    directory, log, _ = name.partition(f"/{LOG_DIR}/")
    return directory if log else None


def has_log(store: Store, directory: str = "") -> bool:
    """Return whether a directory has a log that is not empty."""
    return next(iter(store.list_from(log_directory(directory))), None) is not None


def no_table_error(store: Store) -> NotATableError:
    """Return the error for a path without a Delta log; the message shows what the path contains.

    Raises:
        StorageError: the path cannot be listed.
    """
    where = store.uri
    # An empty directory has no files to list, but is a directory.
    if has_log(store) or LOG_DIR in store.list_directories():
        return NotATableError(
            f"{where} is not a Delta table: its _delta_log contains no commits",
            hint="Restore the log from a backup, or check the path.",
        )
    above = find_table_above(store)
    hint = None if above is None else f"Open the table at {shlex.quote(above)}."
    if names := next(store.walk(), None):
        hint = hint or _hint_of_content(store, names)
        return NotATableError(f"{where} is not a Delta table: it has no _delta_log", hint=hint)
    # A URI is encoded; the names that a store takes are not.
    if store.stat_many([decode_address(where)]) != [None]:
        return NotATableError(f"{where} is a file, not a Delta table", hint=hint or _GIVE)
    message = f"no Delta table at {where}: the directory is empty or missing"
    if hint is None and (near := _find_beside(store)) is not None:
        message += f". Did you mean {near}?"
    return NotATableError(message, hint=hint or _GIVE)


def _hint_of_content(store: Store, names: Iterable[str]) -> str:
    """Return what to do with a directory that is not a table; ``names`` are some of its files."""
    inner = (each for each in store.list_directories()[:_MOST_BELOW] if has_log(store, each))
    below = next(inner, None) or next(filter(None, map(find_inner_table, names)), None)
    if below is not None:
        root, pattern = decode_address(store.uri), shlex.quote(f"{store.uri}/**")
        return (
            f"Give one of the tables below it, such as {_quote(f'{root}/{below}')}, or the pattern "
            f"{pattern} for all of them."
        )
    if any(re.match(r"metadata/[^/]*\.metadata\.json$", name) for name in names):
        return "Use a tool for Iceberg: this is an Iceberg table."
    if store.stat_many([PROGRESS_FILE]) != [None]:
        return (
            "Rerun the `deltactl clone` that was to create a table here: this is an unfinished "
            "deep clone."
        )
    has_rows = any(name.endswith(".parquet") for name in names)
    if has_rows and OWN_DIR in store.list_directories():
        return (
            "Restore _delta_log from a backup: deltactl ran on this table before. Without a "
            f"backup, move {OWN_DIR} to another place, and run `deltactl convert "
            f"{shlex.quote(store.uri)}`: deleted rows are there again, and rewritten rows twice."
        )
    if has_rows:
        return (
            f"Convert it to a table with `deltactl convert {shlex.quote(store.uri)}`. If it was a "
            "table that lost _delta_log, restore _delta_log: after a conversion, deleted rows are "
            "there again."
        )
    return _GIVE


def _find_beside(store: Store) -> str | None:
    """Return the table beside an address whose name is similar; ``None`` without one."""
    parent, _, name = decode_address(store.uri).rpartition("/")
    with suppress(StorageError):
        beside = (each.rpartition("/")[2] for each in store.list_directories(parent))
        nearest = find_nearest(name, beside)
        if nearest is not None and has_log(store, f"{parent}/{nearest}"):
            return _quote(f"{parent}/{nearest}")
    return None


def _quote(address: str) -> str:
    """Return a decoded address as it is typed in a shell."""
    path = address.removeprefix("file://")
    return shlex.quote(address if path == address else path_to_uri(path))


def find_table_above(store: Store, levels: int | None = _LEVELS_UP) -> str | None:
    """Return the table that contains a path, for example if the path is one of its partitions.

    ``levels`` is how many parent directories to check; ``None`` means all.
    """
    scheme, separator, path = store.uri.partition("://")
    while levels is None or levels > 0:
        levels = None if levels is None else levels - 1
        path = path.rpartition("/")[0]
        if not path.strip("/"):
            break
        parent = f"{scheme}{separator}{path}"
        # A user who may list the table need not be allowed to list what is above it.
        with suppress(StorageError):
            if has_log(store, decode_address(parent)):
                return parent
    return None


def ensure_no_table_above(store: Store, *, hint: str) -> None:
    """Refuse a directory inside a Delta table, whose files may belong to that table.

    Raises:
        SafetyError: the message has the table.
    """
    above = find_table_above(store, levels=None)
    if above is not None:
        raise SafetyError(
            f"{store.uri} is inside the Delta table {above}: a table cannot be inside another",
            hint=hint,
        )
