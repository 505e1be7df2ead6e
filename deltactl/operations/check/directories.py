"""Find live files in a directory that names another partition than the log.

Source: PROTOCOL.md, "Add File and Remove File". The value in the log counts, so this is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partitions import lookup_map, parse_partition_column
from deltactl.protocol.path_columns import absolute_mask
from deltactl.protocol.paths import HIVE_NULL, hive_escape, hive_value
from deltactl.protocol.schema_rules import can_partition


def find_moved(files: pa.Table, metadata: Metadata) -> Iterator[tuple[int, str]]:
    """Yield how many files are in such a directory, and an example."""
    if metadata.column_mapping_mode != "none":
        return  # directories have no names of columns, or earlier ones
    files = files.filter(pc.invert(absolute_mask(files["path"])))  # may have names above a root
    for column in filter(can_partition, dict.fromkeys(metadata.known_partition_fields)):
        try:
            kind = arrow_type(column.type)
        except UnsupportedFeatureError:  # another note has it
            continue
        if pa.types.is_binary(kind) or (pa.types.is_timestamp(kind) and kind.tz):
            continue  # writers use several forms, and their own time zone
        part = rf"(?s)^(?:.*/)?{re.escape(hive_escape(column.name))}=(?P<text>[^/]*)/"
        texts = pc.struct_field(pc.extract_regex(files["path"], part), "text")
        values = pc.fill_null(lookup_map(files["partition_values"], column.name), HIVE_NULL)
        pairs = pa.table({"path": files["path"], "text": texts, "value": values})
        pairs = pairs.filter(pc.not_equal(texts, values)).group_by(["text", "value"])
        for row in pairs.aggregate([("path", "count"), ("path", "min")]).to_pylist():
            if _differ(row["text"], row["value"], kind):
                example = f"{row['path_min']!r} with {column.name!r} {row['value']!r}"
                yield row["path_count"], example


def _differ(text: str, value: str, kind: pa.DataType) -> bool:
    """Return whether a directory contradicts a value, also as its type."""
    # Iceberg writes null as "null"; some writers escape otherwise, or leave a slash as it is.
    if "/" in value or _plain(text) in (_plain(value), "null" if value == HIVE_NULL else None):
        return False
    try:
        texts = [hive_value(text), None if value == HIVE_NULL else value]
        named, logged = parse_partition_column(pa.array(texts, pa.string()), kind).to_pylist()
    except CorruptLogError:  # another form; see also PARTITION_VALUE
        return False
    return bool(named != logged)


def _plain(text: str) -> str:
    return unquote(unquote(text)).replace("+", " ")
