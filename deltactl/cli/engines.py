"""Create the engines of a run, with one Spark session for all of its tables."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltactl.cli.options.engine import EngineOptions
from deltactl.engine.base import CancelToken, Done, Engine, Failed, OnProgress, P, R, Task, Worker
from deltactl.engine.choose import EngineChoice, EngineName, SparkFacts, choose_engine, fall_back
from deltactl.errors import EngineUnavailableError, Warn

if TYPE_CHECKING:
    from deltactl.engine.spark.session import SparkSettings


class SharedSpark:
    """The Spark session of a run: started once, when it is first needed."""

    def __init__(
        self,
        stack: ExitStack,
        quiet: AbstractContextManager[object],
        cancel: CancelToken | None = None,
    ) -> None:
        """Let ``stack`` stop the session at its end; hold the lock ``quiet`` while it starts.

        Starting redirects stdout and stderr of the whole process until it is done.
        """
        self._stack, self._quiet, self._cancel = stack, quiet, cancel
        self._lock = threading.Lock()
        self._session: Any = None  # only the modules of the engine may import Spark's types

    def open(self, settings: SparkSettings, environ: Mapping[str, str]) -> Any:
        """Return the session, started.

        Raises:
            EngineUnavailableError: it cannot be started.
        """
        from deltactl.engine.spark.session import spark_session

        with self._lock:
            if self._session is None:
                with self._quiet:
                    starting = spark_session(settings, environ, self._cancel)
                    self._session = self._stack.enter_context(starting)
            return self._session


@contextmanager
def shared_spark(
    quiet: AbstractContextManager[object] | None = None, cancel: CancelToken | None = None
) -> Iterator[SharedSpark]:
    """Return a session that starts on first use; it is stopped at the end of the context."""
    with ExitStack() as stack, warnings.catch_warnings():
        yield SharedSpark(stack, quiet or nullcontext(), cancel)


@dataclass(slots=True)
class ChosenEngine(Engine):
    """The engine of a command: local or Spark by options, environment and ``input_bytes``.

    It starts when it is first needed, so that a plan does not start Spark.
    """

    options: EngineOptions
    environ: Mapping[str, str]
    table: str
    warn: Warn
    note: Callable[[str], None]
    verbose: int
    max_concurrent: int | None
    memory_bytes: int | None
    jobs: int
    spark: SharedSpark
    input_bytes: int = 0
    _facts: SparkFacts | None = None
    _started: Engine | None = None

    @property
    def name(self) -> str:
        """Return the name of the started engine; before the start, of the chosen one."""
        return (self._started or self._choose()).name

    @property
    def reason(self) -> str:
        """Return why this engine was chosen."""
        return (self._started or self._choose()).reason

    @property
    def is_local(self) -> bool:
        """See ``Engine``."""
        return self.name == "local"

    @property
    def leaves_orphans(self) -> bool:
        """See ``Engine``. Before the start, return false: there are no outputs."""
        return self._started is not None and self._started.leaves_orphans

    def sized(self, input_bytes: int) -> ChosenEngine:
        """See ``Engine``."""
        return replace(self, input_bytes=input_bytes, _started=None)

    def start(self) -> Engine:
        """Return the engine, started.

        If Spark cannot start and was not selected by an option or variable, use this process.
        """
        if self._started is None:
            self._started = self._open()
        return self._started

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        """Start the engine if it is not started yet, and run the tasks on it."""
        return self.start().run(worker, tasks, cancel=cancel, on_progress=on_progress)

    def _open(self) -> Engine:
        choice = self._choose()
        if choice.name == "local":
            return self._local(choice.reason)
        try:
            return self._spark(choice.reason)
        except EngineUnavailableError as error:
            if self.options.engine is not EngineName.AUTO or self._look().cluster is not None:
                raise
            fallen = fall_back(choice.reason, error.message)
            self.warn(fallen.warning or "")
            return self._local(fallen.reason)

    def _choose(self) -> EngineChoice:
        wish = self.options.engine
        choice = choose_engine(wish, self._look(), self.input_bytes, self.options.threshold_bytes)
        if choice.warning is not None:
            self.warn(choice.warning)
        return choice

    def _look(self) -> SparkFacts:
        if self._facts is None:
            from deltactl.engine.spark.facts import load_spark_facts

            self._facts = load_spark_facts(
                self.environ, master=self.options.master, remote=self.options.spark_remote
            )
        return self._facts

    def _local(self, reason: str) -> Engine:
        from deltactl.engine.local import LocalEngine, count_cores

        workers = max(1, (self.max_concurrent or count_cores()) // self.jobs)
        memory = None if self.memory_bytes is None else self.memory_bytes // self.jobs
        # If the user sets the number of tasks, those that wait for the storage count, too.
        return LocalEngine(workers, memory, reason, workers if self.max_concurrent else None)

    def _spark(self, reason: str) -> Engine:
        from deltactl.engine.spark.engine import SparkEngine
        from deltactl.storage.providers import provider_of

        self.note(f"starting Spark ({reason})")
        session = self.spark.open(self._settings(), self.environ)
        provider = provider_of(self.table)
        engine = SparkEngine(
            session,
            reason=reason,
            max_concurrent=self.max_concurrent,
            packages=[] if provider is None else [provider.package],
        )
        engine.prepare()
        return engine

    def _settings(self) -> SparkSettings:
        from deltactl.engine.spark.session import SparkSettings

        return SparkSettings(
            self.options.master,
            self.options.spark_remote,
            self.options.spark_conf,
            self.verbose,
            self.max_concurrent,
        )


@contextmanager
def open_engine(
    options: EngineOptions,
    *,
    environ: Mapping[str, str],
    table: str,
    warn: Warn,
    note: Callable[[str], None],
    verbose: int,
    max_concurrent: int | None,
    memory_bytes: int | None,
    jobs: int = 1,
    spark: SharedSpark | None = None,
    cancel: CancelToken | None = None,
) -> Iterator[ChosenEngine]:
    """Return the engine; what it starts is stopped at the end of the context.

    ``jobs`` runs share this process, and ``spark`` if it is given: it is not stopped here.
    Otherwise ``cancel`` ends its start.
    """
    with nullcontext(spark) if spark is not None else shared_spark(cancel=cancel) as shared:
        yield ChosenEngine(
            options, environ, table, warn, note, verbose, max_concurrent, memory_bytes, jobs, shared
        )
