"""Build the errors for a lost session, job or task, and decide whether to retry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltactl.engine.base import Failed
from deltactl.engine.spark.bundles import PackedTask
from deltactl.engine.spark.jobs import SparkJobs
from deltactl.engine.spark.probe import describe_failure
from deltactl.errors import (
    AccessDeniedError,
    DeltactlError,
    EngineUnavailableError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
)


@contextmanager
def translate_executor_loss(jobs: SparkJobs) -> Iterator[SparkJobs]:
    """Convert errors inside the block to an error about a lost session.

    Raises:
        EngineUnavailableError: replaces the error of py4j or gRPC.
    """
    try:
        yield jobs
    except DeltactlError:
        raise
    except Exception as error:
        if jobs.is_alive():
            raise
        raise engine_lost_error(error) from error


def engine_lost_error(error: Exception) -> EngineUnavailableError:
    """Return the error for all tasks that cannot run because Spark was lost."""
    return EngineUnavailableError(
        f"Spark has ended: {describe_failure(str(error))}",
        hint="Read the log of Spark, then rerun. A frequent cause is that the Java process or the "
        "server of Spark ran out of memory.",
    )


def task_failed(task: PackedTask, error: Exception) -> Failed:
    """Return the outcome of a task whose workers died in each attempt."""
    lost = DeltactlError(
        f"Spark did not finish the task in {task.tries} attempts: {describe_failure(str(error))}",
        hint="Read the logs of the executors. A frequent cause is a Python worker process that ran "
        "out of memory.",
    )
    lost.__cause__ = error
    return Failed(task.id, task.tries - 1, lost)


def is_worth_a_retry(error: Exception) -> bool:
    """Return whether another attempt, perhaps on another host, may succeed.

    The errors of deltactl about a table are the same on every host.
    """
    if isinstance(error, StorageError):
        settled = (ObjectNotFoundError, ObjectExistsError, AccessDeniedError)
        return not isinstance(error, settled)
    return not isinstance(error, DeltactlError) or error.retryable
