"""What to check, and how deep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from deltactl.errors import UsageError


class Depth(IntEnum):
    """How far files are looked into; each includes those before it."""

    EXISTS = 0
    SIZES = 1
    FOOTERS = 2
    DATA = 3


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of a check.

    Args:
        version: whose files; the latest when ``None``.
        all_versions: files of every version that the log can rebuild.
        depth: how far data files are looked into.
        sample: the part of the files to look into, above 0 up to 1; the log is checked whole.
        checkpoints: be strict about what the log keeps twice: compare every checkpoint with the
            version rebuilt without it, and take what is wrong with the hint or with a version
            checksum (of all versions, those of all) for a finding, not for a note.
        vectors: decode deletion vectors, which ``Depth.DATA`` always does.
        resume: a local file that keeps what is done; an interrupted run goes on from there.
    """

    version: int | None = None
    all_versions: bool = False
    depth: Depth = Depth.SIZES
    sample: float = 1.0
    checkpoints: bool = False
    vectors: bool = False
    resume: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not 0 < self.sample <= 1:
            raise UsageError("the sample is a part of the files: above 0% up to 100%")
        if self.all_versions and self.version is not None:
            raise UsageError("give a version or all versions, not both")

    @property
    def decodes_vectors(self) -> bool:
        """Whether deletion vectors are decoded."""
        return self.vectors or self.depth is Depth.DATA
