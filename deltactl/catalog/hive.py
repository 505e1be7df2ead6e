"""The Hive metastore.

Source: Apache Hive, hive_metastore.thrift. The methods here are in Hive 2.3 and in Hive 4, which
has no ``get_table``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import gaierror
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from deltactl.catalog.base import Catalog, Partitions, TableAddress, register_anew
from deltactl.catalog.locations import read_table, write_partitions, write_table
from deltactl.catalog.names import TableName, parse_name
from deltactl.catalog.settings import Found
from deltactl.catalog.thrift import DeclaredError, Fields, Kind, Typed, call
from deltactl.errors import MALFORMED, StorageError, UnsupportedFeatureError, UsageError
from deltactl.storage.errors import map_error
from deltactl.storage.network.retry import RetryPolicy

_MALFORMED: Final = (*MALFORMED, IndexError)
_PORT: Final = 9083
_LAST_PORT: Final = 65535
_PAGE: Final = 100
_URIS: Final = ("hive.metastore.uris", "metastore.thrift.uris")
_UNSAFE: Final = ("hive.metastore.sasl.enabled", "hive.metastore.use.SSL")
_NO_SUCH_OBJECT: Final = 2  # of get_table_req
_NO_SUCH_DATABASE: Final = 1  # of get_database
_NO_SUCH_PARTITION: Final = 1  # of drop_partition

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
    8: ("PartitionKeys", _COLUMN), 9: ("Parameters", {}), 10: ("ViewOriginalText", {}),
    11: ("ViewExpandedText", {}), 12: ("TableType", {}),
}  # fmt: skip

# Whether compressed, buckets and their columns, sort columns, parameters.
_NEW_STORAGE: Final[Fields] = {
    5: (Kind.BOOL, False), 6: (Kind.I32, -1), 8: (Kind.LIST, (Kind.STRING, [])),
    9: (Kind.LIST, (Kind.STRUCT, [])), 10: (Kind.MAP, (Kind.STRING, Kind.STRING, [])),
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
            "hive-site.xml requires Kerberos or TLS, which deltactl does not support",
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
    is_port = port.isascii() and port.isdecimal() and int(port) <= _LAST_PORT
    if not host or set("/@") & set(host) or (port and not is_port):
        raise UsageError(
            f"{uri.rpartition('@')[2]!r} is not the address of a Hive metastore",
            hint="Write thrift://HOST:PORT, without a user.",
        )
    return host, int(port or _PORT)


class HiveCatalog(Catalog):
    """A metastore, at one of several addresses; see ``Catalog``."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Send no request yet."""
        self._addresses, self._retries = addresses, RetryPolicy(attempts=3)
        host, port = addresses[0]
        self.title = f"Hive metastore at {host}:{port}"

    def find(self, name: TableName) -> TableAddress | None:
        """Return the table of a name; see ``Catalog.find``."""
        with self._mapped(f"look up {name}"):
            try:
                found = self._get(name)
            except DeclaredError as error:
                if error.field == _NO_SUCH_OBJECT:
                    return None
                raise
            return self._address(name, found)

    def has_database(self, name: TableName) -> bool:
        """Return whether there is a database; see ``Catalog.has_database``."""
        with self._mapped(f"look up {name}"):
            try:
                self._call("get_database", _texts(name)[0])
            except DeclaredError as error:
                return error.field != _NO_SUCH_DATABASE
        return True

    def list(self, pattern: TableName) -> Iterator[TableAddress]:
        """Yield the tables that match; see ``Catalog.list``."""
        database = pattern.parts[0]
        with self._mapped(f"list {pattern}"):
            names = self._call("get_all_databases")[1] if "*" in database else [database]
            for each in filter(pattern.matches, names):
                yield from self._list(pattern, each)

    def create(self, wanted: TableAddress) -> None:
        """Add a table; see ``Catalog.create``."""
        database, _ = parse_name(wanted.name).parts
        fields = _typed(write_table(wanted, {}, replace=True), _TABLE)
        storage = {**_NEW_STORAGE, **fields[7][1]}
        given = {**fields, 2: (Kind.STRING, database.lower()), 7: (Kind.STRUCT, storage)}
        self._write("create_table", wanted, (Kind.STRUCT, given))

    def change(self, wanted: TableAddress, *, replace: bool) -> None:
        """Change a table; see ``Catalog.change``."""
        name = parse_name(wanted.name)
        with self._mapped(f"look up {name}"):
            before = self._get(name)
            known = _named(before, _TABLE)
            changed = _typed(write_table(wanted, known, replace=replace), _TABLE)
            storage = {**before[7][1], **changed[7][1]}
            again = register_anew(self._address(name, before))
        kept = {field: before[field] for field in before if field not in _TABLE}
        given = {**kept, **changed, 7: (Kind.STRUCT, storage)}
        hint = (
            "If columns are not compatible by their positions, do not try again: a metastore never "
            f"makes such a change. {again}"
        )
        self._write("alter_table", wanted, *_texts(name), (Kind.STRUCT, given), hint=hint)

    def partitions(self, address: TableAddress) -> Partitions:
        """Return the partitions; see ``Catalog.partitions``."""
        texts = _texts(parse_name(address.name))
        with self._mapped(f"list the partitions of {address.name}"):
            names = self._call("get_partition_names", *texts, (Kind.I16, -1))[1]
            found: dict[tuple[str, ...], str] = {}
            # Each partition repeats all columns: together they may be more than an answer may have.
            for first in range(0, len(names), _PAGE):
                page = (Kind.LIST, (Kind.STRING, names[first : first + _PAGE]))
                answer = self._call("get_partitions_by_names", *texts, page)
                found |= {tuple(each[1][1][1]): _location(each) for each in answer[1]}
            return found

    def change_partitions(
        self, wanted: TableAddress, gone: Sequence[tuple[str, ...]], new: Partitions
    ) -> None:
        """Remove partitions and add others; see ``Catalog.change_partitions``."""
        texts = _texts(parse_name(wanted.name))
        for values in gone:
            text = (Kind.LIST, (Kind.STRING, values))
            drop = (*texts, text, (Kind.BOOL, False))
            self._write("drop_partition", wanted, *drop, done=_NO_SUCH_PARTITION)
        added = [
            {
                1: (Kind.LIST, (Kind.STRING, values)),
                2: texts[0],
                3: texts[1],
                6: (Kind.STRUCT, {**_NEW_STORAGE, **_typed(storage, _STORAGE)}),
                7: _properties({}),
            }
            for values, storage in write_partitions(wanted, new)
        ]
        for first in range(0, len(added), _PAGE):
            page = (Kind.LIST, (Kind.STRUCT, added[first : first + _PAGE]))
            # Where they exist already, they are left, and no result is returned.
            given = (*texts, page, (Kind.BOOL, True), (Kind.BOOL, False))
            request = (Kind.STRUCT, dict(enumerate(given, 1)))
            self._write("add_partitions_req", wanted, request)

    def _get(self, name: TableName) -> Fields:
        wanted = dict(enumerate(_texts(name), 1))
        found: Fields = self._call("get_table_req", (Kind.STRUCT, wanted))[1][1]
        return found

    def _write(
        self,
        method: str,
        wanted: TableAddress,
        *arguments: Typed,
        done: int | None = None,
        hint: str | None = None,
    ) -> None:
        """Send a request once: nobody knows what came of it if the answer is lost.

        The exception in the field ``done`` of the reply means that there is nothing to do, and
        ``hint`` says what to do after another.
        """
        with self._mapped(f"{method} {wanted.name}", hint=hint):
            try:
                self._call_one(method, *arguments)
            except DeclaredError as error:
                if error.field != done:
                    raise

    @contextmanager
    def _mapped(self, what: str, *, hint: str | None = None) -> Iterator[None]:
        try:
            yield
        except DeclaredError as error:
            message = f"{self.title} refused to {what}: {error}"
            raise StorageError(message, hint=hint) from error
        except OSError as error:
            raise map_error(error, f"{what} in", "", self.title) from error
        except _MALFORMED as error:
            raise StorageError(f"{self.title} answered in an unknown form to {what}") from error

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
        return self._retries.call(lambda: self._call_one(method, *arguments))

    def _call_one(self, method: str, *arguments: Typed) -> Any:
        """Return the answer of the first address that accepts a connection."""
        for address in self._addresses[:-1]:
            try:
                return call(address, method, *arguments)
            except (ConnectionRefusedError, gaierror):
                continue
        return call(self._addresses[-1], method, *arguments)

    def _address(self, name: TableName, fields: Fields) -> TableAddress:
        return read_table(str(name), self.title, _named(fields, _TABLE))


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


def _location(partition: Fields) -> str:
    _, storage = partition.get(6, (0, {}))
    _, location = storage.get(2, (0, ""))
    return str(location)


def _typed(found: Mapping[str, Any], shape: _Shape) -> dict[int, Typed]:
    """Return fields with their types, for values by names."""
    fields: dict[int, Typed] = {}
    for field, (name, inner) in shape.items():
        value = found.get(name)
        if isinstance(value, list):
            fields[field] = Kind.LIST, (Kind.STRUCT, [_typed(each, inner) for each in value])
        elif isinstance(value, dict) and inner:
            fields[field] = Kind.STRUCT, _typed(value, inner)
        elif value is not None:
            fields[field] = _properties(value) if isinstance(value, dict) else (Kind.STRING, value)
    return fields


def _properties(values: Mapping[str, str]) -> Typed:
    return Kind.MAP, (Kind.STRING, Kind.STRING, list(values.items()))


def _texts(name: TableName) -> list[Typed]:
    return [(Kind.STRING, part.lower()) for part in name.parts]
