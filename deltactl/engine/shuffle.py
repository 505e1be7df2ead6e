"""Shuffle rows between files: read rows of many sources, and send each row to a destination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from deltactl.engine.base import CancelToken
from deltactl.engine.spill import Spool
from deltactl.numpy_types import Integers

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")


Key = Callable[[pa.RecordBatch, int], tuple[Integers, Integers]]
"""``key(batch, first_row) -> (destinations, places)`` for the rows of a batch.

``first_row`` is the number of the first row of the batch in its source. At a destination, rows with
smaller places come first.
"""

_JOINED_ROWS: Final = 1 << 20
# The average rows of a piece for one destination. To join batches for larger pieces costs more than
# it saves.
_ROWS_A_PIECE: Final = 1 << 9
_LEAST_BATCH_BYTES: Final = 1 << 20
_MOST_BATCH_BYTES: Final = 8 << 20
# The offsets of strings have 32 bits: Arrow does not join batches with more bytes in a column.
_MOST_JOINED_BYTES: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ShuffleSource(Generic[S]):
    """The rows of a source, and facts about them that are known after the last row."""

    batches: Iterator[pa.RecordBatch]
    finish: Callable[[], S]


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The number of rows of a destination, and the average over all destinations that have rows."""

    own: int
    usual: int


@dataclass(frozen=True, slots=True)
class ShuffleWork(Generic[T, S, R]):
    """The work of an shuffle.

    Attributes:
        schema: the columns of the rows.
        read: opens a source.
        key: gives, for each row, its destination and its place there.
        write: takes the number of a destination, its row counts, and its rows with their places (in
            the schema of the spool); returns the result.
    """

    schema: pa.Schema
    read: Callable[[T], ShuffleSource[S]]
    key: Key
    write: Callable[[int, RowCounts, Iterator[pa.RecordBatch]], R]


MakeShuffle: TypeAlias = Callable[[int], ShuffleWork[T, S, R]]
"""``make(attempt)`` returns the `ShuffleWork`.

The engine sends this function to its workers and calls it there.
"""


@runtime_checkable
class Shuffle(Protocol):
    """An engine that shuffles rows between its workers."""

    def shuffle(
        self,
        make: MakeShuffle[T, S, R],
        sources: Sequence[T],
        destinations: int,
        *,
        usual_rows: int | None = None,
        cancel: CancelToken | None = None,
    ) -> tuple[list[S], list[R]]:
        """Read all sources, then write all destinations that have rows.

        Args:
            make: returns the shuffle.
            sources: the sources to read; each is sent to a worker.
            destinations: the number of destinations.
            usual_rows: the usual number of rows of a destination, if known.
            cancel: ends the shuffle when it is set.

        Raises:
            InterruptedRunError: ``cancel`` was set.
            EngineUnavailableError: the engine was lost.
            Exception: the first error of a source or destination.
        """
        ...


def shuffle(
    work: ShuffleWork[T, S, R],
    sources: Iterable[T],
    spool: Spool,
    *,
    workers: int,
    memory_bytes: int,
) -> tuple[list[S], list[R]]:
    """Read all sources in this process, then write all destinations that have rows.

    Args:
        work: the shuffle.
        sources: the sources to read.
        spool: keeps the rows between reading and writing. Its memory has a limit of its own, which
            is not part of ``memory_bytes``.
        workers: the number of sources or destinations that are handled at the same time.
        memory_bytes: for rows that all workers collect before they divide them by destination.

    Raises:
        Exception: the first error of a source or destination. After it, no other source or
            destination is started.
    """
    batch_bytes = min(_MOST_BATCH_BYTES, max(_LEAST_BATCH_BYTES, memory_bytes // workers))
    rows = min(_JOINED_ROWS, _ROWS_A_PIECE * len(spool.rows))

    def read(source: T) -> S:
        opened = work.read(source)
        first_row = 0
        for batch in join_batches(opened.batches, work.schema, batch_bytes, rows):
            spool.add(batch, *work.key(batch, first_row))
            first_row += batch.num_rows
        return opened.finish()

    read_results = _run_all(read, sources, workers)
    spool.end_adding()
    pa.default_memory_pool().release_unused()  # writing needs blocks of other sizes
    destinations = np.flatnonzero(spool.rows).tolist()
    usual = int(spool.rows.sum()) // max(1, len(destinations))

    def write(destination: int) -> R:
        counts = RowCounts(int(spool.rows[destination]), usual)
        return work.write(destination, counts, spool.take(destination))

    return read_results, _run_all(write, destinations, workers)


def join_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    most_bytes: int,
    most_rows: int = _JOINED_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Join small batches up to a size, because it is cheaper to handle many rows at once."""
    held: list[pa.RecordBatch] = []
    size_bytes = rows = 0
    for batch in batches:
        batch_bytes = int(batch.nbytes)
        if rows and size_bytes + batch_bytes > _MOST_JOINED_BYTES:
            size_bytes = rows = 0
            yield _take_joined(held, schema)
        held.append(batch)
        size_bytes += batch_bytes
        rows += batch.num_rows
        if size_bytes >= most_bytes or rows >= most_rows:
            size_bytes = rows = 0
            yield _take_joined(held, schema)
    if rows:
        yield _take_joined(held, schema)


def _take_joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the joined batches and clear the list, so that a waiting caller does not keep them."""
    joined = _join(batches, schema)
    batches.clear()
    return joined


def _join(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return (
        batches[0]
        if len(batches) == 1
        else pa.concat_batches(
            [
                batch
                if batch.schema.equals(schema, check_metadata=True)
                else pa.RecordBatch.from_arrays(batch.columns, schema=schema)
                for batch in batches
            ]
        )
    )


def _run_all(work: Callable[[A], R], items: Iterable[A], workers: int) -> list[R]:
    """Return the results in the order of ``items``. After a failure, no more work is started."""
    if workers == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers, thread_name_prefix="deltactl-shuffle") as pool:
        try:
            return list(pool.map(work, items))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
