"""Convert file actions from the structs of the log (JSON or Parquet) to internal columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.protocol.arrow_schemas import (
    ADD_SCHEMA,
    DELETION_VECTOR_JSON_NAMES,
    DELETION_VECTOR_TYPE,
    JSON_NAMES,
    REMOVE_SCHEMA,
    STRING_MAP,
)
from deltactl.protocol.deletion_vectors import unique_ids
from deltactl.protocol.partitions import build_map
from deltactl.protocol.path_columns import decode_paths, normalize_paths


def adds_from_struct(column: pa.ChunkedArray) -> pa.Table:
    """Return rows of :data:`ADD_SCHEMA` from ``add`` structs that are not null.

    A member that a struct does not have is null.
    """
    return _from_struct(column, ADD_SCHEMA)


def removes_from_struct(column: pa.ChunkedArray) -> pa.Table:
    """Return rows of :data:`REMOVE_SCHEMA` from ``remove`` structs that are not null."""
    return _from_struct(column, REMOVE_SCHEMA)


ADD_MEMBERS: Final = ("partition_values", "size_bytes", "modification_time_ms", "data_change")
REMOVE_MEMBERS: Final = ("data_change",)
"""Members that every action has, besides ``path`` (PROTOCOL.md, "Add File and Remove File")."""

KEY_COLUMNS: Final = ("encoded_path", "deletion_vector")
"""The columns that :func:`file_keys` and :func:`text_keys` need."""


def file_keys(files: pa.Table) -> pa.ChunkedArray:
    """Return a string for each row: equal if and only if two rows name the same logical file.

    A key is (path, deletion vector id). The path is the path text after URI normalization, with
    unchanged escapes, as in Delta on Spark: ``p=%C3%A9/f`` and ``p=é/f`` are two files.

    ``files`` are rows with :data:`KEY_COLUMNS`.
    """
    return _with_vector_ids(normalize_paths(files["encoded_path"]), files["deletion_vector"])


def sized_file_keys(files: pa.Table) -> pa.ChunkedArray:
    """Return keys by path, vector and size: a file that was replaced in place has another size."""
    sizes = pc.fill_null(files["size_bytes"].cast(pa.string()), "")
    return pc.binary_join_element_wise(file_keys(files), sizes, " ")


def text_keys(files: pa.Table) -> pa.ChunkedArray:
    """Return the keys of :func:`file_keys` without URI normalization, as in Delta Kernel."""
    return _with_vector_ids(files["encoded_path"], files["deletion_vector"])


def decoded_names(files: pa.Table) -> pa.ChunkedArray:
    """Return the decoded name of each file, without ``.`` segments.

    All path texts of a file give the same name. So, unlike :func:`file_keys`, the names show that
    two writers refer to the same file with different texts.

    ``files`` are rows with ``path`` and ``encoded_path``.
    """
    encoded = files["encoded_path"]
    normal = normalize_paths(encoded)
    return files["path"] if normal is encoded else decode_paths(normal)


def sum_sizes(files: pa.Table) -> int:
    """Return the total size of files in bytes; null counts as zero."""
    return int(pc.sum(files["size_bytes"]).as_py() or 0)


def find_incomplete(files: pa.Table, members: Collection[str] = ADD_MEMBERS) -> Iterator[str]:
    """Yield the ``members`` of this table that a row does not have, as column names."""
    return (name for name in members if name in files.column_names and files[name].null_count)


def ensure_complete(files: pa.Table) -> None:
    """Refuse an add without a member that every reader needs.

    ``files`` are rows of ``ADD_SCHEMA`` with ``path``; absent columns are not checked.

    Raises:
        CorruptLogError: the message has the file and the member.
    """
    for name in find_incomplete(files):
        (path, *_) = files["path"].filter(files[name].is_null()).to_pylist()
        raise CorruptLogError(
            f"{path}: its {JSON_NAMES[name]} in the log is missing",
            hint="Run `deltactl check TABLE` to see the commit. Let its writer correct the table.",
        )


def _with_vector_ids(paths: pa.ChunkedArray, vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    if vectors.null_count == len(vectors):
        return paths
    ids = pa.chunked_array([unique_ids(chunk) for chunk in vectors.chunks], pa.string())
    # A file without a vector has no id: the joined string is null, and the path alone is the key.
    return pc.coalesce(pc.binary_join_element_wise(paths, ids, "\0"), paths)


def _from_struct(column: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    members = {column.type.field(i).name for i in range(column.type.num_fields)}
    arrays: dict[str, pa.ChunkedArray] = {}
    for field in schema:
        if field.name == "encoded_path":
            continue
        name = JSON_NAMES[field.name]
        if name in members:
            value = _member(column, name)
            arrays[field.name] = _convert(value, field)
        else:
            arrays[field.name] = pa.chunked_array([pa.nulls(len(column), field.type)])
    encoded = arrays["path"]
    if encoded.null_count:
        raise CorruptLogError("a file action of the log has no path")
    arrays["encoded_path"] = encoded
    arrays["path"] = decode_paths(encoded)
    return pa.table([arrays[name] for name in schema.names], schema=schema)


def _member(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    # The structs are filtered to valid rows. So it does not matter where the parent of a child is
    # null.
    return pa.chunked_array(
        [chunk.field(name) for chunk in column.chunks], column.type.field(name).type
    )


def _convert(value: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if field.type == STRING_MAP:
        convert = _to_map
    elif field.type == DELETION_VECTOR_TYPE:
        convert = _to_deletion_vector
    elif value.type == field.type:
        return value
    else:
        return value.cast(field.type)
    return pa.chunked_array([convert(chunk) for chunk in value.chunks], field.type)


def _to_map(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        return array if array.type == STRING_MAP else array.cast(STRING_MAP)
    if array.null_count == len(array):
        return pa.nulls(len(array), STRING_MAP)
    if array.type.num_fields == 0:
        offsets = pa.array([0] * (len(array) + 1), pa.int32())
        empty = pa.array([], pa.string())
        maps = pa.MapArray.from_arrays(offsets, empty, empty)
    else:
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        maps = build_map({name: array.field(name) for name in names})
    if array.null_count:
        return pc.if_else(array.is_valid(), maps, pa.scalar(None, STRING_MAP))
    return maps


def _to_deletion_vector(array: pa.Array) -> pa.Array:
    if array.null_count == len(array):
        return pa.nulls(len(array), DELETION_VECTOR_TYPE)
    members = {array.type.field(i).name for i in range(array.type.num_fields)}
    children = [
        array.field(name).cast(ours.type) if name in members else pa.nulls(len(array), ours.type)
        for name, ours in zip(DELETION_VECTOR_JSON_NAMES, DELETION_VECTOR_TYPE, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR_TYPE), mask=mask)
