"""Find the commits that restored an earlier version, and what they undid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deltactl.log.history.columns import as_long

_RESTORE: Final = "RESTORE"


@dataclass(slots=True)
class Restores:
    """The versions whose commits restored an older one, each with that version.

    ``targets`` are restored as a whole, and ``parts`` with a predicate. ``counts`` are the numbers
    of files after the former, by their metrics.
    """

    targets: dict[int, int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def take(self, version: int, info: Mapping[str, Any]) -> None:
        """Add the commit of a version, if it is one; a restore to a time names no version."""
        parameters = info.get("operationParameters")
        if info.get("operation") != _RESTORE or not isinstance(parameters, dict):
            return
        target = as_long(parameters.get("version"))
        if target is None or not 0 <= target < version:
            return
        if parameters.get("predicate"):
            self.parts[version] = target
            return
        self.targets[version] = target
        metrics = info.get("operationMetrics")
        count = (
            as_long(metrics.get("numOfFilesAfterRestore")) if isinstance(metrics, dict) else None
        )
        if count is not None:
            self.counts[version] = count

    def find_undo(self, version: int) -> int | None:
        """Return the version that undid a commit: it restored a version from before this commit.

        It may have restored a part. ``None`` if there is none, or a later one restored a version
        from between the two.
        """
        later, kept = sorted(it for it in self.targets if it > version), None
        while later:
            found = later.pop()
            target = self.targets[found]
            if target < version:
                return found
            kept = target  # what comes after this version was undone
            later = [it for it in later if it <= target]
        parts = (it for it, target in self.parts.items() if target < version < it)
        return max((it for it in parts if kept is None or it <= kept), default=None)

    def describe(self, version: int) -> str:
        """Return what a version found by ``find_undo`` restored."""
        target = self.targets.get(version)
        if target is not None:
            return f"Version {version} restores version {target}, from before this commit"
        return (
            f"Version {version} restores a part of version {self.parts[version]}, from before this "
            "commit"
        )
