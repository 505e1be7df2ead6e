"""The rules that Iceberg compatibility adds to a table and to its data files. No I/O.

Source: PROTOCOL.md, "Iceberg Compatibility V1" and "V2"; the RFCs of V3 and of the writer features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from deltactl.protocol.actions import Metadata
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import (
    ArrayType,
    DeltaType,
    Field,
    MapType,
    is_void,
    nested_ids,
    walk_fields,
    walk_types,
)

VERSION_KEYS: Final[Mapping[int, str]] = {
    version: f"delta.enableIcebergCompatV{version}" for version in (1, 2, 3)
}
VERSION_TAG: Final = "ICEBERG_COMPAT_VERSION"
"""Tag of a file that follows the rules of a version, as Delta on Spark writes it."""

ROW_TRACKING_IDS: Final = (2_147_483_540, 2_147_483_539)
"""The field ids that V3 gives the columns of row ids and commit versions in data files."""


def compatible_version(metadata: Metadata) -> int | None:
    """Return the highest version that is enabled, or ``None``."""
    properties = TableProperties(metadata.configuration)
    enabled = [version for version, key in VERSION_KEYS.items() if properties.flag(key)]
    return max(enabled, default=None)


def iceberg_problems(metadata: Metadata) -> Iterator[str]:
    """Yield why no file of a table can follow the rules of the enabled version."""
    version = compatible_version(metadata)
    if version is None:
        return
    name = f"icebergCompatV{version}"
    if metadata.column_mapping_mode == "none":
        yield f"{name} without column mapping"
        return
    properties = TableProperties(metadata.configuration)
    if version >= 3 and not properties.row_tracking_enabled:
        yield f"{name} without row tracking"
    ids = Counter(ROW_TRACKING_IDS if version >= 3 else ())
    for field in walk_fields(metadata.schema):
        numbers = nested_ids(field)
        ids.update([*numbers.values(), *([] if field.field_id is None else [field.field_id])])
        for problem in _field_problems(field, numbers, version):
            yield f"{name} with the column {field.name!r}, {problem}"
    yield from (
        f"{name} with the field id {number} for {times} fields"
        for number, times in sorted(ids.items())
        if times > 1
    )


def _field_problems(field: Field, ids: Mapping[str, int], version: int) -> Iterator[str]:
    if any(map(is_void, walk_types(field.type))):
        yield "which is void"
    places = list(_places(field.physical_name, field.type))
    if places and version == 1:
        yield "which is an array or map"
    elif set(places) - ids.keys():
        yield "whose elements have no field ids"


def _places(path: str, kind: DeltaType) -> Iterator[str]:
    """Yield the keys of the elements, keys and values of a field in its nested ids."""
    match kind:
        case ArrayType(element):
            yield f"{path}.element"
            yield from _places(f"{path}.element", element)
        case MapType(key, value):
            yield from (f"{path}.key", f"{path}.value")
            yield from _places(f"{path}.key", key)
            yield from _places(f"{path}.value", value)
