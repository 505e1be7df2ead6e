"""Choose the names of source files in the clone, for many files at once.

Shallow: absolute paths, as in Delta on Spark. Deep: relative paths; a file outside of the root of
the source, or with an absolute path, gets a name with a hash of its address, which is the same in
every run.

Source: PROTOCOL.md, "Add File and Remove File", "Deletion Vectors".
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from hashlib import sha256
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.operations.clone.places import root_text
from deltactl.protocol.deletion_vectors import ABSOLUTE, UUID_RELATIVE, DeletionVector, vector_files
from deltactl.protocol.path_columns import absolute_mask, canonical_paths
from deltactl.protocol.paths import decode_path, encode_path
from deltactl.protocol.z85 import z85_encode
from deltactl.storage.names import parse_scheme
from deltactl.storage.store import Store

COPY_SCHEMA: Final = pa.schema([
    ("source", pa.string()), ("target", pa.string()), ("size_bytes", pa.int64()),
    ("modified_ms", pa.int64()),
])  # fmt: skip
"""A file to copy: its decoded names, and its size, null if the log does not have it.

``modified_ms``: the time that the source file had when it was copied before; null if it was not.
"""


def absolute_files(source: Store, files: pa.Table) -> pa.Table:
    """Return files of a source with absolute paths, and stored vectors with absolute addresses.

    ``files`` are rows of ``ADD_SCHEMA``.
    """
    root = root_text(source)
    inside = pc.invert(absolute_mask(files["path"]))
    files = _joined(files, "path", inside, root)
    files = _joined(files, "encoded_path", inside, encode_path(root))
    return _set_vectors(files, lambda vector: _absolute_vector(vector, root))


def _joined(files: pa.Table, column: str, mask: pa.ChunkedArray, root: str) -> pa.Table:
    """Put the root before the relative names of a column."""
    names = files[column]
    full = pc.binary_join_element_wise(root.rstrip("/"), names, "/")
    position = files.schema.get_field_index(column)
    return files.set_column(position, column, pc.if_else(mask, full, names))


def _absolute_vector(vector: DeletionVector, root: str) -> tuple[str, str]:
    if vector.storage_type != UUID_RELATIVE:
        return vector.storage_type, vector.path_or_inline_dv
    return ABSOLUTE, encode_path(f"{root.rstrip('/')}/{vector.file_name}")


def relative_files(source: Store, files: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return files of a source as files of a deep clone, and the copies (``COPY_SCHEMA``).

    ``files`` are rows of ``ADD_SCHEMA``.

    Raises:
        SafetyError: two live files would get the same name.
    """
    names = files["path"]
    is_absolute = absolute_mask(files["path"])
    paths, encoded = names, files["encoded_path"]
    if pc.any(is_absolute).as_py():
        scheme = parse_scheme(source.uri) or "file"
        found = canonical_paths(names.filter(is_absolute), scheme).to_pylist()
        new = pa.array([_own_name(name) for name in found], pa.string())
        mask = is_absolute.combine_chunks()
        paths = pa.chunked_array([pc.replace_with_mask(paths.combine_chunks(), mask, new)])
        encoded = pa.chunked_array([pc.replace_with_mask(encoded.combine_chunks(), mask, new)])
        _ensure_distinct(paths, files)
    nothing = pa.nulls(files.num_rows, pa.int64())
    copies = pa.table([names, paths, files["size_bytes"], nothing], schema=COPY_SCHEMA)
    vectors = vector_files(files["deletion_vector"])
    for name, column in (("path", paths), ("encoded_path", encoded)):
        files = files.set_column(files.schema.get_field_index(name), name, column)
    files = _set_vectors(files, lambda vector: _relative_vector(vector, source))
    copies = pa.concat_tables([copies, _vector_copies(vectors, files["deletion_vector"])])
    return files, _once(copies)


def _once(copies: pa.Table) -> pa.Table:
    """Return each file once, even if several vectors share it."""
    facts = [(name, "max") for name in COPY_SCHEMA.names[2:]]
    grouped = copies.group_by(["source", "target"]).aggregate(facts)
    return grouped.rename_columns(COPY_SCHEMA.names)


def _vector_copies(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.Table:
    """Return the stored vectors to copy: each file once, of unknown size."""
    targets = vector_files(after)
    stored = pc.is_valid(before)
    sources = before.filter(stored)
    nothing = pa.nulls(len(sources), pa.int64())
    return pa.table([sources, targets.filter(stored), nothing, nothing], schema=COPY_SCHEMA)


def _own_name(address: str) -> str:
    """Return the name in a deep clone of a data file with an absolute address."""
    ending = posixpath.splitext(posixpath.basename(address))[1]
    ending = ending if ending.isascii() and ending[1:].isalnum() else ".parquet"
    return f"clone-{sha256(address.encode()).hexdigest()[:32]}{ending}"


def _relative_vector(vector: DeletionVector, source: Store) -> tuple[str, str]:
    if vector.storage_type != ABSOLUTE:
        return vector.storage_type, vector.path_or_inline_dv
    scheme = parse_scheme(source.uri) or "file"
    name = decode_path(vector.path_or_inline_dv)
    (address,) = canonical_paths(pa.array([name]), scheme).to_pylist()
    return UUID_RELATIVE, z85_encode(UUID(bytes=sha256(address.encode()).digest()[:16]).bytes)


def _set_vectors(files: pa.Table, change: Callable[[DeletionVector], tuple[str, str]]) -> pa.Table:
    """Replace storage type and path of each distinct stored vector."""
    column = files["deletion_vector"]
    if column.null_count == len(column):
        return files
    vectors = column.combine_chunks()
    kinds = pc.struct_field(vectors, "storage_type")
    texts = pc.struct_field(vectors, "path_or_inline_dv")
    coded = pc.binary_join_element_wise(kinds, texts, "").dictionary_encode()
    changed = [
        change(DeletionVector(text[:1], text[1:], None, 0, 0))
        for text in coded.dictionary.to_pylist()
    ]
    new_kinds = pa.array([kind for kind, _ in changed], pa.string()).take(coded.indices)
    new_texts = pa.array([text for _, text in changed], pa.string()).take(coded.indices)
    fields = [vectors.type.field(i) for i in range(vectors.type.num_fields)]
    new = {"storage_type": new_kinds, "path_or_inline_dv": new_texts}
    arrays = [new.get(field.name, pc.struct_field(vectors, field.name)) for field in fields]
    rebuilt = pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.is_null(vectors))
    position = files.schema.get_field_index("deletion_vector")
    return files.set_column(position, "deletion_vector", pa.chunked_array([rebuilt]))


def _ensure_distinct(paths: pa.ChunkedArray, files: pa.Table) -> None:
    """Refuse a source with two addresses of one file: a clone would have its rows once."""
    if pc.count_distinct(paths).as_py() != pc.count_distinct(files["encoded_path"]).as_py():
        raise SafetyError(
            "the log of the source has two different absolute addresses for one file, so readers "
            "return its rows twice. A clone would have these rows only once",
            hint="Run `deltactl optimize` on the source, then clone it.",
        )
