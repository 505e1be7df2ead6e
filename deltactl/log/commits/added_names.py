"""Collect the names of the files that commits add."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.protocol.deletion_vectors import vector_files


class AddedNames(Visitor):
    """Collects the names of the files and deletion vectors that commits after a version add."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after
        self._paths: list[pa.Array] = []
        self._vectors: list[pa.Array] = []

    def visit(self, commits: ParsedCommits) -> None:
        """Take the adds."""
        adds = commits.adds.filter(pc.greater(commits.adds["version"], self._after))
        self._paths += adds["path"].chunks
        self._vectors += vector_files(adds["deletion_vector"]).drop_null().chunks

    @property
    def paths(self) -> pa.ChunkedArray:
        """Return the names of data files."""
        return pa.chunked_array(self._paths, pa.string())

    @property
    def vectors(self) -> pa.ChunkedArray:
        """Return the names of files with deletion vectors."""
        return pa.chunked_array(self._vectors, pa.string())
