"""Options of ``check``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from deltactl.errors import UsageError


class Depth(IntEnum):
    """How thoroughly files are checked; each level includes those before it."""

    EXISTS = 0
    SIZES = 1
    FOOTERS = 2
    DATA = 3


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of a check.

    Args:
        version: check the files of this version; the latest if ``None``.
        all_versions: check the files of every version that the log can rebuild.
        depth: how thoroughly data files are checked.
        sample: the fraction of files to check, above 0 up to 1; the whole log is always checked.
        checkpoints: check redundant files of the log strictly: compare every checkpoint with the
            version rebuilt without it, and report a wrong ``_last_checkpoint`` or version checksum
            (with ``all_versions``, of any version) as a finding, not as a note.
        vectors: decode deletion vectors; ``Depth.DATA`` always does.
        proofs: calculate row digests in commits of layout runs again, and compare them.
        resume: a local file that records finished batches; an interrupted run resumes from it.
    """

    version: int | None = None
    all_versions: bool = False
    depth: Depth = Depth.SIZES
    sample: float = 1.0
    checkpoints: bool = False
    vectors: bool = False
    proofs: bool = False
    resume: str | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range and contradictory options."""
        if not 0 < self.sample <= 1:
            raise UsageError("the sample must be above 0% and at most 100%")
        if self.all_versions and self.version is not None:
            raise UsageError("give a version or all versions, not both")

    @property
    def decodes_vectors(self) -> bool:
        """Return whether deletion vectors are decoded."""
        return self.vectors or self.depth is Depth.DATA
