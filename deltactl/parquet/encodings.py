"""Choose the columns of a data file that get a dictionary, and the compression level of each.

Arrow tries a dictionary for every column, and stops when a page is full of distinct values. Until
then, it has hashed all values. In a table with a few such columns, this takes a third of the time
of a write, and the file becomes larger. In random data, a codec searches for repetitions and finds
none; at higher levels it searches longer. A sample of the rows shows both before the file is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.parquet.nested import walk_arrays

Compress: TypeAlias = Callable[[pa.Table, int], Mapping[str, int]]
"""``compress(rows, level)`` returns the compressed bytes of each leaf, by Parquet path."""

DICTIONARY_PAGE_BYTES: Final = 1 << 20
"""Arrow's limit for the size of a dictionary."""

_SAMPLES: Final = 16
_SAMPLE_ROWS: Final = 256
_ENOUGH_VALUES: Final = 256
_REPEATS: Final = 4
"""A dictionary is smaller if each value occurs at least this often on average."""

_FASTEST_LEVEL: Final = 1
_COMPRESSED_ROWS: Final = 8192
# In a smaller file, the trial would take too large a part of the time.
_WORTH_A_TRIAL: Final = 4 * _COMPRESSED_ROWS
_NO_GAIN: Final = 1.002
"""The fastest level is used if its output is at most this many times as large."""


def choose_dictionary_columns(table: pa.Table) -> list[str]:
    """Return Parquet paths of the leaves to encode with a dictionary, by a sample of ``table``.

    A column ``a.b`` and the field ``b`` of a struct ``a`` have the same Parquet path. Then both get
    a dictionary, or neither.
    """
    samples: dict[tuple[str, ...], list[pa.Array]] = {}
    for batch in _sample(table):
        for field, column in zip(batch.schema, batch.columns, strict=True):
            for path, leaf in walk_arrays(column, (field.name,)):
                samples.setdefault(path, []).append(leaf)
    sampled_rows = min(table.num_rows, _SAMPLES * _SAMPLE_ROWS)
    # In all rows, a value occurs about this many times as often as in the sample.
    growth = table.num_rows / max(sampled_rows, 1)
    chosen: dict[str, bool] = {}
    for path, leaves in samples.items():
        name = ".".join(path)
        chosen[name] = chosen.get(name, True) and _is_worth_it(leaves, growth)
    return [name for name, is_chosen in chosen.items() if is_chosen]


def choose_levels(table: pa.Table, level: int, compress: Compress) -> int | dict[str, int]:
    """Return the level of each leaf by Parquet path: the fastest if ``level`` saves no bytes.

    The sample is consecutive rows from the middle of ``table``, because a page has consecutive rows
    too.
    """
    if level <= _FASTEST_LEVEL or table.num_rows < _WORTH_A_TRIAL:
        return level
    rows = table.slice(table.num_rows // 2, _COMPRESSED_ROWS)
    fast, full = (compress(rows, each) for each in (_FASTEST_LEVEL, level))
    return {
        path: _FASTEST_LEVEL if fast[path] <= size * _NO_GAIN else level
        for path, size in full.items()
    }


def _sample(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows from many positions, because consecutive rows are often similar."""
    rows = table.num_rows
    if rows <= _SAMPLES * _SAMPLE_ROWS:
        yield from table.to_batches()
        return
    stride = rows // _SAMPLES
    for start in range(0, stride * _SAMPLES, stride):
        yield from table.slice(start, _SAMPLE_ROWS).to_batches()


def _is_worth_it(leaves: Sequence[pa.Array], growth: float) -> bool:
    type_ = leaves[0].type
    if pa.types.is_boolean(type_):
        return False
    values = pa.chunked_array(leaves, type_).drop_null()
    count = len(values)
    if count < _ENOUGH_VALUES:
        return True  # too few rows to decide, and too few to make a difference
    distinct = pc.count_distinct(values).as_py()
    # Estimate the number of distinct values from the repeated values in the sample (birthday
    # problem).
    total = distinct if distinct < count // 2 else count * count / (2 * max(count - distinct, 1))
    width = values.nbytes / count
    # Arrow gives up a dictionary that becomes larger.
    return bool(total * width <= DICTIONARY_PAGE_BYTES and total * _REPEATS <= count * growth)
