"""Search texts: actions of the log that name no file, and files that are neither data nor log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.operations.erased.report import RECORDS, Where
from deltactl.operations.erased.sought import Sought, count_true
from deltactl.parquet.nested import walk_arrays

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
_SCHEMAS: Final = frozenset({
    "schemaString", "checkpointSchema", "schema", "schemas", "partition-spec", "partition-specs"
})  # fmt: skip
_NO_TEXTS_OF_FIELDS: Final = frozenset({"name", "type", "delta.columnMapping.physicalName"})
_RECORD: Final = "record"
_ICEBERG: Final = "Iceberg"
_MAPS: Final = frozenset({
    "configuration", "operationParameters", "properties", "refs", "summary", "tags"
})  # fmt: skip
# Of PROTOCOL.md: actions, and members of checksums and of `_last_checkpoint`.
_WORDS: Final = frozenset({
    "add", "remove", "cdc", "commitInfo", "domainMetadata", "metaData", "metadata", "protocol",
    "txn", "checkpointMetadata", "sidecar", "setTransactions", "allFiles", "txnId",
    "checkpointSchema", "tableSizeBytes", "numFiles", "numMetadata", "numProtocol",
    "inCommitTimestampOpt", "fileSizeHistogram", "histogramOpt", "version", "size", "parts",
    "sizeInBytes", "numOfAddFiles", "checksum", "tags", "v2Checkpoint",
})  # fmt: skip
_ICEBERG_WORDS: Final = re.compile(
    r"main|operation|(?:added|changed|deleted|engine|entries|manifests|removed|total)-[a-z-]+"
)
_FIELD_VALUES: Final = (
    "CURRENT_DEFAULT",
    "EXISTS_DEFAULT",
    "comment",
    "delta.generationExpression",
    "delta.invariants",
    "delta.identity.highWaterMark",
    "delta.identity.start",
)
_PARTS: Final = (
    "domainMetadata", "operationParameters", "userMetadata", "schemaString", "configuration",
    "commitInfo", "txn", "metaData",
)  # fmt: skip
_SCHEMAS_OF_FOOTERS: Final = ("schema", ".row.metadata")  # of Avro, Iceberg; of Spark
_NO_TEXTS_OF_FOOTERS: Final = frozenset({
    "ARROW:schema", "PARQUET:field_id", "org.apache.spark.version", "writer.model.name"
})  # fmt: skip
_OF_PROGRAMS: Final = (Where.MANIFESTS, *RECORDS)
_MOST_JSON_BYTES: Final = 64 << 20
_BLOCK_CHARACTERS: Final = 4 << 20
_OVERLAP_CHARACTERS: Final = 64 << 10


def find_parts(nodes: Sequence[tuple[int, Any]], sought: Sought) -> Iterator[tuple[int, str]]:
    """Yield the index of the file and the name of the part, for each text that has a value."""
    known = nodes if sought.is_known else ()
    rows = [(index, *found) for index, node in known for found in _walk(node, ())]
    texts = pa.array([text for _, _, text in rows], pa.string())
    means_value = pa.array([_means_value(keys, sought) for _, keys, _ in rows], pa.bool_())
    numbers = pc.coalesce(means_value, sought.name_a_column(texts))
    for place in pc.indices_nonzero(sought.in_texts(texts, numbers)).to_pylist():
        index, keys, _ = rows[place]
        yield index, next((it for it in _PARTS if it in keys), "text")


def _walk(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if keys and _has_no_value(keys, value):
        return
    match value:
        case dict():
            for key, member in value.items():
                if _is_free(key, keys):
                    yield keys, _encodable(str(key))
                yield from _walk(member, (*keys, str(key)))
        case list():
            within = () if keys[-1:] == ("nonFileActions",) else keys  # actions, as in a commit
            for member in value:
                yield from _walk(member, within)
        case str() if keys[-1:] == ("schemaString",) and value.startswith("{"):
            yield from _walk(json.loads(value), keys)
        case str():
            yield keys, _encodable(value)
        case int() | float() if not isinstance(value, bool):
            yield keys, str(value)


def _is_free(key: str, keys: tuple[str, ...]) -> bool:
    """Return whether a key is a text of a user: in a map, and not a word of a specification."""
    if not keys:
        return key not in _WORDS and key not in (_RECORD, _ICEBERG)
    if keys[0] == _ICEBERG:
        return keys[-1] in _MAPS and not _ICEBERG_WORDS.fullmatch(key)
    return keys[-1] in _MAPS or keys[0] not in _WORDS


def _has_no_value(keys: tuple[str, ...], value: Any) -> bool:
    if keys[0] in _NO_ACTIONS:
        return True
    if not _SCHEMAS.isdisjoint(keys):
        return isinstance(value, str) and keys[-1] in _NO_TEXTS_OF_FIELDS
    return len(keys) == 2 and keys[1] in _NO_VALUES.get(keys[0], ())


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _means_value(keys: tuple[str, ...], sought: Sought) -> bool | None:
    """Return whether a number can be a value; ``None``: if the text names a column."""
    if "schemaString" in keys:
        return keys[-1] in _FIELD_VALUES
    if "configuration" in keys and keys[0] != "domainMetadata":
        return keys[-1].startswith("delta.constraints.") or not keys[-1].startswith("delta.")
    last = keys[-1] if keys else ""
    is_free = last in ("userMetadata", "description") or "redicate" in last
    return is_free or (keys[:1] == ("commitInfo",) and last in sought.names) or None


def footer_has_value(footer: pq.FileMetaData, schema: pa.Schema, sought: Sought) -> bool:
    """Return whether key-value metadata have a value: of file, column chunks, fields of Arrow."""
    if not sought.is_known:
        return False
    found = [*(footer.metadata or {}).items(), *(schema.metadata or {}).items()]
    found += [it for field in _walk_fields(schema) for it in (field.metadata or {}).items()]
    groups = map(footer.row_group, range(footer.num_row_groups))
    chunks = (group.column(it) for group in groups for it in range(footer.num_columns))
    found += [it for chunk in chunks for it in (chunk.metadata or {}).items()]
    texts = dict.fromkeys((_decoded(key), _decoded(value)) for key, value in found)
    nodes = [(0, node) for key, text in texts if (node := _node_of(key, text)) is not None]
    return any(find_parts(nodes, sought))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _walk_fields(parent: Iterable[pa.Field]) -> Iterator[pa.Field]:
    for field in parent:
        yield field
        kind = field.type
        yield from _walk_fields(kind.field(it) for it in range(kind.num_fields))


def _node_of(key: str, text: str) -> Any:
    """Return key-value metadata in the form of an action that has such a text; ``None``: no text.

    Names of columns and types in a schema are no values.
    """
    if key in _NO_TEXTS_OF_FOOTERS:
        return None
    if text.startswith("{") and (key == "pandas" or key.endswith(_SCHEMAS_OF_FOOTERS)):
        with suppress(ValueError, RecursionError):  # a user may give such a key another text
            node = json.loads(text)
            if key != "pandas":
                return {"metaData": {"schemaString": text}}
            attributes = node.get("attributes")
            return {"add": {"tags": {key: json.dumps(attributes)}}} if attributes else None
    return {"add": {"tags": {key: text}}}


def iceberg_mask(names: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return which names are of metadata of Iceberg."""
    files = r"[^/]*\.(?:avro|metadata\.json|puffin|stats)|version-hint\.text"
    return pc.match_substring_regex(names, f"(?:^|/)metadata/(?:{files})$")


def file_has_value(name: str, place: str, source: pa.NativeFile, sought: Sought) -> bool:
    """Return whether a file has a value: Avro, columns of Parquet, JSON, or text.

    Raises:
        Exception: the content is none of these; libraries raise errors of many kinds.
    """
    # A text of a user may be a table of values, which names its columns once.
    is_users = place not in _OF_PROGRAMS and not iceberg_mask(pa.array([name]))[0].as_py()
    if name.endswith(".avro"):
        from deltactl.operations.erased.iceberg import manifest_has_value  # needs pyiceberg

        return manifest_has_value(name, source.read(), sought, is_users=is_users)
    if begins_as_parquet(source):
        with pq.ParquetFile(source) as parquet:
            columns = (it for batch in parquet.iter_batches() for it in batch.columns)
            texts = (it for column in columns for it in _strings(column))
            return any(count_true(sought.in_texts(it)) for it in texts)
    if not is_users and name.endswith(".json") and source.size() <= _MOST_JSON_BYTES:
        try:
            kind = _RECORD if place in _OF_PROGRAMS else _ICEBERG
            return any(find_parts([(0, {kind: json.loads(source.read())})], sought))
        except (ValueError, RecursionError):  # for example several documents
            source.seek(0)
    return _text_has_value(source, sought, has_numbers=place != Where.MANIFESTS, is_users=is_users)


def begins_as_parquet(source: pa.NativeFile) -> bool:
    """Return whether the content begins as a Parquet file does."""
    head = source.read(4)
    source.seek(0)
    return bool(head == b"PAR1")


def _strings(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the strings in a column, however nested."""
    for _, leaf in walk_arrays(column):
        values = leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            yield values.cast(pa.string())


def _text_has_value(
    source: pa.NativeFile, sought: Sought, *, has_numbers: bool, is_users: bool
) -> bool:
    """Search a text of any length in blocks; each begins with the end of the one before."""
    rest, names_column = "", False
    with TextIOWrapper(source, encoding="utf-8", newline="") as reader:
        for block in iter(partial(reader.read, _BLOCK_CHARACTERS), ""):
            if "\0" in block:
                raise UnicodeError("not text in UTF-8")
            text = rest + block
            # Programs write the name of a column beside its value.
            texts = pa.array([text] if is_users or not has_numbers else text.split("\n"))
            named = sought.name_a_column(texts)
            names_column = is_users and (names_column or count_true(named) > 0)
            numbers = pc.and_(pc.or_(named, names_column), has_numbers)
            if count_true(sought.in_texts(texts, numbers)):
                return True
            rest = block[-_OVERLAP_CHARACTERS:]
    return False
