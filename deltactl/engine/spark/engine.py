"""Run tasks on Spark through PySpark's DataFrames: classic sessions and Spark Connect."""

from __future__ import annotations

import pickle
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Generic
from weakref import WeakKeyDictionary

from deltactl.engine.base import CancelToken, Done, Engine, Failed, OnProgress, P, R, Task, Worker
from deltactl.engine.shuffle import MakeShuffle, S, T
from deltactl.engine.spark.bundles import (
    Bundle,
    Job,
    choose_bundle_weight,
    iter_bundles,
    pack_task,
    split_lost_job,
    take_job,
)
from deltactl.engine.spark.jobs import SparkJobs
from deltactl.engine.spark.losses import (
    engine_lost_error,
    is_worth_a_retry,
    task_failed,
    translate_executor_loss,
)
from deltactl.engine.spark.probe import ALWAYS, describe_failure, ensure_executors
from deltactl.engine.spark.shuffle import REPORT, make_reader, make_writer
from deltactl.engine.spark.worker import Batches, make_runner
from deltactl.engine.tasks import open_tasks
from deltactl.errors import DeltactlError, InterruptedRunError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_TRIES: Final = 4
"""Number of attempts after which a task counts as failed, as in Spark."""

_JOBS_AT_ONCE: Final = 32
# There are more bundles than slots, so that a slot gets the next task as soon as its task ends.
_BUNDLES_A_SLOT: Final = 2
_POLL_SECONDS: Final = 0.2
# For each session, the packages for which its executors were checked.
_prepared: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
_TIMES_FAILED: Final = re.compile(r"failed (\d+) times")


class SparkEngine(Engine):
    """Run tasks on an existing session, which is reused and never stopped.

    Several small jobs with a few Spark tasks each run at the same time. So results and progress
    come early, also on Connect, and if a job is lost, little work is lost.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        reason: str = "given by the caller",
        max_concurrent: int | None = None,
        packages: Iterable[str] = (),
    ) -> None:
        """Take a session.

        Args:
            session: a classic session or a Spark Connect session.
            reason: why Spark was chosen, for reports.
            max_concurrent: the maximum number of tasks at the same time; by default the number of
                slots.
            packages: more packages that executors need, such as ``s3fs``.
        """
        self._session = session
        self._reason = reason
        self._max_concurrent = max_concurrent
        self._packages = tuple(packages)

    @property
    def name(self) -> str:
        """Return ``spark``."""
        return "spark"

    @property
    def reason(self) -> str:
        """Return why this engine was chosen."""
        return self._reason

    @property
    def leaves_orphans(self) -> bool:
        """Return true: executors can die, and Spark repeats tasks."""
        return True

    def prepare(self) -> None:
        """Send this package to the executors, once per session, and check that they can run it.

        If the executors use the Python of this process, there is no check.

        Raises:
            EngineUnavailableError: the message names host, package and remedy; or Spark was lost.
        """
        asked = _prepared.setdefault(self._session, set())
        if asked and asked.issuperset(self._packages):
            return
        with translate_executor_loss(SparkJobs(self._session)) as jobs:
            if not asked:
                jobs.ship_package()
            if not jobs.run_this_python():
                ensure_executors(self._session, jobs.count_slots(), self._packages)
        asked.update(ALWAYS, self._packages)

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        """See :class:`deltactl.engine.base.Engine`.

        When the iterator is closed, or ``cancel`` is set, running jobs are stopped. Their outputs
        remain.
        """
        if cancel is not None and cancel.is_set():
            return
        self.prepare()
        with translate_executor_loss(SparkJobs(self._session)) as jobs:
            yield from self._run(jobs, worker, tasks, cancel, on_progress)

    def _run(
        self,
        jobs: SparkJobs,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        cancel: CancelToken | None,
        on_progress: OnProgress | None,
    ) -> Iterator[Done[R] | Failed]:
        waiting, counter = open_tasks(tasks)
        slots = self._limit(jobs.count_slots())
        full = choose_bundle_weight(counter.progress.tasks_total, counter.weight_bytes, slots)
        queue = _Queue(iter_bundles(map(pack_task, waiting), full))
        run = _Run[R](jobs, queue, make_runner(worker))
        for outcome in run.outcomes(lambda: self._limit(jobs.count_slots()), cancel):
            counter.add(outcome.task_id)
            if on_progress is not None:
                on_progress(counter.progress)
            yield outcome

    def shuffle(
        self,
        make: MakeShuffle[S, T, R],
        sources: Sequence[S],
        destinations: int,
        *,
        usual_rows: int | None = None,
        cancel: CancelToken | None = None,
    ) -> tuple[list[T], list[R]]:
        """Shuffle rows with Spark's shuffle; see :class:`deltactl.engine.shuffle.Shuffle`.

        Spark repeats lost work. After a transient error of the storage, the whole shuffle is
        repeated.
        """
        self.prepare()
        payloads = [pickle.dumps(source, pickle.HIGHEST_PROTOCOL) for source in sources]
        reader, writer = make_reader(make), make_writer(make, usual_rows)
        tries = 1
        while True:
            with translate_executor_loss(SparkJobs(self._session)) as jobs:
                submit = jobs.in_threads(jobs.shuffle)
                with ThreadPoolExecutor(1, thread_name_prefix="deltactl-spark") as pool:
                    future = pool.submit(submit, reader, writer, payloads, destinations)
                    rows = _wait_for(future, jobs, cancel)
            try:
                return _read_shuffle(rows, len(sources))
            except StorageError as error:
                if tries == MAX_TRIES or not is_worth_a_retry(error):
                    raise
                tries += 1

    def _limit(self, slots: int) -> int:
        return slots if self._max_concurrent is None else min(slots, self._max_concurrent)


def _wait_for(
    future: Future[list[tuple[Any, ...]]], jobs: SparkJobs, cancel: CancelToken | None
) -> list[tuple[Any, ...]]:
    """Return the rows of a job; stop the job if ``cancel`` is set.

    Raises:
        InterruptedRunError: ``cancel`` was set.
        DeltactlError: Spark tried the job several times, without success.
    """
    is_stopping = False
    try:
        while not future.done():
            is_stopping = is_stopping or (cancel is not None and cancel.is_set())
            if is_stopping:
                jobs.cancel()
            wait([future], _POLL_SECONDS)
    except BaseException:
        while not future.done():
            jobs.cancel()
            wait([future], _POLL_SECONDS)
        raise
    error = future.exception()
    if error is None:
        return future.result()
    if is_stopping:
        raise InterruptedRunError("interrupted") from error
    if not jobs.is_alive() or not isinstance(error, Exception):
        raise error
    raise DeltactlError(
        f"the shuffle of rows between Spark executors failed: {describe_failure(str(error))}",
        hint="Read the logs of the executors. A frequent cause is a Python worker process that ran "
        "out of memory.",
    ) from error


def _read_shuffle(rows: Sequence[tuple[Any, ...]], num_sources: int) -> tuple[list[Any], list[Any]]:
    """Return the reports of the sources, and the results of the destinations."""
    reports: list[Any] = []
    results: list[Any] = []
    for number, _, ok, data in sorted(rows, key=lambda row: row[0]):
        found = pickle.loads(data)
        if not ok:
            raise found
        (reports if number == REPORT else results).append(found)
    if len(reports) != num_sources:
        raise DeltactlError(
            f"Spark returned {len(reports)} reports for {num_sources} sources; expected one for "
            "each source"
        )
    return reports, results


class _Queue:
    """The jobs to run. Jobs that must run again come first."""

    def __init__(self, bundles: Iterator[Bundle]) -> None:
        self._bundles = bundles
        self._again: deque[Job] = deque()

    def take(self, most: int) -> Job:
        """Return the next job with at most ``most`` bundles; empty if there is no work."""
        return self._again.popleft() if self._again else take_job(self._bundles, most)

    def put_back(self, jobs: Iterable[Job]) -> None:
        """Run these jobs next."""
        self._again.extendleft(reversed(list(jobs)))


class _Run(Generic[R]):
    """The state of one ``SparkEngine.run``."""

    def __init__(
        self, jobs: SparkJobs, queue: _Queue, runner: Callable[[Batches], Batches]
    ) -> None:
        self._jobs, self._queue, self._runner = jobs, queue, runner
        self._running: dict[Future[list[tuple[Any, ...]]], Job] = {}
        self._gone: Exception | None = None

    def outcomes(
        self, count_slots: Callable[[], int], cancel: CancelToken | None
    ) -> Iterator[Done[R] | Failed]:
        """Yield the outcomes of tasks until all have ended."""
        submit = self._jobs.in_threads(self._jobs.run)
        with ThreadPoolExecutor(_JOBS_AT_ONCE, thread_name_prefix="deltactl-spark") as pool:
            try:
                while True:
                    stopping = cancel is not None and cancel.is_set()
                    if stopping:
                        self._jobs.cancel()
                    elif self._gone is None:
                        self._fill(pool, submit, count_slots())
                    if not self._running:
                        break
                    ended, _ = wait(self._running, _POLL_SECONDS, FIRST_COMPLETED)
                    for future in ended:
                        yield from self._end(future, self._running.pop(future), stopping)
                if self._gone is not None:
                    yield from self._give_up_all(self._gone)
            finally:
                self._stop()

    def _fill(self, pool: ThreadPoolExecutor, submit: Callable[..., Any], slots: int) -> None:
        wanted = _BUNDLES_A_SLOT * slots
        most = max(1, ceil(wanted / _JOBS_AT_ONCE))
        in_flight = sum(map(len, self._running.values()))
        while in_flight < wanted and len(self._running) < _JOBS_AT_ONCE:
            job = self._queue.take(most)
            if not job:
                return
            self._running[pool.submit(submit, self._runner, job)] = job
            in_flight += len(job)

    def _end(
        self, future: Future[list[tuple[Any, ...]]], job: Job, stopping: bool
    ) -> Iterator[Done[R] | Failed]:
        error = future.exception()
        if error is None:
            yield from self._read(future.result(), job)
        elif not isinstance(error, Exception):
            raise error
        elif not stopping:
            yield from self._lose(job, error)

    def _read(self, rows: list[tuple[Any, ...]], job: Job) -> Iterator[Done[R] | Failed]:
        packed = {task.id: task for bundle in job for task in bundle}
        for task_id, attempt, ok, data in rows:
            task = packed.pop(task_id)
            result = pickle.loads(data)
            if ok:
                yield Done(task_id, attempt, result)
            elif task.tries + 1 < MAX_TRIES and is_worth_a_retry(result):
                self._queue.put_back([((replace(task, tries=task.tries + 1),),)])
            else:
                yield Failed(task_id, attempt, result)
        for task in packed.values():
            lost = DeltactlError(f"Spark returned no result for task {task.id}")
            yield Failed(task.id, task.tries, lost)

    def _lose(self, job: Job, error: Exception) -> Iterator[Done[R] | Failed]:
        """Handle a job without results: its workers or Spark itself died."""
        if not self._jobs.is_alive():
            self._gone = engine_lost_error(error)
            self._queue.put_back([job])
            return
        times = _TIMES_FAILED.search(str(error))
        again = split_lost_job(job, int(times[1]) if times else 1)
        for part in again:
            task = part[0][0]
            if task.tries >= MAX_TRIES:
                yield task_failed(task, error)
            else:
                self._queue.put_back([part])

    def _give_up_all(self, error: Exception) -> Iterator[Done[R] | Failed]:
        while job := self._queue.take(1):
            for bundle in job:
                for task in bundle:
                    yield Failed(task.id, task.tries, error)

    def _stop(self) -> None:
        """Cancel the jobs until every thread has ended."""
        while self._running:
            self._jobs.cancel()
            ended, _ = wait(self._running, _POLL_SECONDS)
            for future in ended:
                del self._running[future]
