"""Write rows as compressed Arrow IPC streams, and read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def encode_rows(pieces: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Buffer:
    """Return rows as a stream."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches(pieces, schema).combine_chunks()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED) as stream:
        stream.write_table(table)
    return sink.getvalue()


def decode_rows(
    data: bytes | pa.Buffer, fields: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream, with given columns or all."""
    # For Arrow, an empty list means all fields.
    options = pa.ipc.IpcReadOptions(included_fields=fields or [])
    with pa.ipc.open_stream(pa.py_buffer(data), options=options) as stream:
        yield from stream
