"""A standalone cluster and a Spark Connect server on it, started and stopped by the tests.

Its two workers have addresses of their own: Spark repeats a slow task on another host only.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REPOSITORY: Final = Path(__file__).parent.parent.parent
_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SECONDS_TO_START: Final = 240
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""For short runs: neither a second compiler nor a collector beside the work pays.

The code of Spark and Delta fills the 48 MiB that one compiler gets: then it is compiled again.
"""


def worker_environ() -> dict[str, str]:
    """Variables for Spark's Java, so that its workers are this Python and find the tests."""
    return {
        "PYSPARK_PYTHON": sys.executable,
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "PYTHONPATH": os.pathsep.join([str(_REPOSITORY), os.environ.get("PYTHONPATH", "")]),
    }


@contextmanager
def standalone_cluster(scratch: Path) -> Iterator[str]:
    """Start a master and two workers of one core each; gives the master's address.

    Raises:
        RuntimeError: one did not start; the message ends with its log.
    """
    port = find_free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        started = stack.enter_context(
            _daemon(["spark-class", f"{deploy}.master.Master", *arguments], scratch / "master")
        )
        _wait_for(port, *started)
        for number in (1, 2):
            folder = scratch / f"worker-{number}"
            stack.enter_context(
                _daemon(
                    [
                        *("spark-class", f"{deploy}.worker.Worker", "--webui-port", "0"),
                        *("--host", f"127.0.0.{number}", "--cores", "1", "--memory", "1g"),
                        *("--work-dir", str(folder), master),
                    ],
                    folder,
                )
            )
        yield master


@contextmanager
def connect_server(scratch: Path, master: str, conf: Mapping[str, str]) -> Iterator[str]:
    """Start a server and give its address.

    Raises:
        RuntimeError: it did not start; the message ends with its log.
    """
    port = find_free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch} {JAVA_OPTIONS}",
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        **conf,
    }
    arguments = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    command = ["spark-submit", "--master", master, "--class", _SERVER, *arguments]
    with _daemon(command, scratch / "server", memory="1g") as started:
        _wait_for(port, *started)
        yield f"sc://127.0.0.1:{port}"


Started = tuple["subprocess.Popen[bytes]", Path]


@contextmanager
def _daemon(command: Sequence[str], folder: Path, memory: str = "256m") -> Iterator[Started]:
    """Run one of Spark's scripts while the context lasts; gives the process and its log."""
    import pyspark

    home = Path(pyspark.__file__).parent
    folder.mkdir(parents=True)
    log = folder / "log.txt"
    script, *arguments = command
    with log.open("wb") as output:
        process = subprocess.Popen(
            [home / "bin" / script, *arguments],
            cwd=folder,
            env={
                **worker_environ(),
                "SPARK_HOME": str(home),
                "SPARK_DAEMON_MEMORY": memory,
                "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process, log
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def find_free_port() -> int:
    """A port of the loopback that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"Spark did not start: {log.read_text(errors='replace')[-2000:]}")


@contextmanager
def connect_session(address: str) -> Iterator[SparkSession]:
    """A session of a server, beside classic ones of this process.

    The usual builder would turn the whole process over to Spark Connect.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session = ConnectSession.builder.remote(address).getOrCreate()
    try:
        yield cast("SparkSession", session)
    finally:
        session.stop()
