"""Recognize internal columns of Delta in the files of a directory; they are omitted."""

from __future__ import annotations

from collections.abc import Collection

from deltactl.operations.convert.footers import Footers
from deltactl.operations.convert.hidden_columns import CHANGE_TYPE, is_hidden_column
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.convert.partitions import find_partition_names
from deltactl.operations.convert.tasks import FooterGroup
from deltactl.protocol.schema import StructType


def find_hidden(struct: StructType, footers: Footers, options: ConvertOptions) -> frozenset[str]:
    """Return the internal columns of Delta in the files; partition columns are never internal."""
    names = footers.names[:1]
    partitions = frozenset().union(*(find_partition_names(n, options.partition_by) for n in names))
    alone = struct.find(CHANGE_TYPE) is None
    marked = alone or any(_has_change_types(group) for group in footers.groups)
    return frozenset(
        f.name
        for f in struct.fields
        if f.name.lower() not in partitions and is_hidden_column(f, has_values=marked)
    )


def _has_change_types(group: FooterGroup) -> bool:
    """Return whether a file may have a value in Delta's column for change data."""
    leaf = group.leaves.get((CHANGE_TYPE,))
    return leaf is not None and leaf.nulls.to_pylist() != group.files["num_rows"].to_pylist()


def note_hidden(names: Collection[str]) -> list[str]:
    """Return the warnings about hidden columns."""
    if not names:
        return []
    return [
        f"{', '.join(sorted(names))}: left out, because Delta wrote these columns for internal use "
        "when the files belonged to a table"
    ]
