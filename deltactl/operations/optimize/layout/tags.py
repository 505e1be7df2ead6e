"""Read and write tags that show how the rows of a file were placed, and by which run.

Tables with clustering columns get the tags of Delta on Spark, other tables get tags of deltactl.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast, get_args
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import NewFile
from deltactl.numpy_types import Flags, Integers
from deltactl.operations.optimize.layout.request import LayoutRequest, find_columns
from deltactl.operations.optimize.options import Layout
from deltactl.operations.row_proofs import PATH_TAG
from deltactl.protocol.arrow_schemas import array_of
from deltactl.protocol.partitions import lookup_map

LAYOUT_TAG: Final = "deltactl.layout"
COLUMNS_TAG: Final = "deltactl.layoutColumns"
RUN_TAG: Final = "deltactl.layoutRun"
CLUSTER_TAG: Final = "deltactl.layoutCluster"

CUBE_TAG: Final = "ZCUBE_ID"
CUBE_COLUMNS_TAG: Final = "ZCUBE_ZORDER_BY"
LIQUID: Final = "liquid"

_BETWEEN: Final = "\n"


@dataclass(frozen=True, slots=True)
class ClusterTags:
    """The tags of the files of one cluster, which one run placed together."""

    request: LayoutRequest
    run_id: str
    number: int

    def mark(self, file: NewFile) -> NewFile:
        """Return a file with tags; tags of deltactl contain its path, to recognize copied tags."""
        cluster = f"{self.run_id}-{self.number}"
        if self.request.kind == "liquid":
            cube = {
                CUBE_TAG: str(uuid5(NAMESPACE_URL, cluster)),
                CUBE_COLUMNS_TAG: encode_names(self.request.names),
            }
            return replace(file, tags={**file.tags, **cube}, clustering_provider=LIQUID)
        tags = {
            LAYOUT_TAG: self.request.layout,
            COLUMNS_TAG: _encode_columns(self.request.paths),
            RUN_TAG: self.run_id,
            CLUSTER_TAG: cluster,
            PATH_TAG: file.path,
        }
        return replace(file, tags={**file.tags, **tags})


def encode_names(names: Sequence[str]) -> str:
    """Return column names as Delta on Spark writes them into tags and commits."""
    return json.dumps(list(names), separators=(",", ":"), ensure_ascii=False)


def _encode_columns(paths: Sequence[tuple[str, ...]]) -> str:
    return json.dumps([list(path) for path in paths], separators=(",", ":"), ensure_ascii=False)


def number_tags(texts: pa.Array | pa.ChunkedArray) -> tuple[Integers, pa.Array]:
    """Return for each file the number of its text, -1 for none, and the distinct texts."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    numbers = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
    return numbers, encoded.dictionary


def is_laid_out(files: pa.Table) -> Flags:
    """Return a mask of files with valid tags of deltactl (not copied by another tool)."""
    own = pc.equal(lookup_map(files["tags"], PATH_TAG), files["path"])
    return np.asarray(pc.fill_null(own, False)).astype(np.bool_)


def number_layouts(
    snapshot: Snapshot, files: pa.Table
) -> tuple[Integers, tuple[LayoutRequest, ...]]:
    """Return for each file the number of its layout by tags of deltactl, and the layouts.

    The number is -1 for a file without tags, and for layouts by dropped columns.
    """
    texts = pc.binary_join_element_wise(
        lookup_map(files["tags"], LAYOUT_TAG), lookup_map(files["tags"], COLUMNS_TAG), _BETWEEN
    )
    missing = pa.scalar(None, pa.string())
    codes, names = number_tags(pc.if_else(array_of(is_laid_out(files)), texts, missing))
    requests = [_parse(snapshot, text) for text in names.to_pylist()]
    known = np.array([request is not None for request in requests], np.bool_)
    number_of = np.where(known, np.cumsum(known) - 1, -1)
    numbers = np.append(number_of, -1)[codes]  # the last is for code -1
    return numbers, tuple(request for request in requests if request is not None)


def _parse(snapshot: Snapshot, text: str) -> LayoutRequest | None:
    """Return the layout in tags, if rows can be placed by it."""
    layout, _, columns = text.partition(_BETWEEN)
    if layout not in get_args(Layout):
        return None
    try:
        paths = [tuple(map(str, path)) for path in json.loads(columns)]
    except (ValueError, TypeError, RecursionError):
        return None
    found = find_columns(snapshot, paths)
    return LayoutRequest("cluster", cast("Layout", layout), found) if found else None


def has_layout(files: pa.Table, request: LayoutRequest) -> Flags:
    """Return a mask of the files that were placed with this layout and these columns."""
    if request.kind == "liquid":
        columns = lookup_map(files["tags"], CUBE_COLUMNS_TAG)
        same = pc.and_(
            pc.equal(files["clustering_provider"], LIQUID),
            pc.and_(
                pc.equal(columns, encode_names(request.names)),
                lookup_map(files["tags"], CUBE_TAG).is_valid(),
            ),
        )
        return np.asarray(pc.fill_null(same, False)).astype(np.bool_)
    same = pc.and_(
        pc.equal(lookup_map(files["tags"], LAYOUT_TAG), request.layout),
        pc.equal(lookup_map(files["tags"], COLUMNS_TAG), _encode_columns(request.paths)),
    )
    return is_laid_out(files) & np.asarray(pc.fill_null(same, False)).astype(np.bool_)


def is_clustered_otherwise(files: pa.Table, request: LayoutRequest) -> Flags:
    """Return a mask of files in a liquid table with other cube columns, or another provider."""
    columns = lookup_map(files["tags"], CUBE_COLUMNS_TAG)
    other = pc.not_equal(columns, encode_names(request.names))
    foreign = pc.not_equal(files["clustering_provider"], LIQUID)
    found = pc.or_(pc.fill_null(other, False), pc.fill_null(foreign, False))
    return np.asarray(found).astype(np.bool_)
