"""Servers of object stores on the loopback, started and stopped by the tests.

``python -m tests.support.object_servers`` installs them all ahead of the tests, and prints what
that cost. They are kept outside the tree, for the next run.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_MOTO: Final = "moto[server]==5.2.5"
_MINIO: Final = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
_ACTIONLINT: Final = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
_FAKE_GCS: Final = "github.com/fsouza/fake-gcs-server@v1.56.1"
_AZURITE: Final = "azurite@3.35.0"
_SECONDS_TO_START: Final = 120
# Looked up once, before tests are put into a world without such variables.
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deltactl-tests"
_HOME: Final = str(Path.home())
S3_ENVIRON: Final = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "planted-secret-0123456789",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
}


def s3_options(endpoint: str, **further: str) -> dict[str, str]:
    """Storage options for an S3 server: nothing is left to the environment."""
    return {
        "key": S3_ENVIRON["AWS_ACCESS_KEY_ID"],
        "secret": S3_ENVIRON["AWS_SECRET_ACCESS_KEY"],
        "client_kwargs": '{"region_name": "us-east-1"}',
        "endpoint_url": endpoint,
        **further,
    }


def delta_rs_options(endpoint: str, **further: str) -> dict[str, str]:
    """The same for delta-rs."""
    return {
        **S3_ENVIRON,
        "AWS_ALLOW_HTTP": "true",
        "aws_conditional_put": "etag",
        "AWS_ENDPOINT_URL": endpoint,
        **further,
    }


# The account that every Azurite has; its key is public.
AZURE_ACCOUNT: Final = "devstoreaccount1"
AZURE_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class ServerMissingError(Exception):
    """A server cannot be had here; the message is the reason to skip its tests."""


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A running server: its kind, the address of an empty bucket, and how to open it."""

    kind: str
    endpoint: str
    bucket: str
    options: Mapping[str, str] = field(repr=False)

    def at(self, endpoint: str) -> ObjectServer:
        """The same, by way of something that stands before it."""
        options = {k: v.replace(self.endpoint, endpoint) for k, v in self.options.items()}
        return ObjectServer(self.kind, endpoint, self.bucket, options)


def find_tool(name: str, install: Callable[[Path], None]) -> Path:
    """The folder of an installed server; ``install(folder)`` fills it the first time."""
    home = CACHE / name
    ready = home / "ready"
    if not ready.exists():
        print(f"installing {name} for the tests into {home}", file=sys.stderr, flush=True)
        before = time.monotonic()
        home.mkdir(parents=True, exist_ok=True)
        install(home)
        seconds = time.monotonic() - before
        size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        ready.write_text(f"{seconds:.0f} s, {size >> 20} MiB\n")
        print(f"installed {name}: {seconds:.0f} s, {size >> 20} MiB", file=sys.stderr, flush=True)
    return home


def run_quietly(command: Sequence[str | Path], **environ: str) -> None:
    """Run a program that must succeed; it prints nothing."""
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "HOME": _HOME, **environ}
    )


def ensure_moto() -> Path:
    """The Python of an environment with moto: its botocore is another than s3fs may have.

    Raises ``CalledProcessError`` where no package index can be reached.
    """

    return ensure_python("moto-5.2.5", _MOTO)


def ensure_python(name: str, requirement: str) -> Path:
    """The Python of an environment of its own with a package.

    Raises ``CalledProcessError`` where no package index can be reached.
    """

    def install(home: Path) -> None:
        venv.create(home, with_pip=True, clear=True)
        pip: list[str | Path] = [home / "bin/python", "-m", "pip", "install", "--quiet"]
        run_quietly([*pip, "--disable-pip-version-check", requirement])

    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return find_tool(f"{name}-{python}", install) / "bin/python"


def _ensure_go(package: str) -> Path:
    """The program that a Go package builds."""
    name = package.partition("@")[0].rpartition("/")[2]
    version = package.partition("@")[2]
    go = shutil.which("go")
    if go is None:
        raise ServerMissingError(f"object stores: no Go toolchain to build {name}")
    try:
        home = find_tool(
            f"{name}-{version}", lambda home: run_quietly([go, "install", package], GOBIN=str(home))
        )
    except subprocess.CalledProcessError:
        raise ServerMissingError(f"object stores: no Go module proxy that has {name}") from None
    return home / name


def _ensure_azurite() -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise ServerMissingError("object stores: no npm to install azurite")
    install: list[str | Path] = [
        npm, "install", "--silent", "--no-audit", "--no-fund", _AZURITE, "--prefix",
    ]  # fmt: skip
    try:
        home = find_tool(_AZURITE.replace("@", "-"), lambda home: run_quietly([*install, home]))
    except subprocess.CalledProcessError:
        raise ServerMissingError("object stores: no npm registry that has azurite") from None
    return home / "node_modules/.bin/azurite-blob"


def ensure_actionlint() -> Path:
    """The program that checks workflows of GitHub: no server, and kept in the same way.

    Raises ``ServerMissingError`` where it cannot be built.
    """
    return _ensure_go(_ACTIONLINT)


def ensure_delta_rs_with_dynamodb() -> Path:
    """A folder for ``PYTHONPATH`` with the last delta-rs that speaks to DynamoDB.

    Its dependencies are those of the delta-rs that is installed. Kept, and raises, as
    ``ensure_moto``.
    """

    def install(home: Path) -> None:
        pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        run_quietly([*pip, "--disable-pip-version-check", "--target", home, "deltalake==1.4.2"])

    return find_tool("deltalake-1.4.2", install)


@contextmanager
def s3_server(python: Path, log: Path) -> Iterator[str]:
    """Start moto's S3; gives its endpoint."""
    with serve(lambda port: [python, "-m", "moto.server", *_listen("-H", "-p", port)], log) as at:
        yield at


@contextmanager
def moto(folder: Path) -> Iterator[ObjectServer]:
    """S3 as moto speaks it."""
    try:
        python = ensure_moto()
    except subprocess.CalledProcessError:
        reason = "no package index that has moto, the S3 server of the tests"
        raise ServerMissingError(reason) from None
    with s3_server(python, folder / "log") as endpoint:
        yield _s3("moto", endpoint)


@contextmanager
def minio(folder: Path) -> Iterator[ObjectServer]:
    """S3 as MinIO speaks it."""
    program = _ensure_go(_MINIO)
    users = {
        "MINIO_ROOT_USER": S3_ENVIRON["AWS_ACCESS_KEY_ID"],
        "MINIO_ROOT_PASSWORD": S3_ENVIRON["AWS_SECRET_ACCESS_KEY"],
        "MINIO_UPDATE": "off",
    }

    def command(port: int) -> list[str | Path]:
        address = f"127.0.0.1:{port}"
        return [program, "server", folder / "data", "--address", address, "--quiet"]

    with serve(command, folder / "log", **users) as endpoint:
        yield _s3("minio", endpoint)


@contextmanager
def fake_gcs(folder: Path) -> Iterator[ObjectServer]:
    """Google Cloud Storage as fake-gcs-server speaks it."""
    program = _ensure_go(_FAKE_GCS)

    def command(port: int) -> list[str | Path]:
        public = f"127.0.0.1:{port}"
        flags = ["-scheme", "http", "-backend", "memory", "-public-host", public]
        return [program, *_listen("-host", "-port", port), *flags]

    with serve(command, folder / "log") as endpoint:
        options = {"token": "anon", "endpoint_url": endpoint, "project": "tests"}
        server = ObjectServer("fake-gcs", endpoint, "gs://lake", options)
        _service(server).call("POST", "b", project="tests", json={"name": "lake"})
        yield server


@contextmanager
def azurite(folder: Path) -> Iterator[ObjectServer]:
    """Azure Blob Storage as Azurite speaks it."""
    program = _ensure_azurite()

    def command(port: int) -> list[str | Path]:
        flags: list[str | Path] = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        where = _listen("--blobHost", "--blobPort", port)
        return [program, *where, *flags, "--location", folder]

    with serve(command, folder / "log") as endpoint:
        parts = {
            "DefaultEndpointsProtocol": "http",
            "AccountName": AZURE_ACCOUNT,
            "AccountKey": AZURE_KEY,
            "BlobEndpoint": f"{endpoint}/{AZURE_ACCOUNT}",
        }
        text = "".join(f"{key}={value};" for key, value in parts.items())
        server = ObjectServer("azurite", endpoint, "az://lake", {"connection_string": text})
        _service(server).mkdir("lake")
        yield server


SERVERS: Final[Mapping[str, Callable[[Path], AbstractContextManager[ObjectServer]]]] = {
    "moto": moto,
    "minio": minio,
    "fake-gcs": fake_gcs,
    "azurite": azurite,
}


def _s3(kind: str, endpoint: str) -> ObjectServer:
    server = ObjectServer(kind, endpoint, "s3://lake", s3_options(endpoint))
    _service(server).call_s3("create_bucket", Bucket="lake")
    return server


def _service(server: ObjectServer) -> Any:
    from deltactl.storage.objects.store import ObjectStore
    from deltactl.storage.open import open_store

    store = open_store(server.bucket, server.options)
    assert isinstance(store, ObjectStore)
    return store._service.file_system


def _listen(host_flag: str, port_flag: str, port: int) -> list[str]:
    return [host_flag, "127.0.0.1", port_flag, str(port)]


@contextmanager
def serve(
    command: Callable[[int], Sequence[str | Path]], log: Path, **environ: str
) -> Iterator[str]:
    """Run ``command(port)`` until the context ends; gives its endpoint once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(port), stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environ}
        )
        try:
            _wait_for(port, process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the server did not start: {said}") from None
            time.sleep(0.1)


def main() -> None:
    """Install every server that can be had; say what cannot."""
    for ensure in (
        ensure_moto,
        lambda: _ensure_go(_MINIO),
        lambda: _ensure_go(_FAKE_GCS),
        _ensure_azurite,
        ensure_actionlint,
    ):
        try:
            ensure()
        except (ServerMissingError, subprocess.CalledProcessError) as error:
            print(f"{error}: the tests that need it are skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
