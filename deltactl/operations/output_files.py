"""Refuse to write an output file of a run, such as a report, into a table."""

from __future__ import annotations

from deltactl.errors import UsageError
from deltactl.log.table_probe import find_table_above, has_log
from deltactl.storage.store import Store


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
