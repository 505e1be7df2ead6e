"""Check the data files of a version: split them into batches and run these on an engine.

Batches are built when the engine needs them; only a digest and a weight of each are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.tasks import LazyTasks
from deltactl.errors import InterruptedRunError
from deltactl.numpy_types import Integers
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.resume import ResumeFile
from deltactl.operations.check.tasks import BATCH, BatchResult, CheckSpec, CheckTask, check_files
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.spark_hash import hash_texts

_FILES_A_TASK: Final = 512
_BYTES_A_TASK: Final = 256 << 20
_BYTES_A_FOOTER: Final = 64 << 10
_LARGEST_FILE: Final = 1 << 40
_HASHES: Final = 1 << 32

Batches = Callable[[], Iterable[tuple[int, pa.Table]]]
"""Yields the files to check, columns of ``BATCH``, with the index of their metadata in the spec.

It is called twice and must yield the same files each time.
"""

Cut: TypeAlias = tuple[int, pa.Table]


@dataclass(frozen=True, slots=True)
class _Planned:
    """The facts about a batch that stay in memory; ``digest`` is empty without a resume file.

    The weight includes the cost of opening files; ``read_bytes``, which users see, does not.
    """

    digest: str
    weight_bytes: int
    read_bytes: int


class FileCheck:
    """Run the file part of a check."""

    def __init__(self, batches: Batches, options: CheckOptions, seed: int) -> None:
        """``seed`` selects the sample: a version always has the same one."""
        self._batches, self._options, self._seed = batches, options, seed
        digest = (lambda _: "") if options.resume is None else _digest
        self._plan = [_Planned(digest(cut), *self._weigh(cut[1])) for cut in self._tasks()]

    @property
    def input_bytes(self) -> int:
        """Return the pending work as bytes to read."""
        return sum(planned.weight_bytes for planned in self._plan)

    def run(
        self,
        spec: CheckSpec,
        context: RunContext,
        resume: ResumeFile | None,
    ) -> Iterator[BatchResult]:
        """Check every file that is not done yet; yield results as they arrive.

        Raises:
            InterruptedRunError: ``cancel`` was set.
        """
        done: Mapping[str, BatchResult] = {} if resume is None else resume.done
        yield from (done[p.digest] for p in self._plan if p.digest in done)
        left = [planned for planned in self._plan if planned.digest not in done]
        if not left:
            return
        waiting = (cut for cut in self._tasks() if not done or _digest(cut) not in done)
        tasks = LazyTasks(
            [planned.weight_bytes for planned in left],
            lambda _: _to_task(next(waiting)),
            [planned.read_bytes for planned in left],
        )
        for number, result in context.results(partial(check_files, spec), tasks):
            if resume is not None:
                resume.note(left[number].digest, result)
            yield result
        if context.is_cancelled:
            hint = f"Rerun with the same {option('resume')} FILE to continue."
            raise InterruptedRunError("interrupted", hint=None if resume is None else hint)

    def _tasks(self) -> Iterator[Cut]:
        """Yield batches of files, sorted by path."""
        for metadata, batch in self._batches():
            ordered = self._choose(batch).sort_by("path")
            for part in _cut(ordered, self._options.depth):
                yield metadata, part

    def _choose(self, batch: pa.Table) -> pa.Table:
        if self._options.sample >= 1 or not batch.num_rows:
            return batch
        seed = self._seed % _HASHES
        hashes = [hash_texts(chunk, seed).view(np.uint32) for chunk in batch["path"].chunks]
        limit = int(self._options.sample * _HASHES)
        return batch.filter(pa.array(np.concatenate(hashes).astype(np.int64) < limit))

    def _weigh(self, task: pa.Table) -> tuple[int, int]:
        """Return the weight of a task, and roughly the bytes that it reads."""
        if self._options.depth < Depth.FOOTERS:
            return 0, 0
        footers = _BYTES_A_FOOTER * task.num_rows
        sizes = _sizes(task)
        if self._options.depth is Depth.FOOTERS:
            return footers, int(np.minimum(sizes, _BYTES_A_FOOTER).sum())
        read = int(sizes.sum())
        return footers + read, read


def _cut(batch: pa.Table, depth: Depth) -> Iterator[pa.Table]:
    """Split into tasks, bounded by number of files and, if rows are read, by bytes."""
    if depth is not Depth.DATA:
        for start in range(0, batch.num_rows, _FILES_A_TASK):
            yield batch.slice(start, _FILES_A_TASK)
        return
    ends = np.cumsum(_sizes(batch))
    start = 0
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + _BYTES_A_TASK, side="right"))
        stop = min(max(fitting, start + 1), start + _FILES_A_TASK)
        yield batch.slice(start, stop - start)
        start = stop


def _sizes(batch: pa.Table) -> Integers:
    """Return the size of each file, clipped: sums of invalid sizes would overflow."""
    logged = pc.fill_null(batch["size_bytes"], 0).to_numpy()
    sizes: Integers = np.clip(logged, 0, _LARGEST_FILE)
    return sizes


def _to_task(cut: Cut) -> CheckTask:
    return CheckTask(cut[0], _as_stream(cut[1].combine_chunks()))


def _digest(cut: Cut) -> str:
    """Return a digest that identifies a batch by its content."""
    return hashlib.sha256(_to_task(cut).files).hexdigest()[:32]


def _as_stream(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def as_batch(files: pa.Table, *, is_live: bool = True) -> pa.Table:
    """Convert files with the columns of ``ADD_SCHEMA`` to columns of ``BATCH``."""
    columns: list[Any] = [files[name] for name in BATCH.names[:-1]]
    columns.append(pa.array(np.full(files.num_rows, is_live), pa.bool_()))
    return pa.table(columns, schema=BATCH)
