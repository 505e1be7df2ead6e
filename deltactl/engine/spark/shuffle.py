"""Shuffle rows in Python workers of Spark. Rows are sent as bytes, by destination.

No column of a table is converted to a Spark type: Spark shuffles Arrow streams as bytes. deltactl
sends this module to the workers with the package; pyspark is imported only there.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from deltactl.engine.shuffle import MakeShuffle, RowCounts, ShuffleWork, join_batches
from deltactl.engine.spark.worker import (
    RESULT_SCHEMA,
    Batches,
    encode_error,
    encode_result,
    get_attempt,
)
from deltactl.engine.spill import PLACE, Spool, divide, size_with_places
from deltactl.storage.local.row_streams import decode_rows, encode_rows

SOURCE_SCHEMA: Final = pa.schema([("source", pa.binary())])
PIECE_SCHEMA: Final = pa.schema([("destination", pa.int64()), ("data", pa.binary())])

REPORT: Final = -1
"""The destination number for reports of sources, because a report has no destination."""

# How many rows of a source are collected, so that the pieces for destinations are large.
_HELD_BYTES: Final = 64 << 20
_JOINED_BYTES: Final = 16 << 20
_SPOOLED_BYTES: Final = 64 << 20
_PIECES_BYTES: Final = 4 << 20

Piece = tuple[int, bytes]


def make_reader(make: MakeShuffle[Any, Any, Any]) -> Callable[[Batches], Batches]:
    """Return the function for ``mapInArrow`` that reads sources."""

    def deltactl_read(batches: Batches) -> Batches:
        from deltactl.engine.spark.shuffle import read_sources

        return read_sources(make, batches)

    return deltactl_read


def make_writer(
    make: MakeShuffle[Any, Any, Any], usual_rows: int | None
) -> Callable[[Batches], Batches]:
    """Return the function for ``mapInArrow`` that writes destinations."""

    def deltactl_write(batches: Batches) -> Batches:
        from deltactl.engine.spark.shuffle import write_destinations

        return write_destinations(make, usual_rows, batches)

    return deltactl_write


def read_sources(make: MakeShuffle[Any, Any, Any], batches: Batches) -> Batches:
    """Read the source of each row; yield the rows of the source by destination, and a report."""
    work = make(get_attempt())
    sources = (row.as_py() for batch in batches for row in batch.column("source"))
    pieces = (piece for data in sources for piece in _read_source(work, pickle.loads(data)))
    return _encode_pieces(pieces)


def _read_source(work: ShuffleWork[Any, Any, Any], source: Any) -> Iterator[Piece]:
    held: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    held_bytes = first_row = 0
    try:
        opened = work.read(source)
        for batch in join_batches(opened.batches, work.schema, _JOINED_BYTES):
            for destination, piece in divide(batch, *work.key(batch, first_row)):
                held[destination].append(piece)
            first_row += batch.num_rows
            held_bytes += size_with_places(batch)
            if held_bytes >= _HELD_BYTES:
                yield from _flush(held, work.schema)
                held_bytes = 0
        yield from _flush(held, work.schema)
        report = (True, pickle.dumps(opened.finish(), pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        report = (False, encode_error(error))
    yield REPORT, pickle.dumps(report)


def _flush(held: dict[int, list[pa.RecordBatch]], schema: pa.Schema) -> Iterator[Piece]:
    for destination in sorted(held):
        pieces = held.pop(destination)
        yield destination, encode_rows(pieces, schema.append(PLACE)).to_pybytes()


def _encode_pieces(pieces: Iterable[Piece]) -> Batches:
    """Yield rows of ``PIECE_SCHEMA`` in batches of bounded bytes."""
    rows: list[Piece] = []
    size = 0
    for piece in pieces:
        rows.append(piece)
        size += len(piece[1])
        if size >= _PIECES_BYTES:
            yield _to_batch(rows)
            rows, size = [], 0
    if rows:
        yield _to_batch(rows)


def _to_batch(rows: list[Piece]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, PIECE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PIECE_SCHEMA)


def write_destinations(
    make: MakeShuffle[Any, Any, Any], usual_rows: int | None, batches: Batches
) -> Batches:
    """Write each destination, and yield its result; yield reports of sources unchanged.

    The rows of a destination must be together. The yielded rows have ``RESULT_SCHEMA``.
    """
    attempt = get_attempt()
    work = make(attempt)
    for destination, group in groupby(_decode_pieces(batches), itemgetter(0)):
        data = (piece[1] for piece in group)
        if destination == REPORT:
            for report in data:
                ok, result = pickle.loads(report)
                yield encode_result(REPORT, attempt, ok, result)
            continue
        try:
            result = pickle.dumps(_write(work, destination, usual_rows, data))
        except Exception as error:
            yield encode_result(destination, attempt, False, encode_error(error))
            return
        yield encode_result(destination, attempt, True, result)


def _decode_pieces(batches: Batches) -> Iterator[Piece]:
    for batch in batches:
        destinations = batch.column("destination").to_pylist()
        for destination, data in zip(destinations, batch.column("data"), strict=True):
            yield destination, data.as_buffer()


def _write(
    work: ShuffleWork[Any, Any, Any],
    destination: int,
    usual_rows: int | None,
    pieces: Iterable[bytes],
) -> Any:
    """Collect the rows of a destination until their number is known, then write them."""
    with Spool(work.schema, 1, _SPOOLED_BYTES) as spool:
        for data in pieces:
            for batch in decode_rows(data):
                spool.keep([(0, batch)], int(batch.nbytes))
        own = int(spool.rows[0])
        return work.write(destination, RowCounts(own, usual_rows or own), spool.take(0))


__all__ = ["PIECE_SCHEMA", "RESULT_SCHEMA", "SOURCE_SCHEMA", "make_reader", "make_writer"]
