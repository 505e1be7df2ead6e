"""The work of one cluster: exchange its live rows between files, sort, verify.

Runs on any engine: a task is a small picklable value, the store is opened by URI in the worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from threading import Lock
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltactl.engine.exchange import Exchange, RowCounts, Source, exchange, gather
from deltactl.engine.spill import Spool, ensure_space
from deltactl.errors import DeltactlError, VerificationError
from deltactl.log.writing.action_lines import NewFile
from deltactl.operations.optimize.copy_groups import RewriteCounts
from deltactl.operations.optimize.layout.placement import Placement
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.layout.sample import sample_placement, select_leaves
from deltactl.operations.optimize.layout.tags import ClusterTags
from deltactl.operations.optimize.tasks import (
    RewriteResult,
    RewriteSpec,
    RewriteTask,
    ensure_live_rows,
    name_output,
    new_file,
    with_row_ids,
)
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.digest import RowDigest, RowDigester
from deltactl.parquet.open_files import open_in_turn, read_deletion_vector
from deltactl.parquet.splice.legal import Reason
from deltactl.parquet.writer import DataFileWriter
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.schema import arrow_type
from deltactl.storage.open import open_store
from deltactl.storage.store import Store

# Rows of a compressed file in memory, and again in the spool: about so many bytes a byte of input.
DECODED_PER_INPUT_BYTE: Final = 6
# Bytes of the spill file for each byte of input, at most: measured 1.1 to 1.7.
_SPILLED_PER_INPUT_BYTE: Final = 2
_FILES_A_SOURCE: Final = 16
_SORTED_ROWS: Final = 1 << 16
# Of which the hashes, several arrays of 8 bytes a row, fit the cache of a core.
_DIGESTED_ROWS: Final = 1 << 13
# A destination of 1.9 times the usual rows becomes two files: a sample does not find equal shares.
_EVEN_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """What all clusters of a run share."""

    rewrite: RewriteSpec
    request: LayoutRequest
    spill_dir: str | None


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """One cluster: its files, how many files it should become, and what it may use.

    ``memory_bytes`` are for all of its ``workers``.
    """

    rewrite: RewriteTask
    wanted_files: int
    memory_bytes: int
    workers: int

    @property
    def input_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size_bytes for file in self.rewrite.files)


def place_rows(spec: LayoutSpec, task: ClusterTask, attempt: int) -> RewriteResult:
    """Rewrite a cluster; delete the outputs if it fails.

    Raises:
        DataFileError: an input is missing or broken.
        StorageError: the disk for spilled rows is too small.
        VerificationError: the rows of the outputs are not those of the inputs.
    """
    store = open_store(spec.rewrite.table_uri, spec.rewrite.storage_options)
    placement = sample_placement(
        store, spec.rewrite.reader, spec.request, task.rewrite.files, task.wanted_files
    )
    job = _Job(store, spec, task, placement, attempt)
    held = task.memory_bytes // 4
    if task.input_bytes * DECODED_PER_INPUT_BYTE > held:
        ensure_space(spec.spill_dir, task.input_bytes * _SPILLED_PER_INPUT_BYTE)
    work = Exchange(job.read, job.key, job.write)
    schema = spec.rewrite.reader.schema
    try:
        with Spool(schema, placement.num_destinations, held, spec.spill_dir) as spool:
            read, written = exchange(
                work, job.sources, spool, workers=task.workers, memory_bytes=held // 2
            )
        outputs = [output for outputs in written for output in outputs]
        digest = _ensure_same_rows(reduce(add, read, RowDigest()), outputs)
    except BaseException:
        with suppress(DeltactlError):  # the first error is raised
            store.delete_many(job.names)
        raise
    counts = RewriteCounts()
    counts.encode(len(task.rewrite.files), task.input_bytes, [Reason.ENCODE])
    return RewriteResult(tuple(output.file for output in outputs), None, counts, digest)


@dataclass(frozen=True, slots=True)
class _Output:
    file: NewFile
    digest: RowDigest


def _ensure_same_rows(read: RowDigest, outputs: Sequence[_Output]) -> RowDigest:
    """Compare the rows that were read with those that are in the store now."""
    stored = reduce(add, (output.digest for output in outputs), RowDigest())
    difference = read.find_difference(stored)
    if difference is not None:
        raise VerificationError(
            f"the outputs do not hold the rows of the inputs: {difference}",
            hint="Nothing was committed, the table is as before. Report this with the versions "
            "that `deltactl --version` shows.",
        )
    return read


@dataclass
class _Job:
    """Reads, places and writes the rows of one cluster."""

    store: Store
    spec: LayoutSpec
    task: ClusterTask
    placement: Placement
    attempt: int
    names: list[str] = field(default_factory=list)
    """All outputs that were begun."""

    def __post_init__(self) -> None:
        self._digester = RowDigester(self.spec.rewrite.reader.schema)
        self._lock = Lock()

    @property
    def sources(self) -> list[Sequence[DataFile]]:
        """Return the files in bundles: small ones are read ahead."""
        files = self.task.rewrite.files
        size = max(1, min(_FILES_A_SOURCE, len(files) // (4 * self.task.workers)))
        return [files[start : start + size] for start in range(0, len(files), size)]

    def read(self, files: Sequence[DataFile]) -> Source[RowDigest]:
        """Return the live rows of files, and then their digest."""
        digests: list[RowDigest] = []
        return Source(self._read(files, digests), lambda: reduce(add, digests, RowDigest()))

    def _read(
        self, files: Sequence[DataFile], digests: list[RowDigest]
    ) -> Iterator[pa.RecordBatch]:
        rewrite = self.spec.rewrite
        for file, source in zip(files, open_in_turn(self.store, files), strict=True):
            values = self._partition_values(file.partition_values)
            deleted = read_deletion_vector(self.store, file)
            live_rows = physical_rows = 0
            with rewrite.reader.open(self.store, file, source) as parquet:
                for live in rewrite.reader.read_groups(parquet, file, deleted):
                    rows = with_row_ids(rewrite, file, live)
                    live_rows += rows.num_rows
                    physical_rows += live.num_physical_rows
                    digests.append(self._digester.digest(rows, values))
                    yield rows
            ensure_live_rows(file, physical_rows, live_rows)

    def key(
        self, batch: pa.RecordBatch, first_row: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the destination of each row, and its place there."""
        return self.placement.place(select_leaves(batch, self.spec.request.paths), first_row)

    def write(
        self, destination: int, counts: RowCounts, batches: Iterator[pa.RecordBatch]
    ) -> list[_Output]:
        """Write the rows of a destination: as one file, or a few if they are far too many."""
        rows = counts.own
        count = max(1, round(rows * _EVEN_SHARE / max(1, counts.usual)))
        limit = -(-rows // count)
        most_bytes = max(1 << 20, self.task.memory_bytes // (4 * self.task.workers))
        schema = self.spec.rewrite.reader.schema
        ordered = self._sort(gather(batches, schema, most_bytes, rows))
        return [
            self._write_file(f"{destination:03d}-{number}", part)
            for number, part in enumerate(_split(ordered, rows, limit))
        ]

    def _sort(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each batch in the order of the layout, in small batches."""
        for batch in batches:
            order = self.placement.order(select_leaves(batch, self.spec.request.paths))
            for start in range(0, batch.num_rows, _SORTED_ROWS):
                yield batch.take(pa.array(order[start : start + _SORTED_ROWS]))

    def _write_file(self, number: str, batches: Iterator[pa.RecordBatch]) -> _Output:
        rewrite, task = self.spec.rewrite, self.task.rewrite
        name = name_output(rewrite, task, self.attempt, number)
        with self._lock:
            self.names.append(name)
        options, stats = rewrite.write_options, rewrite.stats_columns
        with DataFileWriter(self.store, name, rewrite.reader.schema, options, stats) as writer:
            for batch in batches:
                writer.write(batch)
            written = writer.close()
        file = new_file(self.store, task, written)
        file = ClusterTags(self.spec.request, rewrite.run_id, task.number).mark(file)
        return _Output(file, self._digest_stored(file))

    def _digest_stored(self, file: NewFile) -> RowDigest:
        """Return the digest of an output, read again from the store."""
        stored = DataFile(file.path, file.size_bytes, file.partition_values)
        values = self._partition_values(file.partition_values)
        reader = self.spec.rewrite.reader
        batches = reader.read(self.store, stored, batch_rows=_DIGESTED_ROWS)
        digests = (self._digester.digest(live.columns, values) for live in batches)
        return reduce(add, digests, RowDigest())

    def _partition_values(self, texts: Mapping[str, str | None]) -> Mapping[str, pa.Scalar]:
        """Return typed partition values by physical name."""
        values = {}
        for column in self.spec.rewrite.reader.partition_fields:
            text = pa.array([texts.get(column.physical_name)], pa.string())
            kind = arrow_type(column.type)
            values[column.physical_name] = parse_partition_column(text, kind, column=column.name)[0]
        return values


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
