"""Let the code under test parse equal bytes once.

Searches run it thousands of times on the same few commits and checkpoints, and Arrow's readers took
more than half of the time.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parser import CommitParser, ParsedActions

_MOST_PARSED = 10_000


def remember_chunks(parse: Callable[..., ParsedActions]) -> Callable[..., ParsedActions]:
    """Return ``CommitParser._parse_chunk`` that keeps what it returned, and the parser's state."""
    known: dict[Hashable, tuple[ParsedActions, frozenset[str], int]] = {}

    def remembered(
        parser: CommitParser, files: Sequence[CommitBytes], read: object = None
    ) -> ParsedActions:
        texts = tuple((file.name, file.data, file.newest_first) for file in files)
        key = texts, parser._partition_keys, parser._rows_seen
        if key not in known:
            if len(known) >= _MOST_PARSED:
                known.clear()
            known[key] = parse(parser, files, read), parser._partition_keys, parser._rows_seen
        parsed, parser._partition_keys, parser._rows_seen = known[key]
        return parsed

    return remembered


class _ReadOnce:
    """A Parquet file that reads equal selections of rows once."""

    def __init__(self, parquet: pq.ParquetFile) -> None:
        self._parquet = parquet
        self._read: dict[str, list[pa.RecordBatch]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parquet, name)

    def iter_batches(self, *args: object, **kwargs: object) -> Iterator[pa.RecordBatch]:
        key = repr((args, kwargs))
        if key not in self._read:
            self._read[key] = list(self._parquet.iter_batches(*args, **kwargs))
        return iter(self._read[key])


def remember_parquet(
    open_parquet: Callable[[pa.NativeFile], pq.ParquetFile],
) -> Callable[[pa.NativeFile], _ReadOnce]:
    """Return a function that opens checkpoints."""
    known: dict[bytes, _ReadOnce] = {}

    def remembered(source: pa.NativeFile) -> _ReadOnce:
        data = source.read_at(source.size(), 0)
        if (parquet := known.get(data)) is None:
            if len(known) >= _MOST_PARSED:
                known.clear()
            parquet = known[data] = _ReadOnce(open_parquet(pa.BufferReader(data)))
        return parquet

    return remembered
