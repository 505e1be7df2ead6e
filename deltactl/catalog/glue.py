"""The Data Catalog of AWS Glue.

Source: AWS Glue Web API Reference, GetTable, GetTables, GetDatabases, Table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from deltactl.catalog.base import Catalog, Partitions, TableAddress
from deltactl.catalog.http import allows_http, ensure_safe
from deltactl.catalog.locations import read_table, write_partitions, write_table
from deltactl.catalog.names import TableName, parse_name
from deltactl.catalog.settings import Found
from deltactl.errors import MALFORMED, StorageError, UsageError, say_what_is_left
from deltactl.option_names import option
from deltactl.storage.classify import service_code
from deltactl.storage.errors import map_error
from deltactl.storage.providers import S3, Access

_PAGE: Final = 100
_ACCESS: Final = Access(
    sources=S3.access.sources,
    how_to_give="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    how_to_renew=S3.access.how_to_renew,
    to_read="glue:GetTable on the table, its database and the catalog",
    to_write="glue:CreateTable, glue:UpdateTable, glue:BatchCreatePartition and "
    "glue:BatchDeletePartition on the table, its database and the catalog",
    to_list="glue:GetTables, glue:GetPartitions and glue:GetDatabases on the tables, their "
    "databases and the catalog",
)


def read_files(found: Mapping[str, Found], environ: Mapping[str, str]) -> dict[str, Found]:
    """Return nothing: botocore reads the files of AWS."""
    return {}


def connect(place: str, settings: Mapping[str, str]) -> GlueCatalog:
    """Return the catalog of an account; sends no request.

    Raises:
        UsageError: there is no region.
        SafetyError: the address would get tokens without encryption.
        StorageError: the profile does not exist.
    """
    from botocore.config import Config
    from botocore.exceptions import NoRegionError
    from botocore.session import Session

    key = settings.get("key")
    try:
        client = Session(profile=settings.get("profile")).create_client(
            "glue",
            region_name=settings.get("region"),
            endpoint_url=settings.get("endpoint-url"),
            aws_access_key_id=key,
            aws_secret_access_key=settings.get("secret") if key else None,
            aws_session_token=settings.get("session-token") if key else None,
            config=Config(
                connect_timeout=10,
                read_timeout=60,
                retries={"mode": "standard", "total_max_attempts": 5},
            ),
        )
    except NoRegionError:
        raise UsageError(
            "the region of AWS Glue is not set",
            hint="Set AWS_REGION, a region in the profile, or region in the section "
            "[catalog.glue] of deltactl.toml.",
        ) from None
    except Exception as error:
        raise map_error(error, "connect to", "", "AWS Glue", access=_ACCESS) from error
    ensure_safe(client.meta.endpoint_url, allow_http=allows_http(settings))
    return GlueCatalog(client, place)


class GlueCatalog(Catalog):
    """The catalog of an account in a region; see ``Catalog``."""

    def __init__(self, client: Any, account: str) -> None:
        """Send requests with a client of botocore; without ``account`` to the caller's catalog."""
        self._client = client
        self._account = {"CatalogId": account} if account else {}
        where = f"{account} in " if account else ""
        self.title = f"AWS Glue {where}{client.meta.region_name}"

    def find(self, name: TableName) -> TableAddress | None:
        """Return the table of a name; see ``Catalog.find``."""
        try:
            return self._address(name, self._get(name))
        except Exception as error:
            if service_code(error) == "EntityNotFoundException":
                return None
            raise self._error(error, "look up", ".".join(name.parts)) from error

    def _get(self, name: TableName) -> Mapping[str, Any]:
        database, table = _lowered(name)
        answer = self._client.get_table(**self._account, DatabaseName=database, Name=table)
        found: Mapping[str, Any] = answer["Table"]
        return found

    def has_database(self, name: TableName) -> bool:
        """Return whether there is a database; see ``Catalog.has_database``."""
        try:
            self._client.get_database(**self._account, Name=_lowered(name)[0])
        except Exception as error:  # noqa: BLE001 - whoever may create tables may lack GetDatabase
            return service_code(error) != "EntityNotFoundException"
        return True

    def list(self, pattern: TableName) -> Iterator[TableAddress]:
        """Yield the tables that match; see ``Catalog.list``."""
        database = pattern.parts[0].lower()
        names: Sequence[str] = [database]
        if "*" in database:
            found = self._pages("get_databases", "DatabaseList")
            names = [each["Name"] for each in found if pattern.matches(each["Name"])]
        for each in names:
            for table in self._pages("get_tables", "TableList", DatabaseName=each):
                if pattern.matches(each, table["Name"]):
                    yield self._address(pattern.with_parts(each, table["Name"]), table)

    def create(self, wanted: TableAddress) -> None:
        """Add a table; see ``Catalog.create``."""
        self._write("create_table", wanted, {}, replace=True)

    def change(self, wanted: TableAddress, *, replace: bool) -> None:
        """Change a table; see ``Catalog.change``."""
        with self._mapped("change", wanted):
            found = self._get(parse_name(wanted.name))
        keys = [key["Name"] for key in found.get("PartitionKeys") or ()]
        # Glue takes the values of a partition only with the keys that the table has.
        has_other_keys = replace and keys != list(wanted.partition_columns)
        gone = list(self.partitions(wanted)) if has_other_keys else []
        taken = self._client.meta.service_model.shape_for("TableInput").members
        before = {key: found[key] for key in found if key in taken}
        try:
            self.change_partitions(wanted, gone, {})
            self._write("update_table", wanted, before, replace=replace)
        except StorageError as error:
            if gone:
                say_what_is_left(
                    error,
                    f"partitions of {wanted.name} may be removed, but the entry is not replaced, "
                    "so engines may not find its rows",
                    option("replace", True),
                )
            raise

    def _write(
        self, method: str, wanted: TableAddress, before: Mapping[str, Any], *, replace: bool
    ) -> None:
        given = write_table(wanted, before, replace=replace)
        with self._mapped("register", wanted):
            getattr(self._client, method)(**self._place(wanted)[0], TableInput=given)

    def partitions(self, address: TableAddress) -> Partitions:
        """Return the partitions; see ``Catalog.partitions``."""
        place, table = self._place(address)
        request = {**place, **table, "ExcludeColumnSchema": True}
        found = self._pages("get_partitions", "Partitions", **request)
        return {
            tuple(it["Values"]): (it.get("StorageDescriptor") or {}).get("Location") or ""
            for it in found
        }

    def change_partitions(
        self, wanted: TableAddress, gone: Sequence[tuple[str, ...]], new: Partitions
    ) -> None:
        """Remove partitions and add others; see ``Catalog.change_partitions``."""
        place, table = self._place(wanted)
        removed = [{"Values": list(values)} for values in gone]
        added = [
            {"Values": list(values), "StorageDescriptor": storage}
            for values, storage in write_partitions(wanted, new)
        ]
        with self._mapped("register partitions of", wanted):
            for page in _split(removed, 25):
                answer = self._client.batch_delete_partition(
                    **place, **table, PartitionsToDelete=page
                )
                self._ensure_done(wanted, answer, "EntityNotFoundException")
            for page in _split(added, _PAGE):
                answer = self._client.batch_create_partition(
                    **place, **table, PartitionInputList=page
                )
                self._ensure_done(wanted, answer, "AlreadyExistsException")

    def _ensure_done(self, wanted: TableAddress, answer: Mapping[str, Any], done: str) -> None:
        """Refuse an answer with errors of other codes than ``done``."""
        for failed in answer.get("Errors") or ():
            detail = failed.get("ErrorDetail") or {}
            if detail.get("ErrorCode") == done:
                continue
            raise StorageError(
                f"{self.title} refused partition {failed.get('PartitionValues')} of "
                f"{wanted.name}: {detail.get('ErrorMessage') or detail.get('ErrorCode')}"
            )

    def _place(self, address: TableAddress) -> tuple[dict[str, str], dict[str, str]]:
        database, table = _lowered(parse_name(address.name))
        return {**self._account, "DatabaseName": database}, {"TableName": table}

    @contextmanager
    def _mapped(self, verb: str, address: TableAddress) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._error(error, verb, address.name) from error

    def _pages(self, method: str, key: str, **request: Any) -> Iterator[Mapping[str, Any]]:
        pages = self._client.get_paginator(method).paginate(
            **{**self._account, **request}, PaginationConfig={"PageSize": _PAGE}
        )
        try:
            for page in pages:
                yield from page[key]
        except Exception as error:
            if service_code(error) == "EntityNotFoundException":
                return
            raise self._error(error, "list", request.get("DatabaseName", "")) from error

    def _error(self, error: Exception, verb: str, name: str) -> StorageError:
        return map_error(error, verb, name, self.title, access=_ACCESS)

    def _address(self, name: TableName, found: Mapping[str, Any]) -> TableAddress:
        try:
            return read_table(str(name), self.title, found)
        except MALFORMED as error:
            raise StorageError(f"{self.title} describes {name} in an unknown form") from error


def _lowered(name: TableName) -> list[str]:
    """Return the parts of a name: Glue keeps all names in lower case."""
    return [part.lower() for part in name.parts]


def _split(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))
