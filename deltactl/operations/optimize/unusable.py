"""Find the bins with deletion vectors that cannot be used, and plan without them. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError
from deltactl.numpy_types import Flags
from deltactl.operations.optimize.plan import OptimizePlan
from deltactl.protocol.deletion_vectors import STORAGE_TYPES, DeletionVector


def find_unusable(plan: OptimizePlan) -> Mapping[int, DeltactlError]:
    """Return for each bin that cannot be rewritten the error of one of its deletion vectors."""
    vectors = plan.files["deletion_vector"]
    if vectors.null_count == len(vectors):
        return {}
    suspects = np.flatnonzero(_suspect_mask(vectors))
    bins = plan.files["bin"].to_numpy()[suspects]
    found: dict[int, DeltactlError] = {}
    for number, row in zip(bins.tolist(), suspects.tolist(), strict=True):
        if number not in found:
            try:
                DeletionVector(**vectors[row].as_py())
            except DeltactlError as error:
                found[number] = error
    return found


def drop_bins(plan: OptimizePlan, numbers: Collection[int]) -> OptimizePlan:
    """Return the plan without some of its bins, the others numbered again from 0."""
    if not numbers:
        return plan
    dropped = list(numbers)
    bins = plan.files["bin"].to_numpy()
    kept = ~np.isin(bins, dropped)
    files = plan.files.filter(pa.array(kept))
    again = np.unique(bins[kept], return_inverse=True)[1].astype(np.int64)
    index = files.schema.get_field_index("bin")
    files = files.set_column(index, "bin", pa.array(again, pa.int64()))
    layout = plan.layout
    if layout is not None:
        rest = [n for n in range(len(layout.files_after)) if n not in numbers]
        layout = replace(
            layout,
            files_after=tuple(layout.files_after[n] for n in rest),
            requests=tuple(layout.requests[n] for n in rest),
        )
    return replace(plan, files=files, layout=layout)


def _suspect_mask(vectors: pa.ChunkedArray) -> Flags:
    """Return a mask of the vectors of an unknown type, or with missing or negative numbers."""

    def field(name: str) -> pa.ChunkedArray:
        return pc.struct_field(vectors, name)

    is_known = pc.is_in(field("storage_type"), value_set=pa.array(STORAGE_TYPES))
    is_sound = pc.and_(
        pc.greater_equal(field("size_bytes"), 0),
        pc.greater_equal(pc.fill_null(field("offset"), 0), 0),
    )
    is_whole = pc.and_(field("path_or_inline_dv").is_valid(), field("cardinality").is_valid())
    is_usable = pc.and_(pc.and_(is_known, is_whole), pc.fill_null(is_sound, False))
    return np.asarray(pc.and_(vectors.is_valid(), pc.invert(is_usable))).astype(np.bool_)
