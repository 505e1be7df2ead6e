"""Recognize internal columns of Delta writers in data files, such as row ids.

Source: PROTOCOL.md, "Add CDC File" and "Row Tracking". The names of the columns with row ids and
row commit versions, which end in a random UUID, are from Delta on Spark.
"""

from __future__ import annotations

import re
from typing import Final

from deltactl.protocol.schema import Field, PrimitiveType

CHANGE_TYPE: Final = "_change_type"
"""The column with the kind of change in change data files; in data files it is null."""

_IS_CDC: Final = "__is_cdc"

_ROW_TRACKING: Final = re.compile(
    r"_row-(?:id|commit-version)-col-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def is_hidden_column(field: Field, *, has_values: bool) -> bool:
    """Return whether Delta added a top-level column of a data file.

    A ``_change_type`` column with values belongs to the user: somebody read it from a change data
    feed. Delta on Spark writes ``__is_cdc`` only together with ``_change_type``.

    ``has_values`` says whether a row may have a value in ``_change_type``, or no file has this
    column.
    """
    if field.name == CHANGE_TYPE:
        return field.type == PrimitiveType("string") and not has_values
    if field.name == _IS_CDC:
        return field.type == PrimitiveType("boolean") and not has_values
    return field.type == PrimitiveType("long") and bool(_ROW_TRACKING.fullmatch(field.name))
