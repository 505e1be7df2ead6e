"""Refuse an output file of a run, such as a report, that cannot or must not be written."""

from __future__ import annotations

import os

from deltactl.errors import UsageError
from deltactl.log.table_probe import find_table_above, has_log
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import is_local_uri
from deltactl.storage.store import Store


def ensure_replaceable(option: str, name: str, place: Store) -> None:
    """Refuse a file that cannot be written; see ``ensure_outside_tables``.

    Raises:
        UsageError: the local directory does not exist or is not writable, or is in a table.
    """
    if is_local_uri(place.uri) and not os.access(uri_to_path(place.uri), os.W_OK):
        raise UsageError(
            f"{option} {name}: the directory {uri_to_path(place.uri)} does not exist, or is not "
            "writable",
            hint="Give a file in a directory that is writable.",
        )
    ensure_outside_tables(option, name, place)


def ensure_outside_tables(option: str, name: str, place: Store) -> None:
    """Refuse a file in a table: it could replace a commit or data, and vacuum would delete it.

    ``option`` names the file ``name``, as it was given; ``place`` is the directory that the file is
    in.

    Raises:
        UsageError: the directory, or one above it, has a Delta log.
    """
    is_table = has_log(place)
    table = place.uri if is_table else find_table_above(place, levels=None)
    if table is not None:
        raise UsageError(
            f"{option} {name!r} is in the table at {table}", hint="Give a file outside of tables."
        )
