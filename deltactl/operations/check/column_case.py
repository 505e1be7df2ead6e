"""Find columns whose names in a data file differ from the schema only in case.

Delta on Spark reads them as columns of the table, as ``Matcher`` does; delta-rs does not.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from deltactl.parquet.projection import FileFields, Matcher
from deltactl.protocol.schema import ArrayType, DeltaType, MapType, StructType

_MATCH: Final = Matcher("none")


def find_other_case(wanted: DeltaType, stored: pa.DataType) -> tuple[str, str] | None:
    """Return the first such name in the schema, and that in the file, at any level.

    Args:
        wanted: a type of a table without column mapping.
        stored: the type in the file; for all columns, a struct of them.

    Raises:
        DataFileError: several columns of the file match one column.
    """
    match wanted:
        case StructType() if pa.types.is_struct(stored):
            return _find_in_struct(wanted, stored)
        case MapType(key, value) if pa.types.is_map(stored):
            return find_other_case(key, stored.key_type) or find_other_case(value, stored.item_type)
        case ArrayType(element) if hasattr(stored, "value_field") and not pa.types.is_map(stored):
            return find_other_case(element, stored.value_type)
    return None


def _find_in_struct(wanted: StructType, stored: pa.StructType) -> tuple[str, str] | None:
    present = FileFields(stored)
    for field in wanted.fields:
        index = _MATCH.find(field, present)
        if index is None:
            continue
        if field.name != present.names[index]:
            return field.name, present.names[index]
        inner = find_other_case(field.type, present.type_of(index))
        if inner is not None:
            return inner
    return None
