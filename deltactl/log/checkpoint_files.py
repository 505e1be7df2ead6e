"""The files of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.storage.store import FileInfo


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: all parts of one kind at one version. Sidecars are not included."""

    version: int
    kind: str
    format: str
    files: tuple[FileInfo, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parts in the store."""
        return tuple(info.name for info in self.files)
