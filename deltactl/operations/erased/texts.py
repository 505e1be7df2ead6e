"""Search texts: actions of the log that name no file, and files that are neither data nor log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.operations.erased.sought import SoughtTexts, has_any
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.names import OWN_DIR

# Names, ids and counts, which no column has as values; by the action that has them.
_NO_VALUES: Final = {
    "commitInfo": frozenset({
        "engineInfo", "inCommitTimestamp", "isolationLevel", "operation", "operationMetrics",
        "readVersion", "timestamp", "txnId",
    }),
    "metaData": frozenset({"format", "id", "partitionColumns"}),
    "metadata": frozenset({"format", "id", "partitionColumns"}),
}  # fmt: skip
_NO_ACTIONS: Final = frozenset({"checkpointMetadata", "protocol", "sidecar"})
_SCHEMAS: Final = frozenset({"schemaString", "checkpointSchema", "schema", "schemas"})
_SPECS: Final = frozenset({"partition-spec", "partition-specs"})
_NO_TEXTS_OF_FIELDS: Final = frozenset({"name", "type", "delta.columnMapping.physicalName"})
_RECORD: Final = "record"
_FREE: Final = ""
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
    if keys and _has_no_value(keys, value):
        return
    match value:
        case dict():
            for key, member in value.items():
                if keys[:1] == (_FREE,) or keys[-1:] == ("configuration",):
                    yield keys, _encodable(str(key))
                yield from _walk(member, (*keys, str(key)))
        case list():
            for member in value:
                yield from _walk(member, keys)
        case str() if keys[-1:] == ("schemaString",) and value.startswith("{"):
            yield from _walk(json.loads(value), keys)
        case str():
            yield keys, _encodable(_with_inner(value))
        case int() | float() if not isinstance(value, bool):
            yield keys, str(value)


def _has_no_value(keys: tuple[str, ...], value: Any) -> bool:
    if keys[0] == _FREE:
        return False
    if keys[0] in _NO_ACTIONS:
        return True
    if not (_SCHEMAS | _SPECS).isdisjoint(keys):
        return isinstance(value, str) and keys[-1] in _NO_TEXTS_OF_FIELDS
    return len(keys) == 2 and keys[1] in _NO_VALUES.get(keys[0], ())


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _with_inner(text: str) -> str:
    """Return a text, and the texts in it if it is JSON: they are not escaped."""
    if not text.startswith(("{", "[", '"')):
        return text
    try:
        inner = [part for _, part in _walk(json.loads(text), (_FREE,))]
    except (ValueError, RecursionError):
        return text
    return "\n".join((text, *inner))


def _means_value(keys: tuple[str, ...], text: str, texts: SoughtTexts) -> bool:
    """Return whether a number in a text can be a value of a column."""
    if "schemaString" in keys:
        return keys[-1] in _FIELD_VALUES
    if "configuration" in keys and keys[0] != "domainMetadata":
        return keys[-1].startswith("delta.constraints.") or not keys[-1].startswith("delta.")
    last = "".join(keys[-1:])
    if last in ("userMetadata", "description") or "redicate" in last:
        return True
    is_open = keys[:1] in (("commitInfo",), (_FREE,))
    return texts.names_column(text) or (is_open and last in texts.names)


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
        is_iceberg = name.startswith("metadata/")
        is_free = not (is_iceberg or name.startswith(f"{OWN_DIR}/"))
        node = {_FREE if is_free else _RECORD: json.loads(data)}
        if not is_iceberg and any(find_parts([(0, node)], texts)):
            return True
        lines = [text for _, text in _walk(node, ())]
        return has_any(pa.array(lines, pa.string()), texts)
    if b"\0" in data:
        raise UnicodeError("no text in UTF-8")
    text = data.decode()
    lines = [_encodable(_with_inner(line)) for line in text.splitlines()]
    numbers = not name.startswith(f"{MANIFEST_DIR}/") and texts.names_column(text)
    return has_any(pa.array(lines, pa.string()), texts, numbers=numbers)
