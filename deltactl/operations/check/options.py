"""Options of ``check``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, Literal

from deltactl.errors import UsageError
from deltactl.option_fields import ensure_declared, execution_option, selection_option


class Depth(IntEnum):
    """How thoroughly files are checked; each level includes those before it."""

    EXISTS = 0
    SIZES = 1
    FOOTERS = 2
    DATA = 3


NAMES: Final = tuple(it.name.lower() for it in Depth)


def to_depth(depth: Depth | Literal["exists", "sizes", "footers", "data"]) -> Depth:
    """Return a depth, or the one with this name."""
    return depth if isinstance(depth, Depth) else Depth[depth.upper()]


def to_share(share: float | str) -> float:
    """Return a share, or that of a percentage such as ``5%``.

    Raises:
        UsageError: it is no percentage.
    """
    if not isinstance(share, str):
        return share
    number, percent, rest = share.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not percent or rest or not value > 0:
        raise UsageError(f"{share!r} is not a percentage of the files", hint='Write "5%".')
    return value / 100


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of a check; the whole log is always checked.

    ``sample`` is a share above 0 and up to 1: 0.05 is 5%. At least one file is checked.

    Without ``version`` and ``all_versions``, the files of the latest version are checked.
    """

    version: int | None = selection_option(
        None,
        "Check the files of this version",
        default="the latest",
        least=0,
        is_for_one_table=True,
        is_basic=True,
    )
    all_versions: bool = selection_option(
        False, "Check the files of every version in the log", is_basic=True
    )
    depth: Annotated[Depth, to_depth] = selection_option(
        Depth.SIZES,
        "How to check data files. exists: check that each file exists. sizes: also compare its "
        "size with the log. footers: also compare its footer with the statistics in the log. data: "
        "also decode all rows",
        flag="files",
        default="sizes",
        choices=NAMES,
        is_basic=True,
    )
    sample: Annotated[float, to_share] = selection_option(
        1.0,
        "Check only this share of the files, e.g. 5%",
        metavar="PERCENT",
        default="",
        is_basic=True,
    )
    checkpoints: bool = selection_option(
        False,
        "Compare every checkpoint with the commits. Also report errors in _last_checkpoint and in "
        "checksum files as findings, not as notes",
        is_basic=True,
    )
    vectors: bool = selection_option(
        False,
        "Decode all deletion vectors. With --files data, deltactl always decodes them",
        flag="dvs",
    )
    proofs: bool = selection_option(
        False,
        "Compute row digests again for files that were written by optimize with --cluster-by or "
        "--zorder-by. Compare the results with the digests in the log",
    )
    published_only: bool = selection_option(
        False,
        "Without its catalog, decode the rows of a catalogManaged table as far as its commits are "
        "published",
    )
    resume: str | None = execution_option(
        None,
        "Record the progress of the check in this local file, until the check is complete. If the "
        "file has the progress of an interrupted check, continue that check",
        metavar="FILE",
        is_for_one_table=True,
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        if not 0 < self.sample <= 1:
            raise UsageError(
                f"the sample must be above 0% and at most 100%, but is {self.sample * 100:.4g}%",
                hint='Write "5%". From Python, the number 0.05 is the same.',
            )
        if self.all_versions and self.version is not None:
            raise UsageError("give a version or all versions, not both")

    @property
    def decodes_vectors(self) -> bool:
        """Return whether deletion vectors are decoded."""
        return self.vectors or self.depth is Depth.DATA
