"""Read dictionaries of column chunks that may have values which no row has.

Seen with the writers: pyarrow and Polars store all values of an Arrow dictionary of strings (a
column of categories), DuckDB those of an ENUM, and fastparquet those of any category. The other
dictionaries of these writers, and all of parquet-mr and parquet-rs, are made from rows. Statistics
of pyarrow and Polars leave out values that no row has.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError, SearchIncompleteError
from deltactl.parquet.facts import select_leaf
from deltactl.parquet.footer import LeafColumn
from deltactl.parquet.nested import walk_types
from deltactl.protocol.stats import FieldPath

_ARROW_SCHEMA: Final = b"ARROW:schema"
_FROM_ROWS: Final = ("parquet-mr version ", "parquet-rs version ")
_TEXTS: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_REWRITTEN: Final = b"original.created.by"  # parquet-mr copied the pages of another writer
_FASTPARQUET: Final = "fastparquet"
_BUFFER_BYTES: Final = 1 << 20  # more than most dictionaries have: so one request reads them


def find_categories(metadata: pq.FileMetaData) -> Set[str]:
    """Return the columns that were Arrow dictionaries, or have one, when the file was written."""
    if _ARROW_SCHEMA not in (metadata.metadata or {}):
        return frozenset()
    return frozenset(
        member.name
        for member in metadata.schema.to_arrow_schema()
        if any(pa.types.is_dictionary(node.type) for node in walk_types(member.type))
    )


def read_suspects(
    parquet: pq.ParquetFile, source: pa.NativeFile, leaf: LeafColumn, path: FieldPath
) -> Iterator[tuple[int, pa.Array]]:
    """Yield row group and dictionary of each chunk whose dictionary may have values of no row.

    Only the dictionary and the first data page are read: from ``source``, which ``parquet`` has
    opened. Columns of other types than strings and bytes have no such dictionaries.

    Raises:
        DataFileError: Arrow does not read the chunks of this column with their dictionaries.
        SearchIncompleteError: the dictionaries have values of a type that Arrow does not return.
    """
    footer, column = parquet.metadata, parquet.schema.column(leaf.index)
    groups = [it for it in range(footer.num_row_groups) if _has_dictionary(footer, it, leaf.index)]
    if not groups or not _may_have_unused(footer, leaf.type):
        return
    if not (pa.types.is_dictionary(leaf.type) or leaf.type in _TEXTS):
        if (footer.created_by or "").startswith(_FASTPARQUET):
            raise SearchIncompleteError("dictionaries of numbers, by fastparquet")
        return
    with pq.ParquetFile(
        source,
        metadata=footer,
        read_dictionary=[column.path],
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
    ) as reader:
        for group in groups:
            batches = reader.iter_batches(
                1, row_groups=[group], columns=[column.path], use_threads=False
            )
            for values in (select_leaf(batch, path) for batch in batches):
                if not pa.types.is_dictionary(values.type):
                    raise DataFileError("a dictionary cannot be read")
                yield group, values.dictionary
                break


def _has_dictionary(footer: pq.FileMetaData, group: int, index: int) -> bool:
    chunk = footer.row_group(group).column(index)
    # Some writers give no offset of the dictionary.
    return chunk.has_dictionary_page or any("DICTIONARY" in it for it in chunk.encodings)


def _may_have_unused(footer: pq.FileMetaData, kind: pa.DataType) -> bool:
    keys = footer.metadata or {}
    if _ARROW_SCHEMA in keys:
        return bool(pa.types.is_dictionary(kind))
    return _REWRITTEN in keys or not (footer.created_by or "").startswith(_FROM_ROWS)
