"""Which of many footers may be asked for their columns; together it costs an eighth each."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError
from deltactl.parquet.footer_bytes import Footer, broken_footer
from deltactl.parquet.sound_columns import ensure_sound_columns


def group_by_schema(footers: Sequence[tuple[Footer, pa.Schema]]) -> list[list[int]]:
    """The indices of footers, those of equal schemas together, in the order of their first ones.

    Args:
        footers: each with its schema as Arrow reads it.
    """
    groups: list[tuple[pq.ParquetSchema, pa.Schema, list[int]]] = []
    for index, (footer, arrow_schema) in enumerate(footers):
        schema = footer.metadata.schema
        for known, known_arrow, members in groups:
            # Parquet's equality leaves names of groups out, Arrow's what annotates a leaf.
            if schema.equals(known) and arrow_schema.equals(known_arrow):
                members.append(index)
                break
        else:
            groups.append((schema, arrow_schema, [index]))
    return [members for _, _, members in groups]


def find_unsound(footers: Sequence[Footer]) -> dict[int, DataFileError]:
    """The indices of footers whose columns nobody may ask for, and what is wrong with each.

    Args:
        footers: of one schema.
    """
    metadata = [footer.metadata for footer in footers]
    sizes = [footer.size_bytes for footer in footers]
    try:
        first = footers[0].parse_again() if len(footers) > 1 else None
        ensure_sound_columns(metadata, sizes, first)
    except (pa.ArrowException, OSError) as error:
        if len(footers) == 1:
            return {0: broken_footer(error)}
        alone = (find_unsound([footer]) for footer in footers)
        return {index: found[0] for index, found in enumerate(alone) if found}
    return {}
