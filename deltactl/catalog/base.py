"""What a catalog does: find tables by their names, and give credentials for their storage."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from deltactl.catalog.managed import ManagedTable
from deltactl.catalog.names import TableName, nearest_names
from deltactl.errors import NotATableError, StorageError
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.vended import Credentials

Operation: TypeAlias = Literal["READ", "READ_WRITE"]
_NAMES_COMPARED: Final = 200  # of two pages


Partitions: TypeAlias = Mapping[tuple[str, ...], str]
"""Locations by the texts of partition values."""


class Column(NamedTuple):
    """A column. ``delta_type`` is its type as JSON of the log; only new tables have it."""

    name: str
    type: str
    comment: str = ""
    delta_type: str = ""
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TableAddress:
    """What a catalog says of a table, or should say.

    Attributes:
        name: as ``deltactl`` accepts it.
        catalog: title and address of the catalog.
        table_id: the id in the catalog, which need not be the id in the log.
        table_type: as the catalog spells it: MANAGED, EXTERNAL, VIEW, ...
        table_format: in upper case: DELTA, PARQUET, ...; empty if unknown.
        location: the address of the table's directory; empty if there is none.
        is_symlink: whether the catalog has the manifests of the table, not the table.
        owner: a user or group.
        columns: partition columns too; empty if the catalog does not know them.
        partition_columns: their names, if engines find partitions in the catalog.
        comment: of the table.
        properties: of the table in the catalog.
        other_names: of the same location, as far as they are known.
    """

    name: str
    catalog: str
    table_id: str | None
    table_type: str
    table_format: str
    location: str
    owner: str | None = None
    columns: tuple[Column, ...] = ()
    partition_columns: tuple[str, ...] = ()
    comment: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    other_names: tuple[str, ...] = ()
    is_symlink: bool = False

    def to_dict(self) -> dict[str, str | None]:
        """Return what describe-detail shows beside the log."""
        return {
            "name": self.name,
            "catalog": self.catalog,
            "id": self.table_id,
            "type": self.table_type,
            "owner": self.owner,
        }

    @property
    def place(self) -> str:
        """Return the location, or that of the manifests if the catalog has these."""
        return f"{self.location}/{MANIFEST_DIR}" if self.is_symlink else self.location

    @property
    def is_catalog_managed(self) -> bool:
        """Return whether the catalog decides commits, so that it may know more than the log."""
        features = ("delta.feature.catalogManaged", "delta.feature.catalogOwned-preview")
        return any(self.properties.get(feature) == "supported" for feature in features)

    @property
    def repeated_columns(self) -> list[str]:
        """Return the names, in lower case, of columns that are there more than once."""
        counts = Counter(column.name.lower() for column in self.columns)
        return [name for name, count in counts.items() if count > 1]

    @property
    def is_delta(self) -> bool:
        """Return whether the catalog calls it a Delta table; it can lack a location."""
        return self.table_format == "DELTA"


class Catalog(Protocol):
    """A connection to one catalog, with its title. Threads share it."""

    title: str
    """What messages call it."""

    def find(self, name: TableName) -> TableAddress | None:
        """Return the table of a name, whatever its kind; ``None`` if there is none.

        Raises:
            AccessDeniedError: the credentials or privileges do not allow it.
            StorageError: the catalog cannot be reached.
        """

    def has_database(self, name: TableName) -> bool:
        """Return whether there is the database or schema of a name; true if it cannot be seen."""

    def list(self, pattern: TableName) -> Iterator[TableAddress]:
        """Yield the tables that match a pattern, whatever their kind.

        Raises:
            UsageError: a part of the pattern must be a plain name.
            AccessDeniedError, StorageError: as for ``find``.
        """

    def credentials(self, address: TableAddress, operation: Operation) -> Sequence[Credentials]:
        """Return credentials for the location of a table; none if this catalog gives none.

        Raises:
            AccessDeniedError, StorageError: as for ``find``.
        """
        return ()

    def managed(self, address: TableAddress) -> ManagedTable | None:
        """Return the commits of a catalog-managed table; ``None``: this catalog decides none."""
        return None

    def create(self, wanted: TableAddress) -> None:
        """Add an external table.

        Raises:
            AccessDeniedError, StorageError: also if there is one already.
        """

    def change(self, wanted: TableAddress, *, replace: bool) -> None:
        """Change columns and comments of a table; with ``replace`` all that engines read.

        Raises:
            UnsupportedFeatureError: this catalog cannot do that.
            AccessDeniedError, StorageError: as for ``find``.
        """

    def partitions(self, address: TableAddress) -> Partitions:
        """Return the partitions that the catalog has for a table, of whatever kind.

        Raises:
            AccessDeniedError, StorageError: as for ``find``.
        """

    def change_partitions(
        self, wanted: TableAddress, gone: Sequence[tuple[str, ...]], new: Partitions
    ) -> None:
        """Remove partitions, then add others; what another run has done already is no error.

        Raises:
            AccessDeniedError, StorageError: as for ``find``.
        """


def register_anew(entry: TableAddress) -> str:
    """Return the hint for a change that the catalog of an entry never makes."""
    values = {key.lower(): value.lower() for key, value in entry.properties.items()}
    if values.get("external") == "true" and values.get("external.table.purge", "false") == "false":
        return (
            "Drop the entry with DROP TABLE, which keeps the files of this external table. Then "
            "rerun."
        )
    return "Use another name: DROP TABLE may delete the files of this table."


def no_table(catalog: Catalog, name: TableName) -> NotATableError:
    """Return the error for a name that a catalog does not have; it has similar names."""
    every = name.with_parts(*name.parts[:-1], "*")
    try:
        others = [each.name for each in islice(catalog.list(every), _NAMES_COMPARED)]
    except StorageError:
        others = []
    return NotATableError(
        f"{catalog.title} has no table {'.'.join(name.parts)}{nearest_names(str(name), others)}",
        hint=f"Check the name. `deltactl optimize {shlex.quote(str(every))} --dry-run` lists the "
        "Delta tables. To give a name to a table at a path, use `deltactl register`.",
    )
