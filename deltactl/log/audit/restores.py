"""Find the commits that restored an earlier version, and what they undid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deltactl.log.history.columns import as_long

_RESTORE: Final = "RESTORE"


@dataclass(slots=True)
class Restores:
    """The versions whose commits restored an older one as a whole, each with that version."""

    targets: dict[int, int] = field(default_factory=dict)

    def take(self, version: int, info: Mapping[str, Any]) -> None:
        """Add the commit of a version, if it is one; a restore to a time names no version."""
        parameters = info.get("operationParameters")
        if info.get("operation") != _RESTORE or not isinstance(parameters, dict):
            return
        target = as_long(parameters.get("version"))
        if target is not None and 0 <= target < version and not parameters.get("predicate"):
            self.targets[version] = target

    def find_undo(self, version: int) -> int | None:
        """Return the version that undid a commit: it restored a version from before this commit.

        ``None`` if there is none, or a later one restored a version from between the two.
        """
        later = sorted(it for it in self.targets if it > version)
        while later:
            found = later.pop()
            target = self.targets[found]
            if target < version:
                return found
            later = [it for it in later if it <= target]
        return None
