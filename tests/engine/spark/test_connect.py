"""A Spark Connect server that does not answer: PySpark alone would try for ten minutes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltactl.engine.spark import session
from deltactl.errors import EngineUnavailableError
from tests.support.table_builder import Column, TableBuilder


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address_of(server: socket.socket) -> str:
    return f"sc://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("is_open", [True, False])
def test_no_answer_is_an_error_within_the_limit(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    monkeypatch.setattr(session, "_SECONDS_TO_CONNECT", 1)
    address = address_of(silent)
    if not is_open:
        silent.close()
    with pytest.raises(EngineUnavailableError, match=r"answers at 127\.0\.0\.1:\d+: ") as raised:
        session._ensure_answers(f"{address}/;token=hush")
    assert "hush" not in f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize("address", ["sc://", "sc://h/path", "sc://h:x", "sc://h/;token"])
def test_an_address_that_is_not_valid(address: str) -> None:
    with pytest.raises(EngineUnavailableError, match="is not valid"):
        session._ensure_answers(address)


@pytest.mark.parametrize(
    ("number", "tables"),
    [(signal.SIGTERM, ["t"]), (signal.SIGINT, ["t"]), (signal.SIGINT, ["t", "u", "--jobs", "2"])],
)
def test_the_first_signal_ends_the_run(
    silent: socket.socket, tmp_path: Path, number: signal.Signals, tables: list[str]
) -> None:
    for name in ("t", "u"):
        builder = TableBuilder(tmp_path / name, [Column("id")])
        for row in range(3):
            builder.append([{"id": row}])
    words = ["optimize", *tables, "--spark-remote", address_of(silent)]
    process = subprocess.Popen(
        [sys.executable, "-m", "deltactl", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    silent.settimeout(60)
    connection, _ = silent.accept()
    with connection:
        os.kill(process.pid, number)
        _, err = process.communicate(timeout=120)  # the limit of the connection is another error
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
