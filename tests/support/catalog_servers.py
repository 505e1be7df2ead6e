"""A real server of Unity Catalog on the loopback, for tests.

``make catalog-servers`` builds it, which takes 25 minutes; tests only use what was built.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import urllib3

from tests.support.object_servers import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    CACHE,
    ServerMissingError,
    find_tool,
    run_quietly,
    serve,
)

_VERSION: Final = "0.0.11"
_NAME: Final = f"olai-uc-server-{_VERSION}"
_API: Final = "/api/2.1/unity-catalog"


class UnityServer:
    """A running server, and the requests that prepare it."""

    def __init__(self, address: str, folder: Path) -> None:
        """``folder`` is where it accepts tables."""
        self.address, self.folder = address, folder
        self._pool = urllib3.PoolManager()

    def send(self, path: str, **body: Any) -> dict[str, Any]:
        """Send a POST request that must succeed."""
        answer = self._pool.request("POST", f"{self.address}{_API}{path}", json=body)
        assert answer.status < 300, answer.data
        return dict(answer.json())

    def delta(self, method: str, path: str, **body: Any) -> tuple[int, Any]:
        """Send a request of the Delta API; return the status and the JSON of the answer."""
        url = f"{self.address}{_API}/delta/v1{path}"
        answer = self._pool.request(method, url, json=body or None)
        return answer.status, json.loads(answer.data or b"null")

    def add_catalog(self, catalog: str, schema: str) -> None:
        self.send("/catalogs", name=catalog)
        self.send("/schemas", name=schema, catalog_name=catalog)

    def add_azurite(self, url: str) -> None:
        """Let the server sign for a container of Azurite."""
        key = {"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY}
        self.send("/credentials", name="azurite", purpose="STORAGE", azure_storage_key=key)
        self.send("/external-locations", name="azurite", url=url, credential_name="azurite")

    def add_folder(self, folder: Path) -> None:
        """Accept tables in a folder."""
        role = {"role_arn": "arn:aws:iam::123456789012:role/any"}
        self.send("/credentials", name="any", purpose="STORAGE", aws_iam_role=role)
        self.send("/external-locations", name="folder", url=folder.as_uri(), credential_name="any")

    def add_table(self, name: str, location: str, *columns: tuple[str, str]) -> None:
        """Create an external Delta table."""
        catalog, schema, table = name.split(".")
        described = [
            {
                "name": column,
                "type_name": kind.upper(),
                "type_text": kind,
                "type_json": f'"{kind}"',
                "position": position,
                "nullable": True,
            }
            for position, (column, kind) in enumerate(columns)
        ]
        self.send(
            "/tables",
            name=table,
            catalog_name=catalog,
            schema_name=schema,
            table_type="EXTERNAL",
            data_source_format="DELTA",
            columns=described,
            storage_location=location,
        )


@contextmanager
def unity_server(folder: Path, *, is_kept: bool = False) -> Iterator[UnityServer]:
    """Start the server with an empty catalog in memory.

    With ``is_kept`` the catalog is in the folder, for the next server there. One in memory is empty
    again after half an hour.

    Raises:
        ServerMissingError: it was not built.
    """
    program = CACHE / _NAME / "bin" / "uc-server"
    if not program.exists():
        raise ServerMissingError("no Unity Catalog server: make catalog-servers builds it")
    key = base64.b64encode(b"k" * 32).decode()
    database, config = folder / "unity.db", folder / "uc.yaml"
    (folder / "managed").mkdir(exist_ok=True)

    def command(port: int) -> list[str | Path]:
        config.write_text(
            f"host: 127.0.0.1\nport: {port}\n"
            f"backend: {{engine: sqlite, path: '{database if is_kept else ':memory:'}'}}\n"
            f"encryption: {{active: {{id: dev, key: {key}}}}}\n"
            f"local_storage: {{allowed-roots: [{folder}]}}\n"
            f"managed_storage_root: {(folder / 'managed').as_uri()}\n"
        )
        if is_kept and not database.exists():
            subprocess.run([program, "migrate", "-c", config], check=True, capture_output=True)
        return [program, "serve", "-c", config, "--no-ui"]

    with serve(command, folder / "log") as address:
        _wait_until_healthy(address)
        yield UnityServer(address, folder)


def _wait_until_healthy(address: str) -> None:
    for _ in range(100):
        if urllib3.request("GET", f"{address}/health").data.strip() == b"OK":
            return
        time.sleep(0.1)
    raise RuntimeError("the server of Unity Catalog is not healthy")


def main() -> None:
    """Build the server, at the lowest priority and on one core."""
    cargo = shutil.which("cargo")
    if cargo is None:
        sys.exit("there is no cargo to build the server of Unity Catalog")

    def install(home: Path) -> None:
        flags = ("--version", _VERSION, "--features", "bin", "--locked", "--root", str(home))
        os.nice(19)
        run_quietly([cargo, "install", "olai-uc-server", *flags], CARGO_BUILD_JOBS="1")

    find_tool(_NAME, install)


if __name__ == "__main__":
    main()
