"""Find the tables of a run: those that are given, those of a file, those that match a glob.

Every run needs this module. ``run`` is only loaded for several tables.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from deltactl.cli.options.fleet import FleetOptions
from deltactl.errors import DeltactlError, NotATableError, UsageError
from deltactl.storage.names import common_address, is_table_name
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.catalog.base import TableAddress
    from deltactl.cli.session import Session


_log = logging.getLogger(__name__)


def expand_tables(options: FleetOptions, session: Session) -> tuple[list[str], bool]:
    """Return the addresses from the arguments and the file, each once, in order.

    Also return whether exactly one table is given, so that its output is that of a single run. A
    word that fails, for example a glob that matches no table, is one of the addresses: its error
    is in ``session.unlisted``, and the others run.

    Raises:
        UsageError: none is given, or the file cannot be read.
    """
    from deltactl.operations.find_tables import is_glob

    if not options.table and options.tables_from is None:
        raise UsageError(
            "Missing argument 'TABLE'", hint=f"See `deltactl {session.command} --help`."
        )
    is_one = options.tables_from is None and len(options.table) == 1
    if is_one and not is_glob(options.table[0]):
        return [session.admit(options.table[0])], True
    tables: dict[str, str] = {}
    for given in (*options.table, *_read_words(options.tables_from)):
        word = session.admit(given)
        try:
            found = {word: word} if word in session.unlisted else _expand(word, session)
        except DeltactlError as error:
            session.unlisted[word] = error
            found = {word: word}
        for location, address in found.items():
            # A catalog may have credentials for a name, and commits that the path lacks.
            if location not in tables or (
                is_table_name(word) and not is_table_name(tables[location])
            ):
                tables[location] = address
    if not tables:
        raise UsageError(
            f"--tables-from {options.tables_from} contains no table",
            hint="Write one table per line; empty lines and lines that begin with # are ignored.",
        )
    addresses = list(dict.fromkeys(tables.values()))
    return addresses, is_one and addresses == options.table and not session.unlisted


def _expand(word: str, session: Session) -> dict[str, str]:
    """Return the addresses of the tables that a word names, by location."""
    from deltactl.operations.find_tables import find_tables, is_glob

    if is_table_name(word):
        return find_named(word, session) if is_glob(word) else {_locate(word, session): word}
    found = find_tables(word, session.open_store) if is_glob(word) else [word]
    return {common_address(session.open_store(address).uri): address for address in found}


def _locate(name: str, session: Session) -> str:
    """Return the location of a name; if there is none, the name, whose run then says why."""
    from deltactl.catalog.names import parse_name
    from deltactl.catalog.open import connect_to

    try:
        parsed = parse_name(name)
        entry = connect_to(parsed, session.catalog_options).find(parsed)
    except DeltactlError:
        return name
    return _place(entry) if entry is not None and entry.is_delta else name


def _place(entry: TableAddress) -> str:
    from deltactl.storage.open import canonical_uri

    return canonical_uri(entry.location) if entry.location else entry.name


def find_named(pattern: str, session: Session) -> dict[str, str]:
    """Return the names of the Delta tables in a catalog that match a pattern, by location.

    Raises:
        NotATableError: none matches.
        UsageError: the pattern is not valid.
        AccessDeniedError, StorageError: the catalog refuses, or cannot be reached.
    """
    from deltactl.catalog.open import list_tables

    tables: dict[str, str] = {}
    left_out: list[str] = []
    for entry in list_tables(pattern, session.catalog_options):
        if not entry.is_delta:
            left_out.append(entry.name)
            _log.info("%s is left out: it is %s", entry.name, entry.table_format or "a view")
            continue
        location = _place(entry)
        session.names_at.setdefault(location, []).append(entry.name)
        tables.setdefault(location, entry.name)
    if left_out:
        count = format_count(len(left_out), "table", "tables")
        session.output.note(f"{pattern}: {count} left out: not Delta tables")
    if not tables:
        raise NotATableError(
            f"no Delta table matches {pattern}",
            hint="Check the names of the catalog and the schema. With -v, deltactl names the "
            "tables that are left out.",
        )
    return tables


def _read_words(name: str | None) -> Iterator[str]:
    if name is None:
        return
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"--tables-from {name} cannot be read: {error.strerror or error}",
            hint="Give a readable text file with one table per line, or - for standard input.",
        ) from error
    except UnicodeError as error:
        raise UsageError(
            f"--tables-from {name} is not UTF-8 text: {error}",
            hint="Give a text file with one table per line.",
        ) from error
    # Other line breaks, such as U+2028, can be in a name.
    lines = (line.strip() for line in text.removeprefix("\ufeff").split("\n"))
    yield from (line for line in lines if line and not line.startswith("#"))
