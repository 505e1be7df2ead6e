"""Run the tasks of a bundle one after the other in a Python worker of Spark.

deltactl sends this module to the workers with the package; pyspark is imported only there.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from deltactl.engine.base import Worker
from deltactl.engine.spark.bundles import decode_bundle, unpack_payload
from deltactl.errors import DeltactlError

RESULT_SCHEMA: Final = pa.schema(
    [("id", pa.int64()), ("attempt", pa.int64()), ("ok", pa.bool_()), ("result", pa.binary())]
)

Batches = Iterator[pa.RecordBatch]


def make_runner(worker: Worker[Any, Any]) -> Callable[[Batches], Batches]:
    """Return the function for ``mapInArrow``.

    The function is sent as bytes, with ``worker`` and the storage options in it, so no plan, log or
    page of Spark shows these. The functions that it calls are imported from the package that was
    sent.
    """

    def deltactl_tasks(batches: Batches) -> Batches:
        from deltactl.engine.spark.worker import run_batches

        return run_batches(worker, batches)

    return deltactl_tasks


def run_batches(worker: Worker[Any, Any], batches: Batches) -> Batches:
    """Run the tasks of all rows. When a task ends, yield a row with its result."""
    attempt = get_attempt()
    for batch in batches:
        for row in batch.column("task"):
            for task_id, payload in decode_bundle(row.as_py()):
                yield _run_task(worker, task_id, payload, attempt)


def get_attempt() -> int:
    """Return the unique number of this attempt of a Spark task.

    The attempt number of Spark is not unique: if a stage is repeated, it starts again at 0,
    although an earlier abandoned attempt may still write.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())


def _run_task(
    worker: Worker[Any, Any], task_id: int, payload: bytes, attempt: int
) -> pa.RecordBatch:
    try:
        result = pickle.dumps(worker(unpack_payload(payload), attempt), pickle.HIGHEST_PROTOCOL)
        ok = True
    except Exception as error:
        result, ok = encode_error(error), False
    return encode_result(task_id, attempt, ok, result)


def encode_result(number: int, attempt: int, ok: bool, result: bytes) -> pa.RecordBatch:
    """Return the result of a task as a row of ``RESULT_SCHEMA``."""
    columns = [[number], [attempt], [ok], [result]]
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, RESULT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)


def encode_error(error: Exception) -> bytes:
    """Pickle an error with its traceback as a note; if this fails, pickle the error's text."""
    error.add_note("in a worker of Spark:\n" + "".join(traceback.format_exception(error)))
    try:
        data = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        pickle.loads(data)
    except Exception:
        return pickle.dumps(DeltactlError(f"{type(error).__name__}: {error}"))
    return data
