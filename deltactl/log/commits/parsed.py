"""Commits with their file actions, as visitors get them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parser import ParsedActions
from deltactl.numpy_types import Integers
from deltactl.protocol.arrow_schemas import array_of


@dataclass(frozen=True, slots=True)
class ParsedCommits:
    """Commits and their file actions; the column ``version`` is that of the row's commit."""

    commits: Sequence[CommitBytes]
    versions: Sequence[int]
    adds: pa.Table
    removes: pa.Table

    @classmethod
    def of(cls, commits: Sequence[CommitBytes], parsed: ParsedActions) -> ParsedCommits:
        """Return the file actions of commits with their versions."""
        # Only commits: a log compaction file is parsed alone, and no visitor gets it.
        versions = [version for it in commits if (version := it.version) is not None]
        numbers: Integers = np.array(versions, np.int64)
        adds, removes = (
            files.append_column("version", array_of(numbers[parsed.find_commits(files)]))
            for files in (parsed.adds, parsed.removes)
        )
        return cls(commits, versions, adds, removes)

    def select(self, versions: Collection[int]) -> ParsedCommits:
        """Return only some of the versions, which must be among these."""
        if len(versions) == len(self.versions):
            return self
        chosen = pa.array(versions, pa.int64())
        adds, removes = (
            files.filter(pc.is_in(files["version"], value_set=chosen))
            for files in (self.adds, self.removes)
        )
        kept = [
            (commit, version)
            for commit, version in zip(self.commits, self.versions, strict=True)
            if version in versions
        ]
        return ParsedCommits([it for it, _ in kept], [it for _, it in kept], adds, removes)
