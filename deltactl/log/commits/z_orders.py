"""Find the files that Z-order commits added.

Delta on Spark does not tag such files, so only ``commitInfo`` shows them.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor


class ZOrderCommits(Visitor):
    """Collects the paths that Z-order commits added."""

    def __init__(self) -> None:
        super().__init__()
        self._paths: list[pa.ChunkedArray] = []
        self._versions: list[pa.ChunkedArray] = []

    def see(self, commit: CommitBytes) -> bool:
        """Return whether a commit is a Z-order: Spark writes the columns, delta-rs the strategy."""
        if b'"zOrderBy"' not in commit.data and b'"zOrder"' not in commit.data:
            return False
        info = commit.info or {}
        parameters, metrics = info.get("operationParameters"), info.get("operationMetrics")
        if isinstance(parameters, dict) and parameters.get("zOrderBy") not in (None, "[]", ""):
            return True
        return isinstance(metrics, dict) and metrics.get("plannerStrategy") == "zOrder"

    def visit(self, commits: ParsedCommits) -> None:
        """Take the paths of added files."""
        self._paths.append(commits.adds["path"])
        self._versions.append(commits.adds["version"])

    def paths(self, versions: Collection[int]) -> pa.ChunkedArray:
        """Return the paths that the Z-order commits among these versions added."""
        chosen = pa.array(versions, pa.int64())
        chunks = [
            chunk
            for paths, added_in in zip(self._paths, self._versions, strict=True)
            for chunk in paths.filter(pc.is_in(added_in, value_set=chosen)).chunks
        ]
        return pa.chunked_array(chunks, pa.string())
