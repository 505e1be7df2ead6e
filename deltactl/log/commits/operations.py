"""Collect the operations of commits."""

from __future__ import annotations

from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.visitors import Visitor


class OperationNames(Visitor):
    """The operations in the ``commitInfo`` of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[object] = set()

    def see(self, commit: CommitBytes) -> bool:
        """Take the operation."""
        if commit.info is not None:
            self.found.add(commit.info.get("operation"))
        return False
