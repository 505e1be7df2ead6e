"""Refuse to write an output file of a run, such as a report, into a table."""

from __future__ import annotations

from deltactl.errors import UsageError
from deltactl.log.not_a_table import find_table_above
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.store import Store


def ensure_outside_tables(option: str, name: str, place: Store) -> None:
    """Refuse a file in a table: it could replace a commit or data, and vacuum would delete it.

    Args:
        option: the option with the name of the file.
        name: of the file, as it was given.
        place: of the directory that the file is in.

    Raises:
        UsageError: the directory, or one above it, has a Delta log.
    """
    is_table = next(iter(place.list_from(LOG_DIR)), None) is not None
    table = place.uri if is_table else find_table_above(place, levels=None)
    if table is not None:
        raise UsageError(
            f"{option} {name!r} is in the table at {table}",
            hint="Give a file outside of tables.",
        )
