"""The worker of a cluster: shuffle its live rows between files, sort, verify.

Runs on any engine: a task is a small picklable value, the store is opened by URI in the worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from threading import Lock
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltactl.engine.cores import find_byte_counter
from deltactl.engine.shuffle import RowCounts, ShuffleSource, ShuffleWork, join_batches, shuffle
from deltactl.engine.spill import PLACE, Spool, spill_dir_hint
from deltactl.errors import DeltactlError, InterruptedRunError, VerificationError
from deltactl.log.writing.actions import NewFile
from deltactl.numpy_types import Integers
from deltactl.operations.optimize.input_columns import InputColumns
from deltactl.operations.optimize.layout.placement import Placement
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.layout.sample import (
    choose_batch_rows,
    sample_placement,
    select_leaves,
)
from deltactl.operations.optimize.layout.tags import ClusterTags
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.operations.optimize.tasks import (
    RewriteResult,
    RewriteSpec,
    RewriteTask,
    ensure_live_rows,
    name_output,
    new_file,
    rewrite_files,
    with_row_ids,
)
from deltactl.operations.optimize.verify import ensure_nulls
from deltactl.operations.row_proofs import FileDigester
from deltactl.operations.uploads import note_uploads
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.digest import RowDigest
from deltactl.parquet.null_counts import count_nulls
from deltactl.parquet.open_files import open_in_turn, read_deletion_vector
from deltactl.parquet.splice.copy_conditions import CopyRefusal
from deltactl.parquet.writer import DataFileWriter
from deltactl.storage.local.spill import ensure_space
from deltactl.storage.open import open_existing
from deltactl.storage.store import Store

# Rows of a compressed file in memory, and again in the spool: bytes per byte of input (estimate).
DECODED_PER_INPUT_BYTE: Final = 6
# Bytes of the spill file for each byte of input, at most: measured 1.1 to 1.7. Rows that are not
# compressed need more, but have only a part of the free space (see ``Spill``).
_SPILLED_PER_INPUT_BYTE: Final = 2
_FILES_A_SOURCE: Final = 16
_SORTED_ROWS: Final = 1 << 16
_READ_BYTES: Final = 16 << 20
# A destination of 1.9 times the usual rows becomes two files: a sample does not find equal shares.
_EVEN_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """One cluster: its files, the number of outputs, and its memory and workers.

    ``memory_bytes`` are for all of its ``workers``.
    """

    rewrite: RewriteTask
    request: LayoutRequest
    wanted_files: int
    memory_bytes: int
    workers: int

    @property
    def input_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size_bytes for file in self.rewrite.files)


def rewrite_bin(spec: RewriteSpec, task: ClusterTask | RewriteTask, attempt: int) -> RewriteResult:
    """Rewrite a bin of a run with layouts: place its rows, or only merge its files."""
    if isinstance(task, ClusterTask):
        return place_rows(spec, task, attempt)
    return rewrite_files(spec, task, attempt)


def place_rows(spec: RewriteSpec, task: ClusterTask, attempt: int) -> RewriteResult:
    """Rewrite a cluster; delete the outputs if it fails.

    Raises:
        DataFileError: an input is missing or broken.
        InterruptedRunError: the run was cancelled.
        StorageError: the disk for spilled rows is too small.
        VerificationError: the rows of the outputs are not those of the inputs.
    """
    store = _open(spec)
    placement = sample_placement(
        store, spec.reader, task.request, task.rewrite.files, task.wanted_files
    )
    job = _Job(store, spec, task, placement, attempt)
    held = task.memory_bytes // 4
    if task.input_bytes * DECODED_PER_INPUT_BYTE > held:
        needed = task.input_bytes * _SPILLED_PER_INPUT_BYTE
        ensure_space(spec.spill_dir, needed, hint=spill_dir_hint())
    files = task.rewrite.files
    size = max(1, min(_FILES_A_SOURCE, len(files) // (4 * task.workers)))
    sources = [files[start : start + size] for start in range(0, len(files), size)]
    schema = spec.reader.schema
    try:
        with Spool(schema, placement.num_destinations, held, spec.spill_dir) as spool:
            read, written = shuffle(
                job.shuffle, sources, spool, workers=task.workers, memory_bytes=held // 2
            )
        return finish_cluster(task, read, written)
    except BaseException:
        with suppress(DeltactlError):  # the first error is raised
            store.delete_many(job.names)
        raise


def make_shuffle(
    spec: RewriteSpec, task: ClusterTask, placement: Placement, attempt: int
) -> ClusterShuffle:
    """Return the shuffle of the rows of a cluster, for a worker of an engine."""
    return _Job(_open(spec), spec, task, placement, attempt).shuffle


def _open(spec: RewriteSpec) -> Store:
    return note_uploads(open_existing(spec.table_uri, spec.storage_options), spec.uploading)


def finish_cluster(
    task: ClusterTask, read: Sequence[RowDigest], written: Sequence[Sequence[Output]]
) -> RewriteResult:
    """Compare the rows that were read with the rows in the stored outputs.

    Raises:
        VerificationError: they differ.
    """
    outputs = [output for outputs in written for output in outputs]
    stored = reduce(add, (output.digest for output in outputs), RowDigest())
    digest = reduce(add, read, RowDigest())
    difference = digest.find_difference(stored)
    if difference is not None:
        raise VerificationError(
            f"the outputs do not contain the rows of the inputs: {difference}",
            hint="Report this error with the output of `deltactl --version -v`. Nothing was "
            "committed; the table is as before.",
        )
    counts = RewriteCounts()
    counts.encode(len(task.rewrite.files), task.input_bytes, [CopyRefusal.ENCODE])
    return RewriteResult(tuple(output.file for output in outputs), None, counts, digest)


@dataclass(frozen=True, slots=True)
class Output:
    """A file that was written, and the digest of its rows as they are stored."""

    file: NewFile
    digest: RowDigest


ClusterShuffle: TypeAlias = ShuffleWork[Sequence[DataFile], RowDigest, list[Output]]


@dataclass
class _Job:
    """Read, place and write the rows of one cluster."""

    store: Store
    spec: RewriteSpec
    task: ClusterTask
    placement: Placement
    attempt: int
    names: list[str] = field(default_factory=list)
    """All outputs that were started."""

    def __post_init__(self) -> None:
        self._digester = FileDigester(self.spec.reader)
        # The shuffle has threads of its own. To read the rows is half of the work.
        self._count_bytes = find_byte_counter()
        self._written_bytes = self.task.input_bytes // 2 // max(self.placement.num_destinations, 1)
        self._lock = Lock()

    @property
    def shuffle(self) -> ClusterShuffle:
        """Return the shuffle of the rows."""
        return ShuffleWork(self.spec.reader.schema, self.read, self.key, self.write)

    def read(self, files: Sequence[DataFile]) -> ShuffleSource[RowDigest]:
        """Return the live rows of files, and then their digest."""
        digests: list[RowDigest] = []
        return ShuffleSource(self._read(files, digests), lambda: reduce(add, digests, RowDigest()))

    def _read(
        self, files: Sequence[DataFile], digests: list[RowDigest]
    ) -> Iterator[pa.RecordBatch]:
        rewrite = self.spec
        columns, nulls = InputColumns(rewrite.reader, rewrite.explained), Counter[str]()
        for file, source in zip(files, open_in_turn(self.store, files), strict=True):
            deleted = read_deletion_vector(self.store, file)
            live_rows = physical_rows = 0
            with rewrite.reader.open(self.store, file, source) as parquet:
                columns.add(parquet.metadata, file.path, counts=deleted is None, source=source)
                rows_at_once = choose_batch_rows(parquet.metadata, _READ_BYTES)
                for live in rewrite.reader.read_groups(
                    parquet, file, deleted, batch_rows=rows_at_once
                ):
                    self._ensure_wanted()
                    rows = with_row_ids(rewrite, file, live)
                    live_rows += rows.num_rows
                    physical_rows += live.num_physical_rows
                    digests.append(self._digester.digest(rows, file))
                    if deleted is None:
                        nulls.update({n: count_nulls(rows.column(n)) for n in rows.schema.names})
                    yield rows
            ensure_live_rows(file, physical_rows, live_rows)
            self._count_bytes(file.size_bytes // 2)
        column = columns.find_difference(nulls)
        if column is not None:
            whole = [file for file in files if file.deletion_vector is None]
            ensure_nulls(self.store, rewrite.reader, whole, nulls=nulls, column=column)

    def key(self, batch: pa.RecordBatch, first_row: int) -> tuple[Integers, Integers]:
        """Return the destination of each row, and its place in it."""
        return self.placement.place(select_leaves(batch, self.task.request.paths), first_row)

    def write(
        self, destination: int, counts: RowCounts, batches: Iterator[pa.RecordBatch]
    ) -> list[Output]:
        """Write the rows of a destination as one file, or as a few if there are too many rows."""
        rows = counts.own
        count = max(1, round(rows * _EVEN_SHARE / max(1, counts.usual)))
        limit = -(-rows // count)
        # The rows are in memory twice while they are joined. Then a row group, decoded and encoded,
        # is in memory too.
        most_bytes = max(1 << 20, self.task.memory_bytes // (6 * self.task.workers))
        schema = self.spec.reader.schema.append(PLACE)
        ordered = self._sort(join_batches(batches, schema, most_bytes, rows))
        with closing(ordered):
            files = [
                self._write_file(f"{destination:03d}-{number}", part)
                for number, part in enumerate(_split(ordered, rows, limit))
            ]
        self._count_bytes(self._written_bytes)
        return [Output(file, self._digest_stored(file)) for file in files]

    def _sort(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of each batch in the order of the layout, in small batches."""
        for placed in batches:
            places = np.asarray(placed.column(placed.num_columns - 1))
            batch = placed.remove_column(placed.num_columns - 1)
            leaves = select_leaves(batch, self.task.request.paths)
            order = self.placement.order(leaves, places)
            for start in range(0, len(order), _SORTED_ROWS):
                self._ensure_wanted()
                yield batch.take(pa.array(order[start : start + _SORTED_ROWS]))
            del placed, batch, leaves  # before the next rows are joined

    def _write_file(self, number: str, batches: Iterator[pa.RecordBatch]) -> NewFile:
        rewrite, task = self.spec, self.task.rewrite
        name = name_output(rewrite, task, self.attempt, number)
        with self._lock:
            self.names.append(name)
        options, stats = rewrite.write_options, rewrite.stats_columns
        with DataFileWriter(self.store, name, rewrite.reader.schema, options, stats) as writer:
            for batch in batches:
                writer.write(batch)
            written = writer.close()
        pa.default_memory_pool().release_unused()
        file = new_file(self.store, task, written)
        return ClusterTags(self.task.request, rewrite.run_id, task.number).mark(file)

    def _ensure_wanted(self) -> None:
        if self.spec.cancel is not None and self.spec.cancel.is_set():
            raise InterruptedRunError("interrupted")

    def _digest_stored(self, file: NewFile) -> RowDigest:
        """Return the digest of an output, read again from the store."""
        self._ensure_wanted()
        stored = DataFile(file.path, file.size_bytes, file.partition_values)
        return self._digester.digest_file(self.store, stored)


def _split(
    batches: Iterator[pa.RecordBatch], rows: int, limit: int
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield streams of at most ``limit`` rows; each must be used up before the next one."""
    rest: list[pa.RecordBatch] = []

    def take(count: int) -> Iterator[pa.RecordBatch]:
        while count > 0:
            batch = rest.pop() if rest else next(batches)
            if batch.num_rows > count:
                rest.append(batch.slice(count))
                batch = batch.slice(0, count)
            count -= batch.num_rows
            yield batch

    for start in range(0, rows, limit):
        yield take(min(limit, rows - start))
