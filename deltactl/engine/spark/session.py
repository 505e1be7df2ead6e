"""Start a Spark session for the command line, without log messages; stop it at the end."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Final

from deltactl.engine.base import CancelToken
from deltactl.engine.local import count_cores
from deltactl.engine.spark.facts import (
    find_defaults,
    find_missing,
    is_submitted,
    load_spark_facts,
    remedy_for,
)
from deltactl.errors import EngineUnavailableError, InterruptedRunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log: Final = logging.getLogger(__name__)
_TRIES: Final = 4
_LOCAL: Final = re.compile(r"local(\[(\d+|\*)\])?")
_SECONDS_TO_END: Final = 20
_SECONDS_TO_CONNECT: Final = 30

_QUIET: Final = {"spark.app.name": "deltactl", "spark.ui.showConsoleProgress": "false"}
_REDACTED: Final = "spark.redaction.regex"
# Spark's own pattern, and keys of Azure: Spark would show them in its UI and in event logs.
_SECRETS: Final = "(?i)secret|password|token|access[.]?key|account[.]?key|[.]sas[.]"
# Java does little work here. So a short start is more important than compiled queries.
_EMBEDDED: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Workers use as many Arrow threads as this process; Spark would set one.
    "spark.executorEnv.OMP_NUM_THREADS": str(count_cores()),
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings of Spark that a user gave. ``conf`` is never shown: it may contain secrets."""

    master: str | None = None
    remote: str | None = field(default=None, repr=False)  # may contain a token
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    verbose: int = 0
    max_concurrent: int | None = None


@contextmanager
def spark_session(
    settings: SparkSettings, environ: Mapping[str, str], cancel: CancelToken | None = None
) -> Iterator[SparkSession]:
    """Yield the session of this process; if there is none, a new session that ends with the block.

    Raises:
        InterruptedRunError: ``cancel`` was set before a Spark Connect server answered.
        EngineUnavailableError: the message says what is missing and what to install.
    """
    remote = settings.remote or (None if settings.master else environ.get("SPARK_REMOTE"))
    missing = find_missing(environ, remote)
    if missing is not None:
        raise EngineUnavailableError(f"Spark cannot run: {missing}", hint=remedy_for(missing))
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    session = _start(settings, remote, environ, cancel)
    try:
        yield session
    finally:
        stop_session(session)


def choose_master(settings: SparkSettings, environ: Mapping[str, str]) -> str | None:
    """Return the master to request; ``None`` if spark-submit or a configuration file sets it.

    On one machine, Spark tries a task only once, unless the master contains the number of attempts.
    """
    master = settings.master or environ.get("spark.master")
    if master is None:
        if is_submitted(environ) or load_spark_facts(environ).cluster is not None:
            return None
        master = f"local[{settings.max_concurrent or '*'}]"
    local = _LOCAL.fullmatch(master)
    return f"local[{local[2] or '1'},{_TRIES}]" if local else master


def build_conf(
    settings: SparkSettings, master: str | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the configuration of a new classic session. Settings of the user have precedence."""
    embedded = master is not None and master.startswith("local[")
    conf = {**_QUIET, **(_EMBEDDED if embedded else {}), **settings.conf}
    if not is_submitted(environ) and find_defaults(environ, _REDACTED) is None:
        conf.setdefault(_REDACTED, _SECRETS)
    if master is not None:
        conf["spark.master"] = master
    return conf


def _start(
    settings: SparkSettings,
    remote: str | None,
    environ: Mapping[str, str],
    cancel: CancelToken | None,
) -> SparkSession:
    from pyspark.sql import SparkSession

    _silence_python_side()
    builder: Any = SparkSession.builder
    if remote is not None:
        master, conf = remote, dict(settings.conf)
        builder = builder.remote(remote)
        if remote.startswith("sc://"):
            _ensure_answers(remote, cancel)
    else:
        master = choose_master(settings, environ) or ""
        conf = build_conf(settings, master or None, environ)
        os.environ.pop("SPARK_REMOTE", None)  # PySpark would use its server, whatever the master
    for key, value in conf.items():
        builder = builder.config(key, value)
    # Without this, workers start `python3`, which may be another Python.
    if master.startswith("local-cluster"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    elif master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryFile() as log:
        try:
            with (
                _keeping_sigint() if remote is None else _ending_on_signals(),
                _output_to(None if settings.verbose else log),
            ):
                session: SparkSession = builder.getOrCreate()
            if remote is None:
                _silence_context(session.sparkContext, settings.verbose)
            else:
                _tell_refused(session, settings.conf)
        except InterruptedRunError:
            raise
        except Exception as error:
            raise _explain_start(error, log, remote, master) from error
    return session


def _ensure_answers(remote: str, cancel: CancelToken | None = None) -> None:
    """Connect to a Spark Connect server once: PySpark would try for ten minutes.

    Raises:
        EngineUnavailableError: the address is not valid, or no server of its protocol answers.
    """
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        builder = DefaultChannelBuilder(remote)
        channel = builder.toChannel()
    except (PySparkException, ValueError) as error:
        raise EngineUnavailableError(
            "the address of the Spark Connect server is not valid",  # it may contain a token
            hint="Use the form sc://HOST:PORT/;use_ssl=true;token=TOKEN.",
        ) from error
    ready = grpc.channel_ready_future(channel)
    try:
        # Short waits: the token may be set meanwhile, and a thread of gRPC may get the signal.
        for _ in range(_SECONDS_TO_CONNECT * 5):
            if cancel is not None and cancel.is_set():
                raise InterruptedRunError("interrupted before Spark started")
            with suppress(grpc.FutureTimeoutError):
                ready.result(0.2)
                return
        raise EngineUnavailableError(
            f"no Spark Connect server answers at {builder.endpoint}: {_SECONDS_TO_CONNECT} "
            "seconds were too short for a connection",
            hint="Check the address, and that the server runs and a firewall lets this machine "
            "reach it. A server with TLS needs `;use_ssl=true`. `--engine local` runs without "
            "Spark.",
        )
    finally:
        # Not `close`: the thread that waits for the connection would print a traceback.
        ready.cancel()


def _silence_context(context: Any, verbose: int) -> None:
    context.setLogLevel(("OFF", "WARN", "INFO")[min(verbose, 2)])
    # If Java has died, this thread of PySpark prints a traceback. deltactl reports the loss itself.
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, client: None


def _tell_refused(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Warn of settings that the server refused, because a server accepts only some.

    A warning of PySpark would show the values.
    """
    for key, value in conf.items():
        if session.conf.get(key, None) != value:
            _log.warning("the Spark Connect server did not accept the setting %s", key)


def stop_session(session: SparkSession) -> None:
    """Stop a session and the Java process that it started."""
    from pyspark import SparkContext

    with suppress(Exception):  # the session may have ended already
        session.stop()
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process.stdin is not None:
        process.stdin.close()  # the process ends when its input is closed
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _keeping_sigint() -> Iterator[None]:
    """Keep deltactl's SIGINT handler: it lets tasks end, and PySpark's handler would abort them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Let the first SIGINT or SIGTERM end the block, after the handlers that are there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        earlier = before[signal.Signals(number)]
        if callable(earlier):
            earlier(number, frame)
        raise InterruptedRunError("interrupted before Spark started", signal_number=number)

    try:
        for each in before:
            signal.signal(each, handle)
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, signal.SIG_DFL if earlier is None else earlier)


@contextmanager
def _output_to(log: IO[bytes] | None) -> Iterator[None]:
    """Send the output of processes that start in the block to ``log`` or stderr, not to stdout."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    target = os.dup(2 if log is None else log.fileno())
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for descriptor, saved in enumerate(kept, start=1):
            os.dup2(saved, descriptor)
            os.close(saved)
        os.close(target)


def _silence_python_side() -> None:
    """Turn off logs of PySpark: they repeat errors as JSON on stderr, and show known warnings."""
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_of_others)  # py4j logs to this logger that Java has ended
    warnings.filterwarnings("ignore", module=r"pyspark\..*")


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _explain_start(
    error: Exception, log: IO[bytes], remote: str | None, master: str
) -> EngineUnavailableError:
    where = "the Spark Connect server" if remote else f"Spark ({master or 'its own master'})"
    log.seek(0)
    said = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    telling = [line for line in said if re.search(r"(?i)error|exception|not found|is not", line)]
    first = str(error).strip().splitlines() or [type(error).__name__]
    reason = telling[0] if telling else first[0]
    return EngineUnavailableError(
        f"{where} could not be started: {reason[:300]}",
        hint="Check the address. Check that Java is 17 or newer. Rerun with -v to see "
        "the output of Spark.",
    )
