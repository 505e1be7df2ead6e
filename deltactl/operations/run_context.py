"""Services of one run: clock, engine, cancellation, warnings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from deltactl.clock import Clock, SystemClock
from deltactl.engine.base import (
    CancelToken,
    Done,
    Engine,
    Failed,
    OnProgress,
    P,
    R,
    StopToken,
    Task,
    Worker,
    ended,
)
from deltactl.engine.local import LocalEngine
from deltactl.errors import DeltactlError, UsageError, Warn
from deltactl.log.committers.settle import Sleep
from deltactl.value_types import ensure_type

if TYPE_CHECKING:
    from deltactl.log.delta_log import DeltaLog
    from deltactl.log.writing.added_files import AddedFiles
    from deltactl.log.writing.commit_base import CommitBase
    from deltactl.log.writing.transaction import Transaction


_log: Final = logging.getLogger(__name__)


def do_nothing() -> None:
    """Do nothing."""


def _warn_without_raising(warn: Warn, message: str) -> None:
    try:
        warn(message)
    except Warning:  # a filter of Python makes warnings errors
        _log.warning("%s", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The services of one run: its engine, its clock, and the receivers of warnings and progress.

    Attributes:
        warn: takes warnings, which do not stop the run.
        engine: runs the tasks.
        clock: gives times and new ids.
        storage_options: settings of the table's storage, for the tasks; never logged.
        cancel: when it is set, no new work is started.
        on_progress: is called when tasks end.
        sleep: waits between attempts to commit; seconds.
        begin_changes: is called before a worker changes the first file; the store of the run calls
            it too, before its changes.
        on_refusal: is called in a dry run if a safety rule would refuse the real run.
        run_id: is written into the commits of the run; ``None`` if there is none.
        keeps_history: whether the log is not cleaned up after commits.
    """

    warn: Warn
    engine: Engine = field(default_factory=lambda: LocalEngine(reason="the default"))
    clock: Clock = field(default_factory=SystemClock)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    cancel: CancelToken | None = None
    on_progress: OnProgress | None = None
    sleep: Sleep = time.sleep
    begin_changes: Callable[[], None] = do_nothing
    on_refusal: Callable[[], None] = do_nothing
    run_id: str | None = None
    keeps_history: bool = False

    @classmethod
    def of(
        cls,
        warn: Warn,
        engine: Engine | None = None,
        storage_options: Mapping[str, str] | None = None,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> RunContext:
        """Return the context of a call of the library; ``None`` means the default.

        Raises:
            UsageError: ``engine``, ``cancel`` or ``on_progress`` is something else.
        """
        is_class = isinstance(engine, type)
        if is_class or not (engine is None or callable(getattr(engine, "run", None))):
            hint = "Use LocalEngine() or SparkEngine(session)."
            raise UsageError(f"engine must be an engine; got {engine!r}", hint=hint)
        ensure_type("cancel", cancel, CancelToken | None)
        if not (on_progress is None or callable(on_progress)):
            raise UsageError(f"on_progress must be a function; got {on_progress!r}")
        context = cls(
            warn=warn,
            storage_options=storage_options or {},
            cancel=StopToken(cancel),  # the engine sets it after an error: not that of the caller
            on_progress=on_progress,
        )
        return context if engine is None else replace(context, engine=engine)

    @property
    def is_cancelled(self) -> bool:
        """Return whether no new work may be started."""
        return self.cancel is not None and self.cancel.is_set()

    def warn_of_refusal(self, refusal: DeltactlError | None, what: str = "a real run") -> None:
        """Warn in a dry run that a safety rule would refuse the real run; ``None``: none would."""
        if refusal is not None:
            self.on_refusal()
            self.warn(f"{what} would be refused: {refusal.message}. {refusal.hint}")

    def transaction(
        self, log: DeltaLog, base: CommitBase, files: AddedFiles | None = None
    ) -> Transaction:
        """Begin a transaction with the clock of the run; see :class:`Transaction`."""
        from deltactl.log.writing.transaction import Transaction  # not for runs that only read

        return Transaction(log, base, clock=self.clock, sleep=self.sleep, files=files)

    def run(self, worker: Worker[P, R], tasks: Iterable[Task[P]]) -> Iterator[Done[R] | Failed]:
        """Run tasks on the engine; see :meth:`deltactl.engine.base.Engine.run`."""
        return self.engine.run(worker, tasks, cancel=self.cancel, on_progress=self.on_progress)

    def of_log(self, log: DeltaLog) -> RunContext:
        """Return the context of the same run for a table, with its own storage options."""
        return replace(self, storage_options=log.storage_options)

    def results(self, worker: Worker[P, R], tasks: Iterable[Task[P]]) -> Iterator[tuple[int, R]]:
        """Run tasks; yield the id and the result of each. The first failure ends the run.

        If the run is cancelled, the results end early.
        """
        with ended(self.run(worker, tasks)) as outcomes:
            for outcome in outcomes:
                if isinstance(outcome, Failed):
                    raise outcome.error
                yield outcome.task_id, outcome.result

    def without_cancel(self) -> RunContext:
        """Return the context of work that must follow a commit: not cancelled, no progress.

        Its warnings are never raised, because they would hide the report of the commit.
        """
        return replace(
            self, cancel=None, on_progress=None, warn=partial(_warn_without_raising, self.warn)
        )
