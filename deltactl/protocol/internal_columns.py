"""Know the columns that Delta adds to data files beside those of the schema; readers skip them.

Source: PROTOCOL.md, "Add CDC File" and "Row Tracking". ``__is_cdc``, and the names of the columns
with row ids and row commit versions, which end in a random UUID, are from Delta on Spark.
"""

from __future__ import annotations

import re
from typing import Final

CHANGE_TYPE: Final = "_change_type"
"""The column with the kind of change in change data files; in data files it is null."""

IS_CDC: Final = "__is_cdc"
"""The column that is true in change data files; with column mapping, it is false in data files."""

ROW_TRACKING: Final = re.compile(
    r"_row-(?:id|commit-version)-col-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
"""The names of the columns with row ids and row commit versions."""


def is_internal_name(name: str) -> bool:
    """Return whether a top-level column of a data file has the name of such a column."""
    return name in (CHANGE_TYPE, IS_CDC) or ROW_TRACKING.fullmatch(name) is not None
