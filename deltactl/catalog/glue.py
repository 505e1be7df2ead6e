"""The Data Catalog of AWS Glue.

Source: AWS Glue Web API Reference, GetTable, GetTables, GetDatabases, Table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from deltactl.catalog.base import Operation, TableAddress, no_table
from deltactl.catalog.http import allows_http, ensure_safe
from deltactl.catalog.locations import read_table
from deltactl.catalog.names import TableName
from deltactl.catalog.settings import Found
from deltactl.errors import MALFORMED, StorageError, UsageError
from deltactl.storage.classify import service_code
from deltactl.storage.errors import map_error
from deltactl.storage.providers import S3, Access
from deltactl.storage.vended import Credentials

_PAGE: Final = 100
_ACCESS: Final = Access(
    sources=S3.access.sources,
    how_to_give="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    how_to_renew=S3.access.how_to_renew,
    to_read="glue:GetTable on the table, its database and the catalog",
    to_list="glue:GetTables and glue:GetDatabases on the catalog",
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


class GlueCatalog:
    """The catalog of an account in a region; see ``Catalog``."""

    def __init__(self, client: Any, account: str) -> None:
        """Send requests with a client of botocore; without ``account`` to the caller's catalog."""
        self._client = client
        self._account = {"CatalogId": account} if account else {}
        where = f"{account} in " if account else ""
        self._title = f"AWS Glue {where}{client.meta.region_name}"

    def resolve(self, name: TableName) -> TableAddress:
        """Return the table of a name; see ``Catalog.resolve``."""
        # Glue keeps all names in lower case.
        database, table = (part.lower() for part in name.parts)
        try:
            answer = self._client.get_table(**self._account, DatabaseName=database, Name=table)
        except Exception as error:
            if service_code(error) == "EntityNotFoundException":
                raise no_table(self, self._title, name) from None
            raise self._error(error, "look up", ".".join(name.parts)) from error
        return self._address(name, answer["Table"])

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

    def credentials(self, address: TableAddress, operation: Operation) -> Sequence[Credentials]:
        """Return none: Glue gives none."""
        return ()

    def _pages(self, method: str, key: str, **request: str) -> Iterator[Mapping[str, Any]]:
        pages = self._client.get_paginator(method).paginate(
            **self._account, **request, PaginationConfig={"PageSize": _PAGE}
        )
        try:
            for page in pages:
                yield from page[key]
        except Exception as error:
            if service_code(error) == "EntityNotFoundException":
                return
            raise self._error(error, "list", request.get("DatabaseName", "")) from error

    def _error(self, error: Exception, verb: str, name: str) -> StorageError:
        return map_error(error, verb, name, self._title, access=_ACCESS)

    def _address(self, name: TableName, found: Mapping[str, Any]) -> TableAddress:
        try:
            described = found.get("StorageDescriptor") or {}
            columns = [*(described.get("Columns") or ()), *(found.get("PartitionKeys") or ())]
            pairs = [(column["Name"], column.get("Type") or "") for column in columns]
            return read_table(str(name), self._title, found, pairs)
        except MALFORMED as error:
            raise StorageError(f"{self._title} describes {name} in an unknown form") from error
