"""Define the policy of ``maintain`` for a table: enabled actions, and options of these actions.

The command line reads it from settings only, such as the section ``[maintain]`` of
``deltactl.toml``. This module imports no large packages, because each command line reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Literal, TypeAlias, get_args

from deltactl.errors import UsageError
from deltactl.option_fields import ensure_declared, setting
from deltactl.protocol.column_names import Columns
from deltactl.units import Duration, SizeBytes

ActionName: TypeAlias = Literal["manifest", "vacuum", "optimize", "checkpoint", "log-cleanup"]

ACTIONS: Final[tuple[ActionName, ...]] = get_args(ActionName)
"""All actions, in the safe order.

The vacuum is before all actions that may clean up the log, also after their commits: it finds
removed files in the commits. What it deletes expired before the run. Manifests are before it, as it
keeps the files that they list.
"""


def to_actions(actions: str | Collection[str]) -> frozenset[ActionName]:
    """Return actions by their names; in a text, commas separate them.

    Raises:
        UsageError: there is no such action.
    """
    parts = actions.split(",") if isinstance(actions, str) else actions
    names = [part.strip().lower() for part in parts if part.strip()]
    unknown = [name for name in names if name not in ACTIONS]
    if unknown:
        raise UsageError(
            f"there is no action {unknown[0]!r}", hint=f"Use one or more of: {', '.join(ACTIONS)}."
        )
    return frozenset(name for name in ACTIONS if name in names)


_FIXED: Final = "Remove the key: this value is fixed now (docs/maintain.md)."
OLD_KEYS: Final[Mapping[str, str]] = {
    "window": "Start maintain at the wanted time, and limit its time with --budget 6h.",
    "cool-down": "Start maintain less often: the scheduler decides.",
    "checkpoint-after": "Set the table property delta.checkpointInterval.",
    "min-files": _FIXED,
    "min-unclustered": _FIXED,
    "min-log-files": _FIXED,
    "min-reclaim": _FIXED,
    "weight-files": _FIXED,
    "weight-requests": _FIXED,
    "weight-freed": _FIXED,
    "weight-skipping": _FIXED,
    "cost-data": _FIXED,
    "cost-seconds": _FIXED,
    "cost-requests": _FIXED,
}
"""Keys that a policy had, each with what replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainPolicy:
    """The policy for a table; sizes in bytes.

    ``None``: the table properties decide. The defaults are safe: files are removed after the
    retention of the table, and rows are placed only by the clustering columns of the table.
    """

    actions: Annotated[Collection[ActionName], to_actions] = setting(
        ACTIONS,
        "The actions that may run",
        metavar="ACTIONS",
        default=",".join(ACTIONS),
        is_repeated=True,
    )
    skip_hot: Duration = setting(
        timedelta(minutes=30), "Skip partitions that were written within this time", metavar="AGE"
    )
    target_bytes: SizeBytes | None = setting(
        None,
        "Target size of files",
        flag="target-size",
        table_property="delta.targetFileSize",
        least=1,
    )
    min_file_bytes: SizeBytes | None = setting(
        None, "Smaller files count as small", flag="min-file-size", least=0
    )
    max_deleted_rows_ratio: float = setting(
        0.05, "Rewrite files with a larger share of deleted rows", least=0, most=1
    )
    cluster_columns: Columns | None = setting(
        None, "Columns to cluster rows by", metavar="COLUMNS", sets="cluster_by"
    )
    retain: Duration | None = setting(
        None,
        "Retention of the vacuum; not less than that of the table",
        table_property="delta.deletedFileRetentionDuration",
    )
    list_files: Literal["auto", "always", "never"] = setting(
        "auto", "Whether to list a table's files"
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
