"""Search texts: actions of the log that name no file, and files that are neither data nor log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.operations.erased.sought import SoughtTexts, has_any

# Names, ids and counts, which no column has as values.
_NO_VALUES: Final = frozenset({
    "engineInfo", "id", "isolationLevel", "name", "operation", "operationMetrics",
    "partitionColumns", "protocol", "provider", "readerFeatures", "sidecar", "txnId", "type",
    "checkpointMetadata", "delta.columnMapping.physicalName", "writerFeatures",
})  # fmt: skip
_IDENTITY: Final = ("delta.identity.highWaterMark", "delta.identity.start")
_FIELD_VALUES: Final = (
    "CURRENT_DEFAULT",
    "EXISTS_DEFAULT",
    "comment",
    "delta.generationExpression",
    "delta.invariants",
    *_IDENTITY,
)


def find_parts(nodes: Sequence[tuple[int, Any]], texts: SoughtTexts) -> Iterator[tuple[int, str]]:
    """Yield the index of the file and the name of the part, for each text that has a value."""
    rows = [
        (index, keys, text, _means_value(keys, text, texts))
        for index, node in nodes
        for keys, text in _walk(node, ())
    ]
    for numbers in (False, True):
        chosen = [row for row in rows if row[3] is numbers]
        found = texts.mask(pa.array([row[2] for row in chosen], pa.string()), numbers=numbers)
        for place in pc.indices_nonzero(found).to_pylist():
            index, keys, *_ = chosen[place]
            yield index, _name_part(keys)


def _walk(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if keys and keys[-1] in _NO_VALUES:
        return
    match value:
        case dict():
            for key, member in value.items():
                yield from _walk(member, (*keys, str(key)))
        case list():
            for member in value:
                yield from _walk(member, keys)
        case str() if keys[-1:] == ("schemaString",) and value.startswith("{"):
            yield from _walk(json.loads(value), keys)
        case str():
            yield keys, value.encode("utf-8", "backslashreplace").decode()
        case int() if keys[-1:] and keys[-1] in _IDENTITY:
            yield keys, str(value)


def _means_value(keys: tuple[str, ...], text: str, texts: SoughtTexts) -> bool:
    """Return whether a number in a text can be a value of a column."""
    if "schemaString" in keys:
        return keys[-1] in _FIELD_VALUES
    if "configuration" in keys and keys[0] != "domainMetadata":
        return keys[-1].startswith("delta.constraints.") or not keys[-1].startswith("delta.")
    is_free = keys[-1:] and keys[-1] in ("userMetadata", "description")
    return bool(is_free) or "redicate" in "".join(keys[-1:]) or texts.names_column(text)


def _name_part(keys: tuple[str, ...]) -> str:
    for part in (
        "domainMetadata",
        "operationParameters",
        "userMetadata",
        "schemaString",
        "configuration",
    ):
        if part in keys:
            return part
    return keys[0] if keys else "text"


def file_has_value(name: str, data: bytes, texts: SoughtTexts) -> bool:
    """Return whether a file has a value: Avro, columns of Parquet, JSON, or lines of text.

    Raises:
        Exception: the content is none of these; libraries raise errors of many kinds.
    """
    if name.endswith(".avro"):
        from deltactl.operations.erased.iceberg import manifest_has_value  # needs pyiceberg

        return manifest_has_value(name, data, texts)
    if data[:4] == b"PAR1":
        table = pq.read_table(pa.BufferReader(data))
        columns = (c for c in table.columns if pa.types.is_string(c.type))
        return any(has_any(chunk, texts) for column in columns for chunk in column.chunks)
    if name.endswith(".json"):
        strings = [text for _, text in _walk({"": json.loads(data)}, ())]
        return has_any(pa.array(strings, pa.string()), texts)
    return has_any(pa.array(data.decode().splitlines(), pa.string()), texts)
