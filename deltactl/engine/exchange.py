"""The exchange: rows of many sources go to the destinations that their keys name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltactl.engine.base import CancelToken
from deltactl.engine.spill import Spool

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")

Numbers = npt.NDArray[np.int64]

Key = Callable[[pa.RecordBatch, int], tuple[Numbers, Numbers]]
"""``key(batch, first_row) -> (destinations, places)``: of rows from the ``first_row``-th of a
source on; places are smaller numbers for rows that come first at their destination."""

_GATHERED_ROWS: Final = 1 << 20
# Of a part on average; to join batches for larger pieces costs more than it saves.
_ROWS_A_PIECE: Final = 1 << 9
_LEAST_GATHERED_BYTES: Final = 1 << 20
_MOST_GATHERED_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Source(Generic[S]):
    """The rows of a source, and what is known of them when the last one was read."""

    batches: Iterator[pa.RecordBatch]
    finish: Callable[[], S]


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows a destination has, and on average all that have some."""

    own: int
    usual: int


@dataclass(frozen=True, slots=True)
class Exchange(Generic[T, S, R]):
    """What an exchange does.

    Attributes:
        schema: the columns of the rows.
        read: opens a source.
        key: gives each row its destination, and its place there.
        write: takes a destination, how many rows it has, and the rows with their places: the
            schema of the spool.
    """

    schema: pa.Schema
    read: Callable[[T], Source[S]]
    key: Key
    write: Callable[[int, RowCounts, Iterator[pa.RecordBatch]], R]


MakeExchange: TypeAlias = Callable[[int], Exchange[T, S, R]]
"""``make(attempt)`` gives what to do: it is sent to the workers of an engine, and called there."""


@runtime_checkable
class Exchanger(Protocol):
    """An engine that exchanges rows between its workers."""

    def exchange(
        self,
        make: MakeExchange[T, S, R],
        sources: Sequence[T],
        destinations: int,
        *,
        usual_rows: int | None = None,
        cancel: CancelToken | None = None,
    ) -> tuple[list[S], list[R]]:
        """Read all sources, then write all destinations that have rows.

        Args:
            make: gives what to do.
            sources: what to read; each is sent to a worker.
            destinations: how many there are.
            usual_rows: of a destination, if known.
            cancel: ends the exchange when it is set.

        Raises:
            InterruptedRunError: ``cancel`` was set.
            EngineUnavailableError: the engine went away.
            Exception: the first one of a source or destination.
        """
        ...


def exchange(
    work: Exchange[T, S, R], sources: Iterable[T], spool: Spool, *, workers: int, memory_bytes: int
) -> tuple[list[S], list[R]]:
    """Read all sources, then write all destinations that have rows; in this process.

    Args:
        work: what to do.
        sources: what to read.
        spool: keeps the rows in between; its own limit is not part of ``memory_bytes``.
        workers: how many sources or destinations are worked on at the same time.
        memory_bytes: for rows that all workers gather before they are divided.

    Raises:
        Exception: the first one of a source or destination; nothing new was started after it.
    """
    gathered = min(_MOST_GATHERED_BYTES, max(_LEAST_GATHERED_BYTES, memory_bytes // workers))
    rows = min(_GATHERED_ROWS, _ROWS_A_PIECE * len(spool.rows))

    def read(source: T) -> S:
        opened = work.read(source)
        first_row = 0
        for batch in gather(opened.batches, work.schema, gathered, rows):
            spool.add(batch, *work.key(batch, first_row))
            first_row += batch.num_rows
        return opened.finish()

    read_results = _run_all(read, list(sources), workers)
    destinations = np.flatnonzero(spool.rows).tolist()
    usual = int(spool.rows.sum()) // max(1, len(destinations))

    def write(destination: int) -> R:
        counts = RowCounts(int(spool.rows[destination]), usual)
        return work.write(destination, counts, spool.take(destination))

    return read_results, _run_all(write, destinations, workers)


def gather(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    most_bytes: int,
    most_rows: int = _GATHERED_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Join small batches up to a size: working on many rows at once is cheaper."""
    held: list[pa.RecordBatch] = []
    size_bytes = rows = 0
    for batch in batches:
        held.append(batch)
        size_bytes += int(batch.nbytes)
        rows += batch.num_rows
        if size_bytes >= most_bytes or rows >= most_rows:
            joined = _join(held, schema)
            held, size_bytes, rows = [], 0, 0
            yield joined
    if rows:
        yield _join(held, schema)


def _join(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return (
        batches[0]
        if len(batches) == 1
        else pa.concat_batches(
            [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
        )
    )


def _run_all(work: Callable[[A], R], items: Sequence[A], workers: int) -> list[R]:
    """Return the results in order; after a failure nothing new is started."""
    if workers == 1 or len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers, thread_name_prefix="deltactl-exchange") as pool:
        futures: list[Future[R]] = [pool.submit(work, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            future.cancel()
    failed = (f for f in futures if not f.cancelled() and f.exception() is not None)
    for future in failed:
        future.result()
    return [future.result() for future in futures]
