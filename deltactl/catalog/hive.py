"""The Hive metastore.

Source: Apache Hive, hive_metastore.thrift. The methods here are in Hive 2.3 and in Hive 4, which
has no ``get_table``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from deltactl.catalog.base import Operation, TableAddress, no_table
from deltactl.catalog.locations import read_table
from deltactl.catalog.names import TableName
from deltactl.catalog.settings import Found
from deltactl.catalog.thrift import DeclaredError, Fields, Kind, Typed, call
from deltactl.errors import MALFORMED, StorageError, UnsupportedFeatureError, UsageError
from deltactl.storage.errors import map_error
from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.vended import Credentials

_MALFORMED: Final = (*MALFORMED, IndexError)
_PORT: Final = 9083
_PAGE: Final = 100
_URIS: Final = ("hive.metastore.uris", "metastore.thrift.uris")
_UNSAFE: Final = ("hive.metastore.sasl.enabled", "hive.metastore.use.SSL")
_NO_SUCH_OBJECT: Final = 2

_Shape: TypeAlias = Mapping[int, tuple[str, Any]]
"""Fields of a struct: the name that Glue has for each, and what is inside it."""
_COLUMN: Final[_Shape] = {1: ("Name", {}), 2: ("Type", {}), 3: ("Comment", {})}
_SERDE: Final[_Shape] = {2: ("SerializationLibrary", {}), 3: ("Parameters", {})}
_STORAGE: Final[_Shape] = {
    1: ("Columns", _COLUMN), 2: ("Location", {}), 3: ("InputFormat", {}),
    4: ("OutputFormat", {}), 7: ("SerdeInfo", _SERDE),
}  # fmt: skip
_TABLE: Final[_Shape] = {
    1: ("Name", {}), 3: ("Owner", {}), 7: ("StorageDescriptor", _STORAGE),
    8: ("PartitionKeys", _COLUMN), 9: ("Parameters", {}), 12: ("TableType", {}),
}  # fmt: skip


def read_files(found: Mapping[str, Found], environ: Mapping[str, str]) -> dict[str, Found]:
    """Return what ``hive-site.xml`` says, if there is no other address.

    Raises:
        UsageError: the file cannot be understood.
    """
    if "uris" in found or "conf-dir" not in found:
        return {}
    path = Path(found["conf-dir"].value) / "hive-site.xml"
    try:
        properties = ElementTree.parse(path).getroot().iterfind("property")
        values = {each.findtext("name"): each.findtext("value", "") for each in properties}
    except FileNotFoundError:
        return {}
    except (ElementTree.ParseError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    read = {"uris": next((name for name in _URIS if values.get(name)), "")}
    read["security"] = next(
        (name for name in _UNSAFE if values.get(name, "").strip() == "true"), ""
    )
    return {
        key: Found(values[name].strip(), f"{path}: {name}") for key, name in read.items() if name
    }


def connect(place: str, settings: Mapping[str, str]) -> HiveCatalog:
    """Return the catalog of a metastore; sends no request.

    Raises:
        UsageError: there is no address, or it is not valid.
        UnsupportedFeatureError: the metastore wants Kerberos or TLS.
    """
    if not place and "security" in settings:
        raise UnsupportedFeatureError(
            "hive-site.xml asks for Kerberos or TLS, which deltactl does not speak",
            hint="Give the address of a metastore without them, or the path of the table.",
        )
    uris = place or settings.get("uris", "")
    if not uris:
        raise UsageError(
            "the address of the Hive metastore is not set",
            hint="Write hive://HOST:PORT/DATABASE.TABLE, set HIVE_CONF_DIR to the directory of "
            "hive-site.xml, or set uris in the section [catalog.hive] of deltactl.toml.",
        )
    return HiveCatalog([_parse_address(uri) for uri in uris.split(",")])


def _parse_address(uri: str) -> tuple[str, int]:
    host, _, port = uri.strip().removeprefix("thrift://").partition(":")
    if not host or "/" in host + port or (port and not port.isdigit()):
        raise UsageError(
            f"{uri!r} is not the address of a Hive metastore", hint="Write thrift://HOST:PORT."
        )
    return host, int(port or _PORT)


class HiveCatalog:
    """A metastore, at one of several addresses; see ``Catalog``."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Send no request yet."""
        self._addresses, self._retries = addresses, RetryPolicy(attempts=3)
        host, port = addresses[0]
        self._title = f"Hive metastore at {host}:{port}"

    def resolve(self, name: TableName) -> TableAddress:
        """Return the table of a name; see ``Catalog.resolve``."""
        database, table = name.parts
        wanted = {1: (Kind.STRING, database), 2: (Kind.STRING, table)}
        try:
            found = self._call("get_table_req", (Kind.STRUCT, wanted))
            return self._address(name, found[1][1])
        except DeclaredError as error:
            if error.field == _NO_SUCH_OBJECT:
                raise no_table(self, self._title, name) from None
            raise StorageError(f"{self._title} cannot look {name} up: {error}") from error
        except _MALFORMED as error:
            raise StorageError(f"{self._title} describes {name} in an unknown form") from error

    def list(self, pattern: TableName) -> Iterator[TableAddress]:
        """Yield the tables that match; see ``Catalog.list``."""
        database = pattern.parts[0]
        try:
            names = self._call("get_all_databases")[1] if "*" in database else [database]
            for each in filter(pattern.matches, names):
                yield from self._list(pattern, each)
        except DeclaredError as error:
            raise StorageError(f"{self._title} cannot list {pattern}: {error}") from error
        except _MALFORMED as error:
            raise StorageError(f"{self._title} lists {pattern} in an unknown form") from error

    def credentials(self, address: TableAddress, operation: Operation) -> Sequence[Credentials]:
        """Return none: a metastore gives none."""
        return ()

    def _list(self, pattern: TableName, database: str) -> Iterator[TableAddress]:
        tables = self._call("get_all_tables", (Kind.STRING, database))[1]
        names = [table for table in sorted(tables) if pattern.matches(database, table)]
        for first in range(0, len(names), _PAGE):
            page = (Kind.LIST, (Kind.STRING, names[first : first + _PAGE]))
            wanted = {1: (Kind.STRING, database), 2: page}
            found = self._call("get_table_objects_by_name_req", (Kind.STRUCT, wanted))
            for fields in sorted(found[1][1][1], key=lambda fields: fields[1]):
                name = pattern.with_parts(database, fields[1][1])
                yield self._address(name, fields)

    def _call(self, method: str, *arguments: Typed) -> Any:
        try:
            return self._retries.call(lambda: self._call_one(method, *arguments))
        except OSError as error:
            raise map_error(error, method, "", self._title) from error

    def _call_one(self, method: str, *arguments: Typed) -> Any:
        """Return the answer of the first address that has one."""
        for address in self._addresses[:-1]:
            try:
                return call(address, method, *arguments)
            except OSError:
                continue
        return call(self._addresses[-1], method, *arguments)

    def _address(self, name: TableName, fields: Fields) -> TableAddress:
        found = _named(fields, _TABLE)
        columns = [*found["StorageDescriptor"]["Columns"], *found.get("PartitionKeys", ())]
        pairs = [(column["Name"], column["Type"]) for column in columns]
        return read_table(str(name), self._title, found, pairs)


def _named(fields: Fields, shape: _Shape) -> dict[str, Any]:
    """Return the known fields of a struct by their names."""
    found: dict[str, Any] = {}
    for field, (name, inner) in shape.items():
        kind, value = fields.get(field, (0, None))
        if kind == Kind.MAP:
            found[name] = dict(value[2])
        elif kind == Kind.LIST:
            found[name] = [_named(member, inner) for member in value[1]]
        elif kind:
            found[name] = _named(value, inner) if kind == Kind.STRUCT else value
    return found
