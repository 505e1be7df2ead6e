"""Write rows as Arrow IPC streams, to memory or to the end of a file, and read them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_AS_IN_MEMORY: Final = pa.ipc.IpcWriteOptions()


def encode_rows(pieces: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Buffer:
    """Return rows as a stream that is compressed with lz4."""
    sink = pa.BufferOutputStream()
    _write_rows(pieces, schema, sink, _COMPRESSED)
    return sink.getvalue()


def append_rows(
    descriptor: int,
    offset: int,
    pieces: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    *,
    compress: bool,
) -> int:
    """Write rows as a stream to an offset of an open file; return the offset of its end.

    Without compression, the buffers of Arrow are written directly, without a copy.

    Raises:
        OSError: the disk is full or failed.
    """
    target = _Target(descriptor, offset)
    options = _COMPRESSED if compress else _AS_IN_MEMORY
    _write_rows(pieces, schema, pa.PythonFile(target, "w"), options)
    return target.end


def decode_rows(
    data: bytes | pa.Buffer, fields: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream, with given columns or all."""
    options = pa.ipc.IpcReadOptions(included_fields=fields or [])
    with pa.ipc.open_stream(pa.py_buffer(data), options=options) as stream:
        yield from stream


def _write_rows(
    pieces: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    sink: pa.NativeFile,
    options: pa.ipc.IpcWriteOptions,
) -> None:
    table = pa.Table.from_batches(pieces, schema).combine_chunks()
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        stream.write_table(table)


class _Target:
    """A target for the stream writer of Arrow: a part of an open file."""

    closed = False

    def __init__(self, descriptor: int, offset: int) -> None:
        self._descriptor, self.end = descriptor, offset

    def write(self, data: pa.Buffer) -> None:
        """Write all bytes. One call of the kernel may write only some of them."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, self.end)
            self.end += written
            rest = rest[written:]

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self.end

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: the file stays open."""
