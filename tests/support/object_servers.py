"""Servers of object stores on the loopback, started and stopped by the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MOTO: Final = "moto[server]==5.2.5"
_SECONDS_TO_START: Final = 60
# Looked up once, before tests are put into a world with a home of its own.
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
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


def ensure_moto() -> Path:
    """The Python of an environment with moto: its botocore is another than s3fs may have.

    Kept outside the tree for the next run. Raises ``CalledProcessError`` where no package index
    can be reached.
    """
    home = (
        _CACHE / "deltactl-tests" / f"moto-5.2.5-py{sys.version_info.major}{sys.version_info.minor}"
    )
    python = home / "bin/python"
    ready = home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            _MOTO,
        ]
        subprocess.run(install, check=True, capture_output=True)
        ready.touch()
    return python


def ensure_delta_rs_with_dynamodb() -> Path:
    """A folder for ``PYTHONPATH`` with the last delta-rs that speaks to DynamoDB.

    Its dependencies are those of the delta-rs that is installed. Kept, and raises, as
    ``ensure_moto``.
    """
    home = _CACHE / "deltactl-tests" / "deltalake-1.4.2"
    ready = home / "ready"
    if not ready.exists():
        shutil.rmtree(home, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        target = ["--disable-pip-version-check", "--target", str(home), "deltalake==1.4.2"]
        subprocess.run([*install, *target], check=True, capture_output=True)
        ready.touch()
    return home


@contextmanager
def s3_server(python: Path, log: Path) -> Iterator[str]:
    """Start moto's S3; gives its endpoint."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
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
                raise RuntimeError(f"moto did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.1)
