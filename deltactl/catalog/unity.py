"""Unity Catalog: of Databricks, and other servers with the same API.

Source: Unity Catalog REST API 2.1 (tables, schemas, temporary table credentials), and the Delta
REST API of Unity Catalog (config, credentials).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from deltactl.catalog.base import Column, Operation, Partitions, TableAddress
from deltactl.catalog.http import Answer, HttpClient, allows_http
from deltactl.catalog.locations import choose_location, is_delta
from deltactl.catalog.managed import ManagedTable
from deltactl.catalog.names import TableName, parse_name
from deltactl.catalog.unity_auth import choose_headers, read_profile
from deltactl.catalog.unity_commits import UnityCommits
from deltactl.errors import (
    MALFORMED,
    AccessDeniedError,
    StorageError,
    UnsupportedFeatureError,
    UsageError,
)
from deltactl.storage.vended import Credentials

_API: Final = "/api/2.1/unity-catalog"
_PAGE_TABLES: Final = 100
_NEVER_ISSUED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED)
_OPTIONS: Final[Mapping[str, str]] = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "azure.sas-token": "sas_token",
    "gcs.oauth-token": "token",
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "sas_token": "sas_token",
    "oauth_token": "token",
}
"""The storage option of each key of credentials, in both APIs."""
_TYPE_NAMES: Final = {"BIGINT": "LONG", "SMALLINT": "SHORT", "TINYINT": "BYTE"}
_KINDS_OF_CREDENTIALS: Final = (
    "aws_temp_credentials", "r2_temp_credentials", "azure_user_delegation_sas", "gcp_oauth_token",
)  # fmt: skip

read_files = read_profile


def connect(place: str, settings: Mapping[str, str]) -> UnityCatalog:
    """Return the catalog of some settings; sends no request.

    Raises:
        UsageError: there is no host.
        SafetyError: the host would get a token without encryption.
    """
    host = settings.get("host")
    if host is None:
        raise UsageError(
            "the address of Unity Catalog is not set",
            hint="Set DATABRICKS_HOST, a profile in ~/.databrickscfg, or host in the section "
            "[catalog.uc] of deltactl.toml.",
        )
    address = (host if "://" in host else f"https://{host}").rstrip("/").removesuffix(_API)
    allow_http = allows_http(settings)
    headers = choose_headers(address, settings, allow_http=allow_http)
    return UnityCatalog(HttpClient(address + _API, headers, allow_http=allow_http), address)


class UnityCatalog:
    """One server of Unity Catalog; see ``Catalog``."""

    def __init__(self, http: HttpClient, address: str) -> None:
        """Send requests with ``http``; ``address`` is shown."""
        self._http, self.title = http, f"Unity Catalog at {address}"
        self._delta_api: dict[str, bool] = {}

    def find(self, name: TableName) -> TableAddress | None:
        """Return the table of a name; see ``Catalog.find``."""
        answer = self._http.get(f"/tables/{'.'.join(name.parts)}")
        if answer.status == HTTPStatus.NOT_FOUND and answer.has_error_body:
            return None
        catalog, schema, _ = name.parts
        self._ensure_ok(
            answer,
            f"find {name}",
            f"USE CATALOG on {catalog}, USE SCHEMA on {catalog}.{schema}, and SELECT or BROWSE on "
            "the table",
        )
        return self._address(name, answer.body)

    def has_database(self, name: TableName) -> bool:
        """Return whether there is a schema; see ``Catalog.has_database``."""
        catalog, schema, _ = name.parts
        answer = self._http.get(f"/schemas/{catalog}.{schema}")
        return not (answer.status == HTTPStatus.NOT_FOUND and answer.has_error_body)

    def list(self, pattern: TableName) -> Iterator[TableAddress]:
        """Yield the tables that match; see ``Catalog.list``."""
        catalog, schema, _ = pattern.parts
        if "*" in catalog:
            raise UsageError(
                f"{pattern}: the catalog cannot be a pattern", hint="Give one catalog by its name."
            )
        schemas = self._schemas(pattern) if "*" in schema else [schema]
        for each in schemas:
            for name, found in self._pages("tables", catalog_name=catalog, schema_name=each):
                if pattern.matches(catalog, each, name):
                    yield self._address(pattern.with_parts(catalog, each, name), found)

    def credentials(self, address: TableAddress, operation: Operation) -> Sequence[Credentials]:
        """Return temporary credentials for a table; see ``Catalog.credentials``."""
        catalog, schema, table = address.name.partition("://")[2].split(".")
        if self._has_delta_api(catalog):
            path = f"/delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}/credentials"
            answer = self._http.get(path, operation=operation)
        else:
            body = {"table_id": address.table_id, "operation": operation}
            answer = self._http.post("/temporary-table-credentials", body)
        if answer.status in _NEVER_ISSUED:
            return ()
        privilege = "SELECT" if operation == "READ" else "SELECT and MODIFY"
        self._ensure_ok(
            answer,
            f"get credentials to {'read' if operation == 'READ' else 'write'} {address.name}",
            f"{privilege} on the table, and EXTERNAL USE SCHEMA on {catalog}.{schema}",
        )
        try:
            return list(_read_credentials(answer, address.location))
        except MALFORMED as error:
            raise self._not_understood(answer) from error

    def managed(self, address: TableAddress) -> ManagedTable | None:
        """Return the commits of a table; see ``Catalog.managed``."""
        parts = parse_name(address.name).parts
        if not self._has_delta_api(parts[0]):
            return None
        return UnityCommits(self._http, self.title, parts, self._ensure_ok)

    def create(self, wanted: TableAddress) -> None:
        """Add a table; see ``Catalog.create``."""
        catalog, schema, table = parse_name(wanted.name).parts
        body = {
            "name": table,
            "catalog_name": catalog,
            "schema_name": schema,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "storage_location": wanted.location,
            "comment": wanted.comment,
            "columns": [
                _describe_column(column, position) for position, column in enumerate(wanted.columns)
            ],
        }
        self._ensure_ok(
            self._http.post("/tables", body),
            f"register {wanted.name}",
            f"CREATE TABLE on {catalog}.{schema}, and CREATE EXTERNAL TABLE on the location",
        )

    def change(self, wanted: TableAddress, *, replace: bool) -> None:
        """Refuse: the API has no request for it."""
        name = wanted.name.partition("://")[2]
        raise UnsupportedFeatureError(
            f"{self.title} has no request that changes a table",
            hint=f"Run `MSCK REPAIR TABLE {name} SYNC METADATA` in Databricks, or drop the table "
            "there and register it again.",
        )

    def partitions(self, address: TableAddress) -> Partitions:
        """Return none: the log has them."""
        return {}

    def change_partitions(
        self, wanted: TableAddress, gone: Sequence[tuple[str, ...]], new: Partitions
    ) -> None:
        """Do nothing: the log has the partitions."""

    def _has_delta_api(self, catalog: str) -> bool:
        """Return whether the server has the Delta REST API for a catalog; ask it once."""
        if catalog not in self._delta_api:
            query = {"catalog": catalog, "protocol-versions": "1.0"}
            self._delta_api[catalog] = self._http.get("/delta/v1/config", **query).is_ok
        return self._delta_api[catalog]

    def _schemas(self, pattern: TableName) -> Sequence[str]:
        catalog = pattern.parts[0]
        names = [name for name, _ in self._pages("schemas", catalog_name=catalog)]
        return [name for name in names if pattern.matches(catalog, name)]

    def _pages(self, kind: str, **query: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the names and objects of a listing."""
        token: str | None = None
        while True:
            answer = self._http.get(f"/{kind}", **query, max_results=_PAGE_TABLES, page_token=token)
            if answer.status == HTTPStatus.NOT_FOUND and answer.has_error_body:
                return
            place = ".".join(query.values())
            self._ensure_ok(answer, f"list {place}", f"USE CATALOG and USE SCHEMA on {place}")
            try:
                found = [(str(each["name"]), each) for each in answer.body.get(kind) or ()]
            except MALFORMED as error:
                raise self._not_understood(answer) from error
            yield from found
            before, token = token, answer.body.get("next_page_token")
            if not token:
                return
            if token == before:  # it would never end
                raise self._not_understood(answer)

    def _address(self, name: TableName, found: Mapping[str, Any]) -> TableAddress:
        try:
            table_type = str(found.get("table_type") or "")
            # Pipelines write the files of these, and nobody else may.
            is_result = table_type.upper().endswith(("VIEW", "STREAMING_TABLE"))
            table_format = str(found.get("data_source_format") or "").upper()
            table_format = table_type.upper() if is_result else table_format
            return TableAddress(
                str(name),
                self.title,
                found.get("table_id"),
                table_type,
                "DELTA" if is_delta(table_format) else table_format,
                choose_location(found.get("storage_location")),
                found.get("owner"),
                tuple(
                    Column(
                        column["name"],
                        str(column.get("type_text") or column.get("type_name") or ""),
                        str(column.get("comment") or ""),
                    )
                    for column in found.get("columns") or ()
                ),
                comment=str(found.get("comment") or ""),
                properties=dict(found.get("properties") or {}),
            )
        except MALFORMED as error:
            raise StorageError(f"{self.title} describes {name} in an unknown form") from error

    def _ensure_ok(self, answer: Answer, what: str, privileges: str) -> None:
        if answer.is_ok and isinstance(answer.body, dict):
            return
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise AccessDeniedError(
                f"cannot {what}: {self.title} refused the token: {answer.message}",
                hint="Set DATABRICKS_TOKEN to a new token (the present one may have expired), or "
                "DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET; on Spark, set them on the "
                "executors too.",
            )
        if answer.status == HTTPStatus.FORBIDDEN:
            raise AccessDeniedError(
                f"cannot {what}: {self.title} does not permit it: {answer.message}",
                hint=f"Ask an owner for {privileges}.",
            )
        raise self._not_understood(answer)

    def _not_understood(self, answer: Answer) -> StorageError:
        return StorageError(
            f"{self.title} answered HTTP {answer.status} in an unknown form: {answer.message}",
            hint="Check that the host is the address of a workspace, or of a Unity Catalog server.",
        )


def _describe_column(column: Column, position: int) -> dict[str, Any]:
    word = re.match(r"\w*", column.type)
    kind = word[0].upper() if word else ""
    return {
        "name": column.name,
        "type_text": column.type,
        "type_json": column.delta_type,
        "type_name": _TYPE_NAMES.get(kind, kind),
        "position": position,
        "nullable": column.nullable,
        "comment": column.comment,
    }


def _read_credentials(answer: Answer, location: str) -> Iterator[Credentials]:
    body = answer.body
    if "storage-credentials" in body:
        for each in body["storage-credentials"]:
            yield from _one(each["prefix"], each["config"], each.get("expiration-time-ms"), answer)
        return
    none: Mapping[str, Any] = {}
    found = next((body[kind] for kind in _KINDS_OF_CREDENTIALS if body.get(kind)), none)
    yield from _one(body.get("url") or location, found, body.get("expiration_time"), answer)


def _one(
    prefix: str, found: Mapping[str, Any], ends_ms: str | int | None, answer: Answer
) -> Iterator[Credentials]:
    """Yield the credentials of one prefix, if there are any.

    Servers write 64-bit numbers as strings, too.
    """
    options = {_OPTIONS[key]: str(found[key]) for key in found if key in _OPTIONS and found[key]}
    if options:
        lifetime = None if not ends_ms else int(ends_ms) / 1000 - answer.server_seconds
        yield Credentials.of(prefix, options, lifetime)
