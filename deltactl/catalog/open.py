"""Open tables by their names: their location, and the storage options for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module

from deltactl.catalog.base import Catalog, Operation, TableAddress, no_table
from deltactl.catalog.kinds import KINDS
from deltactl.catalog.locations import ensure_usable
from deltactl.catalog.managed import ManagedTable
from deltactl.catalog.names import TableName, parse_name
from deltactl.catalog.settings import Found, find_settings, options_for_workers, without_settings
from deltactl.errors import UnsupportedFeatureError, UsageError
from deltactl.storage.names import is_local_uri
from deltactl.storage.vended import Credentials, VendedOptions


@dataclass(frozen=True, slots=True)
class Located:
    """Where a table is, and how to open it.

    ``entry`` is what the catalog says of it; ``managed``, if it decides the commits, what it does.
    """

    uri: str
    options: Mapping[str, str] = field(repr=False)
    entry: TableAddress | None = None
    managed: ManagedTable | None = None

    @property
    def own_credentials(self) -> str | None:
        """Return that the user's own credentials are used, if a catalog gave none."""
        if self.entry is None or is_local_uri(self.uri) or isinstance(self.options, VendedOptions):
            return None
        if not KINDS[self.entry.name.partition("://")[0]].gives_credentials:
            return None
        return f"{self.entry.catalog} gives no credentials: your own credentials are used"


def locate(address: str, options: Mapping[str, str], *, read_only: bool) -> Located:
    """Return the table of a name, with credentials for reading or for writing.

    Raises:
        UsageError: the name or a setting is not valid.
        NotATableError: the catalog has no such table.
        UnsupportedFeatureError: it is not a Delta table, or deltactl cannot open its location.
        AccessDeniedError, StorageError: the catalog refuses, or cannot be reached.
    """
    name = parse_name(address)
    if name.is_pattern:
        raise UsageError(f"{address} is a pattern", hint="Give the name of one table.")
    settings = find_settings(name, options, os.environ)
    catalog = open_catalog(name, settings)
    entry = catalog.find(name)
    if entry is None:
        raise no_table(catalog, name)
    if not entry.is_delta:
        kind = entry.table_format or entry.table_type or "of an unknown kind"
        raise UnsupportedFeatureError(
            f"{address} is not a Delta table: it is {kind} in {entry.catalog}",
            hint="Give the name of a Delta table.",
        )
    ensure_usable(address, entry.location)
    managed = catalog.managed(entry) if entry.is_catalog_managed else None
    base = without_settings(options)
    if is_local_uri(entry.location):
        return Located(entry.location, base, entry, managed)
    operation: Operation = "READ" if read_only else "READ_WRITE"
    for_workers = tuple(options_for_workers(name, settings).items())
    source = CatalogCredentials(entry, operation, for_workers, options)
    given = catalog.credentials(entry, operation)
    vended = VendedOptions(base, source, given) if given else base
    return Located(entry.location, vended, entry, managed)


def list_tables(pattern: str, options: Mapping[str, str]) -> Iterator[TableAddress]:
    """Yield what a catalog says of each table that matches a pattern, whatever its kind.

    Raises:
        UsageError: the pattern or a setting is not valid.
        AccessDeniedError, StorageError: the catalog refuses, or cannot be reached.
    """
    name = parse_name(pattern)
    return connect_to(name, options).list(name)


def connect_to(name: TableName, options: Mapping[str, str]) -> Catalog:
    """Return the catalog of a name, with the settings in options, environment and files.

    Raises:
        UsageError: a setting is not valid.
    """
    return open_catalog(name, find_settings(name, options, os.environ))


def open_catalog(name: TableName, settings: Mapping[str, Found]) -> Catalog:
    """Return the connection to the catalog of a name; the process has one for equal settings."""
    values = tuple(sorted((key, found.value) for key, found in settings.items()))
    # A forked process must not share its parent's connections.
    return _connect(name.scheme, name.place, values, os.getpid())


@lru_cache(maxsize=16)
def _connect(
    scheme: str, place: str, settings: tuple[tuple[str, str], ...], process: int
) -> Catalog:
    catalog: Catalog = import_module(KINDS[scheme].module).connect(place, dict(settings))
    return catalog


@dataclass(frozen=True, slots=True)
class CatalogCredentials:
    """Fetches the credentials of a table again.

    A worker gets ``for_workers`` instead of ``options``, which may contain secrets of the catalog.
    It uses those that it finds on its own machine.
    """

    entry: TableAddress = field(hash=False)
    operation: Operation
    for_workers: tuple[tuple[str, str], ...]
    options: Mapping[str, str] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out the options."""
        given = (self.entry, self.operation, self.for_workers, dict(self.for_workers))
        return CatalogCredentials, given

    def fetch(self) -> Sequence[Credentials]:
        """Return new credentials; see ``Catalog.credentials``."""
        name = parse_name(self.entry.name)
        return connect_to(name, self.options).credentials(self.entry, self.operation)
