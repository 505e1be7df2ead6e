"""Copy the files of a deep clone on an engine, in batches."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.tasks import LazyTasks
from deltactl.errors import DataFileError, InterruptedRunError, SafetyError
from deltactl.numpy_types import Integers
from deltactl.operations.clone.tasks import CopyResult, CopySpec, CopyTask, copy_batch, copy_files
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.storage.store import Store
from deltactl.units import format_count

_FILES_A_TASK: Final = 512
_BYTES_A_TASK: Final = 512 << 20
_MEMORY_A_TASK: Final = 64 << 20
_SHOWN: Final = 20


@dataclass(slots=True)
class Copied:
    """The files that a run copied, and the files that the target had before.

    ``times``: the time of each source file (ms since 1970), by row of the copies.
    """

    times: Integers = field(repr=False)
    replaced: list[str] = field(default_factory=list)
    files_copied: int = 0
    bytes_copied: int = 0
    files_kept: int = 0

    def add(self, result: CopyResult) -> None:
        """Count the result of a batch."""
        self.times[result.first : result.first + len(result.times)] = result.times
        self.replaced += result.replaced
        self.files_copied += result.files_copied
        self.bytes_copied += result.bytes_copied
        self.files_kept += result.files_kept


def copy_all(
    source: Store, target: Store, copies: pa.Table, spec: CopySpec, context: RunContext
) -> Copied:
    """Copy every file; return when all names are durable.

    The number of bytes does not choose the engine: Spark on this machine would only add its start,
    because the kernel, the service or the network does the work.

    ``copies`` are rows of ``COPY_SCHEMA``.

    Raises:
        DataFileError: files of the source are missing, or have another size than in the log.
        SafetyError: files of the source were replaced after they were copied.
        InterruptedRunError: ``cancel`` was set.
        StorageError: a store failed.
    """
    copied, problems = Copied(np.zeros(copies.num_rows, np.int64)), dict[str, str]()
    tasks = _make_tasks(copies)
    for result in _run(source, target, tasks, spec, context):
        copied.add(result)
        problems |= result.problems
    if context.is_cancelled:
        raise InterruptedRunError(
            "interrupted; no table was created, and the copied files are kept",
            is_part_done=False,
            hint="Rerun to copy the rest.",
        )
    if problems:
        raise explain_missing(source, problems)
    if copied.replaced:
        names = ", ".join(map(repr, sorted(copied.replaced)[:_SHOWN]))
        raise SafetyError(
            f"{format_count(len(copied.replaced), 'file', 'files')} of {source.uri} have another "
            f"modification time than when they were copied, such as {names}. A writer replaced "
            "them in place, or they were copied from elsewhere",
            hint="Check the source with `deltactl check`. To replace the copies too, also in "
            f"earlier versions of the clone, add {option('full', True)}.",
        )
    target.sync_directories(copies["target"].to_pylist())
    return copied


def with_times(files: pa.Table, copies: pa.Table, copied: Copied) -> pa.Table:
    """Return files of a clone with the times of their sources, by which a sync compares them."""
    rows = pc.index_in(files["path"], value_set=copies["target"])
    times = pa.chunked_array([pa.array(copied.times)]).take(rows)
    position = files.schema.get_field_index("modification_time_ms")
    return files.set_column(position, "modification_time_ms", times)


def _run(
    source: Store, target: Store, tasks: LazyTasks[CopyTask], spec: CopySpec, context: RunContext
) -> Iterator[CopyResult]:
    if len(tasks.weights) == 1 and context.engine.is_local:  # with the stores that are open
        task = tasks.build(0)
        yield copy_batch(source, target, task, spec, may_exist=not spec.is_fresh)
        return
    yield from (result for _, result in context.results(partial(copy_files, spec), tasks))


def _make_tasks(copies: pa.Table) -> LazyTasks[CopyTask]:
    """Split the files into batches of limited numbers of files and bytes."""
    rows = copies.num_rows
    sizes = pc.fill_null(copies["size_bytes"], 0).to_numpy()
    ends = np.cumsum(sizes)
    blocks = np.stack([np.arange(rows) // _FILES_A_TASK, (ends - sizes) // _BYTES_A_TASK])
    cuts = np.flatnonzero(np.any(np.diff(blocks, axis=1), axis=0)) + 1
    starts = np.array([0, *cuts], np.int64) if rows else np.zeros(0, np.int64)
    stops = np.array([*cuts, rows], np.int64)

    def build(number: int) -> CopyTask:
        start = int(starts[number])
        part = copies.slice(start, int(stops[number]) - start)
        return CopyTask(start, *(tuple(column.to_pylist()) for column in part.columns))

    totals = np.add.reduceat(sizes, starts).tolist() if rows else []
    return LazyTasks([_MEMORY_A_TASK] * len(starts), build, totals)


def explain_missing(source: Store, problems: Mapping[str, str]) -> DataFileError:
    """Return the error for files of the source that are missing or differ from the log."""
    shown = ", ".join(f"{name!r} ({problems[name]})" for name in sorted(problems)[:_SHOWN])
    more = f" and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else ""
    return DataFileError(
        f"the clone was not created: {format_count(len(problems), 'file', 'files')} of "
        f"{source.uri} cannot be read: {shown}{more}",
        hint=f"Run `deltactl check {shlex.quote(source.uri)}`. If a vacuum removed the files "
        "during the run, rerun with the latest version.",
    )
