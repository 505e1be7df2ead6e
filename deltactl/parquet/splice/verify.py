"""Compare a stored file with the file that was written: footer, columns, size, page headers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from deltactl.errors import VerificationError
from deltactl.parquet.footer_bytes import TAIL_BYTES, Footer
from deltactl.parquet.splice.chunk_metadata import CopiedRange, Origin, PlacedChunk
from deltactl.parquet.splice.chunks import Span, chunk_span
from deltactl.parquet.splice.pages import ensure_page_header, has_pages
from deltactl.parquet.splice.source import Source, ensure_chunk_pages, ensure_described, read_source
from deltactl.parquet.stored_columns import StoredColumn
from deltactl.parquet.thrift import ThriftError
from deltactl.storage.errors import mapped_errors
from deltactl.storage.store import Store

# On an object store, each one can be a request (ADR 22).
_SAMPLED_HEADERS: Final = 8
_SAMPLE_BYTES: Final = 16 << 10
# So many bytes of both files are in memory.
_COMPARED_BYTES: Final = 1 << 20


def ensure_stored(
    name: str, stored: Footer, written: bytes, columns: Sequence[StoredColumn]
) -> Source:
    """Compare the stored footer and columns with those that were written; return the stored file.

    Raises:
        VerificationError: the message names the difference.
        DataFileError: the footer contradicts itself, for example with chunks that overlap.
    """
    if stored.data != written:
        raise VerificationError(
            f"{name}: the footer in storage differs from the footer that was written"
        )
    found = read_source(name, stored)
    if list(found.columns.values()) != columns:
        raise VerificationError(f"{name}: the columns differ from those of the table")
    return found


def ensure_origins(
    found: Source, written: Sequence[Sequence[PlacedChunk]], ranges: Sequence[CopiedRange]
) -> None:
    """Check that each copied chunk is at the bytes that were copied for it.

    No bytes may be used twice. The footers of the stored file and of the sources are compared.

    Args:
        found: the stored file.
        written: the chunks that were written, by row group.
        ranges: the copied ranges, by position.

    Raises:
        VerificationError: a chunk is at another place.
    """
    positions = [copied.position for copied in ranges]
    seen: set[tuple[str, int]] = set()
    for group, chunks in zip(found.groups, written, strict=True):
        for span, chunk in zip(group.spans, chunks, strict=True):
            origin = chunk.origin
            if origin is None or not span.length:
                continue
            number = bisect_right(positions, span.start) - 1
            if number < 0 or not _lies_on(span, origin, ranges[number]):
                raise VerificationError(
                    f"{found.name}: a column chunk is not at the offset to which it was copied"
                )
            if (origin.source, origin.span.start) in seen:
                raise VerificationError(f"{found.name}: a column chunk was copied twice")
            seen.add((origin.source, origin.span.start))


def _lies_on(span: Span, origin: Origin, copied: CopiedRange) -> bool:
    offset = span.start - copied.position
    return (
        copied.origin.source == origin.source
        and copied.origin.span.start + offset == origin.span.start
        and span.length == origin.span.length
        and offset + span.length <= copied.origin.span.length
    )


def ensure_all_pages(store: Store, found: Source, written: Sequence[Sequence[PlacedChunk]]) -> None:
    """Read the header of each page, and compare it with the header in the source.

    Raises:
        VerificationError: the message names the difference.
        StorageError: the file cannot be read.
    """
    with store.open_input(found.name) as opened, mapped_errors("read", found.name, store.uri):

        def read(offset: int, length: int) -> bytes:
            data: bytes = opened.read_at(length, offset)
            return data

        try:
            for group, chunks in zip(found.groups, written, strict=True):
                for chunk, span, made in zip(group.chunks, group.spans, chunks, strict=True):
                    if made.pages is None:
                        ensure_chunk_pages(chunk, span, read)
                        continue
                    ensure_described(chunk, span, made.pages)
                    if not has_pages(read, span.start, made.pages):
                        raise ThriftError(
                            "the pages of a column chunk differ from those in the source file"
                        )
        except ThriftError as error:
            raise VerificationError(f"{found.name}: {error}") from error


def ensure_copied(store: Store, name: str, ranges: Sequence[CopiedRange]) -> None:
    """Read copied ranges back, and compare each byte with the source.

    Raises:
        VerificationError: the message has the offset.
        StorageError: a file cannot be read.
    """
    with store.open_input(name) as stored, mapped_errors("read", name, store.uri):
        for source, copies in groupby(ranges, lambda copied: copied.origin.source):
            with store.open_input(source) as opened:
                for copied in copies:
                    shift = copied.position - copied.origin.span.start
                    span = copied.origin.span
                    for start in range(span.start, span.end, _COMPARED_BYTES):
                        length = min(_COMPARED_BYTES, span.end - start)
                        if stored.read_at(length, start + shift) != opened.read_at(length, start):
                            raise VerificationError(
                                f"{name}: bytes after offset {start + shift} differ from those "
                                f"of {source} from which the system copied them"
                            )


def read_end_and_sample(
    store: Store, name: str, size_bytes: int, written: Sequence[Sequence[PlacedChunk]]
) -> tuple[bytes, list[bytes]]:
    """Return the end of a file (for ``parse_footer``), and the first bytes of some of its chunks.

    All are read together. The chunks are distributed over the file.
    """
    spans = [chunk_span(chunk.tree) for chunks in written for chunk in chunks]
    spans = [span for span in spans if span.length]
    # Every n-th, rounded up: at most that many.
    sample = spans[:: max(-(-len(spans) // _SAMPLED_HEADERS), 1)]
    tail = min(TAIL_BYTES, size_bytes)
    end, *starts = store.read_ranges(
        name,
        [
            (size_bytes - tail, tail),
            *((span.start, min(span.length, _SAMPLE_BYTES)) for span in sample),
        ],
    )
    return end, starts


def ensure_page_headers(name: str, starts: Sequence[bytes]) -> None:
    """Parse the page header at the start of each chunk.

    Raises:
        VerificationError: a header is not valid.
    """
    for data in starts:
        try:
            ensure_page_header(data)
        except ThriftError as error:
            raise VerificationError(f"{name}: {error}") from error
