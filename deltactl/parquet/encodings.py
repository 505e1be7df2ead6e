"""Which columns of a data file are worth a dictionary.

Arrow tries one for every column and gives up at a page full of distinct values, by when it has
hashed them all for nothing: a third of the time it takes to write a table with a few such columns,
and a larger file. A look at some rows tells beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Leaf: TypeAlias = tuple[str, pa.Array]

DICTIONARY_PAGE_BYTES: Final = 1 << 20
"""Arrow's own limit for a dictionary."""

_SAMPLES: Final = 16
_SAMPLE_ROWS: Final = 1024
_ENOUGH_VALUES: Final = 256
_REPEATS: Final = 4
"""How often a value has to occur, on average, for the indices to save more than they cost."""


def choose_dictionary_columns(table: pa.Table) -> list[str]:
    """Parquet paths of the leaves to encode with a dictionary, judged by rows of ``table``."""
    samples: dict[str, list[pa.Array]] = {}
    for batch in _sample(table):
        for field, column in zip(batch.schema, batch.columns, strict=True):
            for path, leaf in _walk(field.name, column):
                samples.setdefault(path, []).append(leaf)
    sampled_rows = min(table.num_rows, _SAMPLES * _SAMPLE_ROWS)
    growth = table.num_rows / max(sampled_rows, 1)
    return [path for path, leaves in samples.items() if _is_worth_it(leaves, growth)]


def _sample(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows from places spread over the table: neighbours resemble each other."""
    rows = table.num_rows
    if rows <= _SAMPLES * _SAMPLE_ROWS:
        yield from table.to_batches()
        return
    stride = rows // _SAMPLES
    for start in range(0, stride * _SAMPLES, stride):
        yield from table.slice(start, _SAMPLE_ROWS).to_batches()


def _walk(path: str, array: pa.Array) -> Iterator[Leaf]:
    """Each leaf by the path that Parquet gives it."""
    if isinstance(array, pa.ExtensionArray):
        yield from _walk(path, array.storage)
    elif pa.types.is_struct(array.type):
        for field, member in zip(array.type, array.flatten(), strict=True):
            yield from _walk(f"{path}.{field.name}", member)
    elif pa.types.is_map(array.type):
        offsets = array.offsets
        start, end = offsets[0].as_py(), offsets[len(array)].as_py()
        entries = array.values.slice(start, end - start)
        for name, member in zip(("key", "value"), entries.flatten(), strict=True):
            yield from _walk(f"{path}.key_value.{name}", member)
    elif pa.types.is_list(array.type):
        yield from _walk(f"{path}.list.element", array.flatten())
    else:
        yield path, array


def _is_worth_it(leaves: Sequence[pa.Array], growth: float) -> bool:
    type_ = leaves[0].type
    if pa.types.is_boolean(type_):
        return False
    values = pa.chunked_array(leaves, type_).drop_null()
    count = len(values)
    if count < _ENOUGH_VALUES:
        return True  # too few to tell, or to matter
    distinct = pc.count_distinct(values).as_py()
    # Drawn without end from n values, samples repeat as birthdays do: that gives n.
    total = distinct if distinct < count // 2 else count * count / (2 * max(count - distinct, 1))
    width = values.nbytes / count
    return bool(total * width <= DICTIONARY_PAGE_BYTES and total * _REPEATS <= count * growth)
