"""Find the files that Z-order commits added.

Delta on Spark does not tag such files, so only ``commitInfo`` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from deltactl.log.commits.info import parse_commit_info
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.parser import CommitParser, ParsedActions
from deltactl.protocol.names import commit_version


class ZOrderCommits:
    """The paths that Z-order commits added, of the commits that a parser reads."""

    def __init__(self) -> None:
        # Of all commits, by name of the commit. If a later commit cannot be read, a Z-order commit
        # may be in `_ordered`, but not parsed: then it is not here.
        self._paths: dict[str, list[pa.Array]] = {}
        self._ordered: set[str] = set()

    def pass_on(self, files: Iterable[CommitBytes]) -> Iterator[CommitBytes]:
        """Yield the files for the parser, and note which are Z-order commits."""
        for file in files:
            if commit_version(file.name) is not None:
                if _is_z_order(file):
                    self._ordered.add(file.name)
                else:
                    self._paths[file.name] = []
            yield file

    def add(self, parsed: ParsedActions) -> None:
        """Add the file actions of parsed commits."""
        if self._ordered.isdisjoint(parsed.names):
            return
        commits = parsed.find_commits(parsed.adds)
        for number, name in enumerate(parsed.names):
            if name in self._ordered:
                added = parsed.adds["path"].filter(pa.array(commits == number))
                self._paths[name] = added.chunks

    def parse(self, files: Iterable[CommitBytes]) -> None:
        """Add commits that no other parser reads."""
        ordered = (file for file in self.pass_on(files) if file.name in self._ordered)
        for parsed in CommitParser().parse(ordered):
            self.add(parsed)

    def has(self, name: str) -> bool:
        """Return whether a commit was read, and parsed if it is a Z-order."""
        return name in self._paths

    def paths(self, names: Iterable[str]) -> pa.Array:
        """Return the paths that the Z-order commits among the named commits added."""
        found = [chunk for name in names for chunk in self._paths[name]]
        return pa.concat_arrays(found) if found else pa.array([], pa.string())


def _is_z_order(file: CommitBytes) -> bool:
    """Return whether a commit is a Z-order: Spark writes the columns, delta-rs the strategy."""
    if b'"zOrderBy"' not in file.data and b'"zOrder"' not in file.data:
        return False
    info: Mapping[str, Any] = parse_commit_info(file.name, file.data) or {}
    parameters, metrics = info.get("operationParameters"), info.get("operationMetrics")
    if isinstance(parameters, dict) and parameters.get("zOrderBy") not in (None, "[]", ""):
        return True
    return isinstance(metrics, dict) and metrics.get("plannerStrategy") == "zOrder"
