"""Run the bins of a layout: small ones as tasks, large clusters as shuffles of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.base import Done, Engine, Failed, Progress, Worker, ended
from deltactl.engine.local import count_cores
from deltactl.engine.memory import machine_memory_bytes
from deltactl.engine.shuffle import Shuffle
from deltactl.engine.tasks import LazyTasks
from deltactl.errors import InterruptedRunError
from deltactl.operations.file_sizes import cut_files
from deltactl.operations.optimize.layout.plan import LayoutPlan
from deltactl.operations.optimize.layout.sample import sample_placement
from deltactl.operations.optimize.layout.tasks import (
    DECODED_PER_INPUT_BYTE,
    ClusterTask,
    finish_cluster,
    make_shuffle,
    rewrite_bin,
)
from deltactl.operations.optimize.tasks import RewriteResult, RewriteSpec, RewriteTask
from deltactl.operations.run_context import RunContext
from deltactl.parquet.data_file import DataFile
from deltactl.storage.open import open_store
from deltactl.units import GIB, MIB

SHUFFLED_FROM_BYTES: Final = 128 * MIB
"""Input bytes of clusters that the engine shuffles, if it can; smaller ones are tasks."""

_SOURCE_BYTES: Final = 32 * MIB
_FILES_A_SOURCE: Final = 64

BinTasks = LazyTasks[ClusterTask | RewriteTask]
Outcome = Done[RewriteResult] | Failed
Note = Callable[[RewriteResult], None]

# Memory of the process before the first row is read, and for data that is not counted here.
_BASE_BYTES: Final = 256 * MIB
# Memory of a merge, for decoded pages, a row group, and its encoded copy.
_MEMORY_PER_INPUT_BYTE: Final = 6
_LEAST_BYTES: Final = 64 * MIB
# Memory of a worker in addition to its rows: a decoded row group, an encoded one, hashes.
_BYTES_A_WORKER: Final = 384 * MIB
# More memory has no benefit: the spill file is in the page cache if there is memory.
_MOST_BYTES: Final = 2 * GIB
# Less than the overhead that Spark gives an executor for Python.
_EXECUTOR_BYTES: Final = 256 * MIB


def run_bins(
    context: RunContext,
    spec: RewriteSpec,
    layout: LayoutPlan | None,
    tasks: BinTasks,
    bins: Sequence[pa.Table],
    *,
    note: Note,
) -> Iterator[Outcome]:
    """Yield the outcomes of all bins.

    ``note`` gets each result in the thread of its task, also if the run is stopped before it yields
    the outcome; only on an engine that is local.
    """
    sizes = tasks.weights if tasks.sizes is None else tasks.sizes
    large = _find_large(context.engine, layout, sizes)
    small = [number for number in range(len(sizes)) if number not in large]
    chosen = LazyTasks(
        [tasks.weights[number] for number in small],
        lambda number: tasks.build(small[number]),
        [sizes[number] for number in small],
    )
    if small:
        worker: Worker[ClusterTask | RewriteTask, RewriteResult] = partial(rewrite_bin, spec)
        if context.engine.is_local:
            worker = partial(_run_noted, worker, note)
        with ended(context.run(worker, chosen)) as outcomes:
            for outcome in outcomes:
                yield replace(outcome, task_id=small[outcome.task_id])
    done, done_bytes = len(small), sum(sizes[number] for number in small)
    for number in large:
        if context.is_cancelled:
            return
        task = tasks.build(number)
        assert isinstance(task, ClusterTask)  # noqa: S101 - it has a layout
        try:
            yield Done(number, 0, _shuffle(context, spec, task, _count_rows(bins[number])))
        except InterruptedRunError:
            return
        except Exception as error:
            yield Failed(number, 0, error)
        done, done_bytes = done + 1, done_bytes + sizes[number]
        if context.on_progress is not None:
            context.on_progress(Progress(done, len(sizes), done_bytes, sum(sizes)))


def _run_noted(
    worker: Worker[ClusterTask | RewriteTask, RewriteResult],
    note: Note,
    task: ClusterTask | RewriteTask,
    attempt: int,
) -> RewriteResult:
    result = worker(task, attempt)
    note(result)
    return result


def _find_large(
    engine: Engine, layout: LayoutPlan | None, sizes: Sequence[int]
) -> Mapping[int, None]:
    """Return the clusters that the engine shuffles."""
    if layout is None or not isinstance(engine, Shuffle):
        return {}
    pairs = enumerate(zip(sizes, layout.requests, strict=True))
    return {n: None for n, (size, kept) in pairs if kept and size >= SHUFFLED_FROM_BYTES}


def _shuffle(
    context: RunContext, rewrite: RewriteSpec, task: ClusterTask, rows: int | None
) -> RewriteResult:
    """Place the rows of a cluster with all workers of the engine."""
    engine = context.engine
    assert isinstance(engine, Shuffle)  # noqa: S101 - no cluster is large otherwise
    store = open_store(rewrite.table_uri, rewrite.storage_options)
    files = task.rewrite.files
    placement = sample_placement(store, rewrite.reader, task.request, files, task.wanted_files)
    without_files = replace(task, rewrite=replace(task.rewrite, files=()))
    destinations = placement.num_destinations
    read, written = engine.shuffle(
        partial(make_shuffle, rewrite, without_files, placement),
        _divide_sources(files),
        destinations,
        usual_rows=None if rows is None else max(1, rows // destinations),
        cancel=context.cancel,
    )
    return finish_cluster(task, read, written)


def _divide_sources(files: Sequence[DataFile]) -> list[Sequence[DataFile]]:
    """Return files in bundles of bounded bytes: each is read by one worker."""
    sizes = np.array([file.size_bytes for file in files], np.int64)
    return [files[start:stop] for start, stop in cut_files(sizes, _FILES_A_SOURCE, _SOURCE_BYTES)]


def _count_rows(files: pa.Table) -> int | None:
    """Return how many rows files have by their statistics, deleted ones included."""
    counts = files["num_records"]
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)


def build_tasks(
    layout: LayoutPlan | None,
    sizes: Sequence[int],
    build: Callable[[int], RewriteTask],
    memory_bytes: int | None,
    *,
    is_local: bool,
) -> LazyTasks[ClusterTask | RewriteTask]:
    """Return the tasks of bins of these sizes; ``build`` gives the files of each.

    If the rows of a cluster fit into an equal share of the memory, it has one worker and runs in
    parallel with others. A larger cluster has all memory and all cores, and runs alone. In an
    executor of Spark, whose memory is not known, each cluster has one worker and little memory.
    Bins without a layout are merged as in runs without layouts.
    """
    requests = [None] * len(sizes) if layout is None else layout.requests
    cores = count_cores() if is_local else 1
    limit = machine_memory_bytes() // 2 if memory_bytes is None else memory_bytes
    usable = min(_MOST_BYTES, max(_LEAST_BYTES, limit - _BASE_BYTES))
    if not is_local:
        usable = limit = _EXECUTOR_BYTES

    def build_bin(number: int) -> ClusterTask | RewriteTask:
        request = requests[number]
        if layout is None or request is None:
            return build(number)
        needed = _estimate_cluster(sizes[number])
        fits = needed <= usable // cores
        return ClusterTask(
            build(number),
            request,
            layout.files_after[number],
            needed if fits else usable,
            1 if fits else max(1, min(cores, usable // _BYTES_A_WORKER)),
        )

    def weigh(number: int, size: int) -> int:
        if requests[number] is None:
            return min(_MEMORY_PER_INPUT_BYTE * size, 1 << 30)
        needed = _estimate_cluster(size)
        return needed if needed <= usable // cores else limit

    weights = [weigh(number, size) for number, size in enumerate(sizes)]
    return LazyTasks(weights, build_bin, sizes)


def _estimate_cluster(input_bytes: int) -> int:
    return max(_LEAST_BYTES // 4, 4 * DECODED_PER_INPUT_BYTE * input_bytes)
