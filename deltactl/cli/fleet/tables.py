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
from deltactl.errors import NotATableError, UsageError
from deltactl.storage.names import is_table_name
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.cli.session import Session


_log = logging.getLogger(__name__)


def find_single(options: FleetOptions, session: Session) -> str | None:
    """Return the table if exactly one is given, so that its output is that of a single run.

    Raises:
        UsageError: none is given, or the name of a bucket is a glob.
    """
    if not options.table and options.tables_from is None:
        raise UsageError(
            "Missing argument 'TABLE'", hint=f"See `deltactl {session.command} --help`."
        )
    if options.tables_from is not None or len(options.table) > 1:
        return None
    from deltactl.operations.find_tables import is_glob, is_table, split_glob

    [word] = options.table
    if not is_glob(word):
        return word
    if is_table_name(word):
        return None
    split_glob(word)
    return word if is_table(session.open_store(word, read_only=True)) else None


def expand_tables(options: FleetOptions, session: Session) -> list[str]:
    """Return the addresses from the arguments and the file, each once, in order.

    Raises:
        UsageError: the file cannot be read, or contains no table.
        NotATableError: a glob matches no table.
    """
    from deltactl.operations.find_tables import find_tables, is_glob

    tables: dict[str, str] = {}
    for word in (*options.table, *_read_words(options.tables_from)):
        if is_table_name(word):
            tables.update(find_named(word, session) if is_glob(word) else {word: word})
            continue
        for address in find_tables(word, session.open_store) if is_glob(word) else [word]:
            tables.setdefault(session.open_store(address).uri, address)
    if not tables:
        raise UsageError(
            f"--tables-from {options.tables_from} contains no table",
            hint="Write one table per line; empty lines and lines that begin with # are ignored.",
        )
    return list(dict.fromkeys(tables.values()))


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
        session.names_at.setdefault(entry.location.rstrip("/"), []).append(entry.name)
        tables.setdefault(entry.location.rstrip("/"), entry.name)
    if left_out:
        count = format_count(len(left_out), "table", "tables")
        session.output.note(f"{pattern}: {count} left out, which are no Delta tables")
    if not tables:
        raise NotATableError(
            f"no Delta table matches {pattern}",
            hint="Quote the pattern, so that the shell does not expand it.",
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
    lines = (line.strip() for line in text.splitlines())
    yield from (line for line in lines if line and not line.startswith("#"))
