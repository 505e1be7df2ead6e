"""Define visitors: several of them take what they need while commits are read and parsed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.log.commits.contents import CommitBytes

if TYPE_CHECKING:  # Arrow is not needed to see the content of commits
    from deltactl.log.commits.parsed import ParsedCommits


class Visitor:
    """Takes what it needs of commits. It is given each commit once, and remembers which it saw."""

    def __init__(self) -> None:
        self.visited: set[int] = set()
        """The versions of the commits that were given to this visitor."""

    def see(self, commit: CommitBytes) -> bool:
        """Take the content of a commit; return whether :meth:`visit` needs its file actions.

        A commit that is needed, and then cannot be parsed, may be given again.
        """
        return True

    def visit(self, commits: ParsedCommits) -> None:
        """Take the file actions of commits for which ``see`` returned true."""


class Visits:
    """Know which visitor needs the file actions of which commit, until it gets them."""

    def __init__(self, visitors: Sequence[Visitor]) -> None:
        self._needed: list[tuple[Visitor, set[int]]] = [(visitor, set()) for visitor in visitors]

    def ask(self, file: CommitBytes) -> bool:
        """Show a commit to the visitors; return whether one of them needs its file actions."""
        version = file.version
        if version is None:  # a log compaction file, which is no commit
            return False
        is_needed = False
        for visitor, needed in self._needed:
            if version in visitor.visited:
                continue
            if visitor.see(file):
                needed.add(version)
                is_needed = True
            else:
                visitor.visited.add(version)
        return is_needed

    def give(self, commits: ParsedCommits) -> None:
        """Give parsed commits to the visitors that need them."""
        for visitor, needed in self._needed:
            chosen = needed.intersection(commits.versions)
            if chosen:
                visitor.visit(commits.select(chosen))
                visitor.visited |= chosen
                needed.difference_update(chosen)
