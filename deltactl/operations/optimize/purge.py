"""Find the files that a purge rewrites: those with deleted rows or dropped columns.

Source: Delta on Spark's ``REORG TABLE ... APPLY (PURGE)``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.nested import walk_leaves
from deltactl.parquet.open_files import naming_file
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.schema import ArrayType, DeltaType, MapType, StructType, is_void
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store

_FILES_AT_A_TIME: Final = 10_000


def purge_mask(snapshot: Snapshot, files: pa.Table) -> Flags:
    """Return a mask of the files to rewrite; read footers if columns may have been dropped.

    Raises:
        DataFileError: a footer cannot be read.
    """
    vectors = files["deletion_vector"]
    cardinality = pc.struct_field(vectors, "cardinality")
    unknown = files["num_records"].is_null()
    deleted = pc.and_(vectors.is_valid(), pc.or_(unknown, pc.greater(cardinality, 0)))
    mask = np.asarray(pc.fill_null(deleted, False)).copy()
    if snapshot.metadata.column_mapping_mode == "none":
        return mask  # without column mapping no column can be dropped
    known = _known_leaves(snapshot)
    rows = np.flatnonzero(~mask)
    # In parts, so that not all names become Python objects at the same time.
    for part in np.split(rows, range(_FILES_AT_A_TIME, len(rows), _FILES_AT_A_TIME)):
        asked = files.select(["path", "size_bytes"]).take(pa.array(part)).to_pydict()
        facts = zip(asked["path"], asked["size_bytes"], strict=True)
        stale = each_in_parallel(lambda fact: bool(_leaves(snapshot.store, *fact) - known), facts)
        mask[part[np.fromiter(stale, dtype=np.bool_, count=len(part))]] = True
    return mask


def _known_leaves(snapshot: Snapshot) -> set[str]:
    """Return the dotted physical names of every leaf of the current schema."""
    metadata = snapshot.metadata
    leaves = {
        leaf
        for field in metadata.schema.fields
        if not is_void(field.type)
        for leaf in _type_leaves(field.physical_name, field.type)
    }
    return leaves | {name for name in snapshot.properties.row_tracking_columns if name}


def _type_leaves(prefix: str, delta_type: DeltaType) -> set[str]:
    match delta_type:
        case StructType(fields):
            return {
                leaf
                for field in fields
                for leaf in _type_leaves(f"{prefix}.{field.physical_name}", field.type)
            }
        case ArrayType(element):
            return _type_leaves(f"{prefix}.list.element", element)
        case MapType(key, value):
            entry = f"{prefix}.key_value"
            return _type_leaves(f"{entry}.key", key) | _type_leaves(f"{entry}.value", value)
        case _:
            return _arrow_leaves(prefix, arrow_type(delta_type, "physical"))


def _leaves(store: Store, path: str, size_bytes: int) -> set[str]:
    with naming_file(path):
        schema = parse_footer(store, path, size_bytes).metadata.schema.to_arrow_schema()
    return {leaf for field in schema for leaf in _arrow_leaves(field.name, field.type)}


def _arrow_leaves(prefix: str, kind: pa.DataType) -> set[str]:
    return {".".join(leaf.path) for leaf in walk_leaves(kind, (prefix,))}
