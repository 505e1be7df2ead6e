"""A small Unity Catalog for what no server here does: refusals, busy answers, credentials for S3.

The answers have the keys of the models of ``unitycatalog-client`` 0.7.0. 64-bit numbers may be
strings, as servers write them; these models refuse that.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.object_servers import S3_ENVIRON

API = "/api/2.1/unity-catalog"
Json = dict[str, Any]
TOKEN = "dapi-planted-0123456789"


@dataclass
class UnityStub:
    """Tables by their names, and what the server does besides.

    ``faults`` are statuses to answer before all else, each once. ``vend`` gives the credentials
    for an operation, as in the answer of the server; ``delta_vend`` those of the Delta API. It
    has all schemas but those in ``gone``.
    """

    address: str
    tables: dict[str, Json] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    vend: Callable[[str], Json] = lambda operation: {}
    delta_vend: Callable[[str], list[Json]] | None = None
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    forbidden: set[str] = field(default_factory=set)
    page: int = 100
    listing: Json | None = None
    gone: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    bodies: list[Json] = field(default_factory=list)

    def add(self, name: str, location: str, **fields: Any) -> Json:
        """Add a table by its full name."""
        catalog, schema, table = name.split(".")
        found = {
            "name": table,
            "catalog_name": catalog,
            "schema_name": schema,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": [],
            "storage_location": location,
            "owner": "alice",
            "properties": {},
            "created_at": 1_700_000_000_000,
            "updated_at": 1_700_000_000_000,
            "table_id": f"id-of-{name}",
            **fields,
        }
        self.tables[name] = found
        return found

    def answer(
        self, method: str, path: str, query: Mapping[str, str], body: Json
    ) -> tuple[int, Json]:
        """Return status and body for an authorized request."""
        if path == "/temporary-table-credentials":
            self.bodies.append(body)
            if body["operation"] in self.forbidden:
                return 403, _error("PERMISSION_DENIED", "no privilege for this")
            url = next(t for t in self.tables.values() if t["table_id"] == body["table_id"])
            return 200, {"url": url["storage_location"], **self.vend(body["operation"])}
        if path == "/delta/v1/config":
            if self.delta_vend is None:
                return 404, {}
            return 200, {"endpoints": [], "protocol-version": "1.0"}
        if path.startswith("/delta/v1/") and self.delta_vend is not None:
            return 200, {"storage-credentials": self.delta_vend(query["operation"])}
        if path.startswith("/schemas"):
            return self._schemas(path, query)
        if path == "/tables":
            return 200, self._create(body) if method == "POST" else self._list(query)
        name = path.removeprefix("/tables/")
        if name not in self.tables:
            return 404, _error("TABLE_DOES_NOT_EXIST", f"Table '{name}' does not exist.")
        return 200, self.tables[name]

    def _schemas(self, path: str, query: Mapping[str, str]) -> tuple[int, Json]:
        if path == "/schemas":
            names = {
                name.split(".")[1]
                for name in self.tables
                if name.split(".")[0] == query["catalog_name"]
            }
            return 200, {"schemas": [{"name": name} for name in sorted(names)]}
        name = path.removeprefix("/schemas/")
        missing = _error("SCHEMA_DOES_NOT_EXIST", f"Schema '{name}' does not exist.")
        return (404, missing) if name in self.gone else (200, {"full_name": name})

    def _create(self, body: Json) -> Json:
        name = f"{body['catalog_name']}.{body['schema_name']}.{body['name']}"
        self.tables[name] = self.add(name, "") | body
        return self.tables[name]

    def _list(self, query: Mapping[str, str]) -> Json:
        if self.listing is not None:
            return self.listing
        prefix = f"{query['catalog_name']}.{query['schema_name']}."
        names = sorted(name for name in self.tables if name.startswith(prefix))
        first, most = int(query.get("page_token", 0)), min(self.page, int(query["max_results"]))
        more = {"next_page_token": str(first + most)} if first + most < len(names) else {}
        return {"tables": [self.tables[name] for name in names[first : first + most]], **more}


def _error(code: str, message: str) -> Json:
    return {"error_code": code, "message": message, "details": []}


def seconds_from_now(seconds: float) -> int:
    """Return a time as the catalog writes it: milliseconds since 1970."""
    return int((time.time() + seconds) * 1000)


def vend_keys_of_minio(operation: str) -> Json:
    """Return the keys of MinIO, as Unity Catalog gives keys for S3."""
    return {
        "aws_temp_credentials": {
            "access_key_id": S3_ENVIRON["AWS_ACCESS_KEY_ID"],
            "secret_access_key": S3_ENVIRON["AWS_SECRET_ACCESS_KEY"],
        },
        "expiration_time": str(seconds_from_now(3600)),
    }


@contextmanager
def unity_stub(**fields: Any) -> Iterator[UnityStub]:
    """Serve a catalog on the loopback until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            stub.requests.append(f"{self.command} {parts.path.removeprefix(API)}")
            status, body = self._decide(parts.path, parse_qs(parts.query), raw)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _decide(self, path: str, query: dict[str, list[str]], raw: bytes) -> tuple[int, Json]:
            if stub.faults:
                return stub.faults.pop(0), _error("FAULT", "as the test asked")
            if path == "/oidc/v1/token":
                ok = self.headers["Authorization"] == "Basic bWFjaGluZTpwbGFudGVkLXNlY3JldA=="
                return (200, {"access_token": TOKEN, "expires_in": 3600}) if ok else (401, {})
            given = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            if stub.tokens and given not in stub.tokens:
                return 401, _error("UNAUTHENTICATED", f"Invalid access token {given}")
            body = json.loads(raw) if raw else {}
            flat = {key: values[0] for key, values in query.items()}
            return stub.answer(self.command, path.removeprefix(API), flat, body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub = UnityStub(f"http://127.0.0.1:{server.server_port}", **fields)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
