"""Options of ``checkpoint``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from deltactl.errors import UsageError
from deltactl.log.checkpoint.compat import Compat
from deltactl.operations.thresholds import Need, need_of
from deltactl.option_fields import ensure_declared, execution_option, selection_option
from deltactl.option_names import option

Kind: TypeAlias = Literal["auto", "classic", "v2"]
TopFormat: TypeAlias = Literal["json", "parquet"]


LAST_COMMITS: Final = "auto"
_RANGE: Final = re.compile(r"([0-9]{1,19})\.\.([0-9]{1,19})")


def to_range(versions: bool | str) -> bool | tuple[int, int]:
    """Return the versions of ``FROM..TO``; true for ``auto``.

    Raises:
        UsageError: it is neither, or does not have two versions.
    """
    if isinstance(versions, bool) or versions == LAST_COMMITS:
        return bool(versions)
    match = _RANGE.fullmatch(versions)
    if match is None or int(match[1]) >= int(match[2]):
        raise UsageError(
            f"{versions!r} is not a range of at least two versions", hint='Write "3..7".'
        )
    return int(match[1]), int(match[2])


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """Parsed options of ``checkpoint``.

    ``version`` ``None`` is the latest. With ``version``, ``cleanup_only`` cleans up the log to the
    checkpoint of that version. ``if_enabled``: do not clean up if the newest version has
    ``delta.enableExpiredLogCleanup`` set to false. ``if_due``: write a checkpoint only if
    ``delta.checkpointInterval`` or a wrong ``_last_checkpoint`` requires it. ``sidecar_rows`` is
    the maximum number of file actions of a sidecar.
    """

    version: int | None = selection_option(
        None,
        "Write a checkpoint of this version",
        default="the latest",
        least=0,
        is_for_one_table=True,
        is_basic=True,
    )
    kind: Kind = execution_option(
        "auto",
        "Kind of the checkpoint. auto: v2 if delta.checkpointPolicy is v2 and the protocol has the "
        "feature v2Checkpoint, else classic",
        is_settable=True,
        table_property="delta.checkpointPolicy",
    )
    sidecar_rows: int = 50_000
    top_format: TopFormat = "json"
    compat: Compat = execution_option(
        "default",
        "Form of the checkpoint files. default: readable by every Delta reader. spark: the columns "
        "are the same as in checkpoints of Delta on Spark. plain: as default, but with no "
        "dictionary encoding and no compression",
        is_settable=True,
    )
    cleanup: bool = execution_option(
        False,
        "After the checkpoint, delete log files older than delta.logRetentionDuration",
        is_basic=True,
    )
    cleanup_only: bool = execution_option(
        False, "Delete log files as --cleanup does, but write no checkpoint"
    )
    if_enabled: bool = False
    if_due: bool = False
    truncates: ClassVar[bool] = False
    compact_log: Annotated[bool | tuple[int, int], to_range] = execution_option(
        False,
        "Also write one compacted log file, of the commits FROM to TO. Without a range: of the "
        "commits after the previous checkpoint, up to the version of the new one",
        metavar="[FROM..TO]",
        default="",
        bare=LAST_COMMITS,
    )
    need: Annotated[Need, need_of("commits")] | None = selection_option(
        None,
        "Run only if there are at least N commits since the last checkpoint",
        flag="if-needed",
        metavar="commits=N",
        is_repeated=True,
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        if self.sidecar_rows <= 0:
            raise UsageError("sidecar_rows must be more than zero")
        if self.cleanup_only and (self.cleanup or self.compact_log or self.kind != "auto"):
            raise UsageError(
                f"{option('cleanup_only')} cannot be combined with {option('cleanup')}, "
                f"{option('compact_log')} or {option('kind')}, because {option('cleanup_only')} "
                "writes no checkpoint"
            )


class TruncationOptions(CheckpointOptions):
    """Options of a cleanup with the retention of TRUNCATE HISTORY, which is shorter."""

    __slots__ = ()
    truncates: ClassVar[bool] = True
