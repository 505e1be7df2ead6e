"""Define the policy of ``maintain`` for a table: enabled actions, and options of these actions.

Each key has a text form for the section ``[maintain]`` of ``deltactl.toml``. This module imports no
large packages, because the command line reads the keys for ``deltactl config``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from deltactl.errors import UsageError
from deltactl.protocol.column_names import Columns
from deltactl.units import parse_duration, parse_size

ActionName: TypeAlias = Literal["optimize", "checkpoint", "manifest", "log-cleanup", "vacuum"]
Listing: TypeAlias = Literal["auto", "always", "never"]

ACTIONS: Final[tuple[ActionName, ...]] = get_args(ActionName)
"""All actions, in the safe order: actions that delete files are last."""


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """A key of the policy: its field, the default as text, and the description."""

    field: str
    default: str
    help: str
    parse: Callable[[str], Any]


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


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(
            f"{text!r} is not a number between 0 and 1", hint="Write 0.05, for example."
        )
    return value


def _unless_empty(text: str, parse: Callable[[str], Any]) -> Any:
    return parse(text) if text else None


def _listing(text: str) -> Listing:
    for name in get_args(Listing):
        if name == text.lower():
            chosen: Listing = name
            return chosen
    raise UsageError(f"{text!r} is not auto, always or never")


_maybe_size = partial(_unless_empty, parse=parse_size)
_maybe_time = partial(_unless_empty, parse=parse_duration)

KEYS: Final[Mapping[str, PolicyKey]] = {
    "actions": PolicyKey("actions", ",".join(ACTIONS), "The actions that may run", to_actions),
    "skip-hot": PolicyKey(
        "skip_hot_ms", "30min", "Skip partitions that were written within this time", parse_duration
    ),
    "target-size": PolicyKey("target_bytes", "", "Target size of files", _maybe_size),
    "min-file-size": PolicyKey("min_file_bytes", "", "Smaller files count as small", _maybe_size),
    "max-deleted-rows-ratio": PolicyKey(
        "max_deleted_rows_ratio",
        "0.05",
        "Rewrite files with a larger share of deleted rows",
        _share,
    ),
    "cluster-columns": PolicyKey(
        "cluster_columns", "", "Columns to cluster rows by", lambda text: text or None
    ),
    "retain": PolicyKey(
        "retain_ms", "", "Retention of the vacuum; not less than that of the table", _maybe_time
    ),
    "list-files": PolicyKey(
        "list_files", "auto", "Whether to list a table's files: auto, always, never", _listing
    ),
}  # fmt: skip
"""The keys of the policy, in the order in which they are shown."""

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
    """The policy for a table; times in ms, sizes in bytes.

    ``None``: the table properties decide. The defaults are safe: files are removed after the
    retention of the table, and rows are placed only by the clustering columns of the table.
    ``KEYS`` describes each field.
    """

    actions: frozenset[ActionName] = frozenset(ACTIONS)
    skip_hot_ms: int = 30 * 60 * 1000
    target_bytes: int | None = None
    min_file_bytes: int | None = None
    max_deleted_rows_ratio: float = 0.05
    cluster_columns: Columns | None = None
    retain_ms: int | None = None
    list_files: Listing = "auto"

    @classmethod
    def resolve(cls, find: Callable[[str], tuple[str, str] | None]) -> MaintainPolicy:
        """Build a policy from texts.

        ``find`` returns for a key the name of its source and the text; ``None`` if it is not set.

        Raises:
            UsageError: a text is not valid; the message names its source.
        """
        values: dict[str, Any] = {}
        for key, about in KEYS.items():
            found = find(key)
            if found is None:
                continue
            place, text = found
            try:
                values[about.field] = about.parse(text.strip())
            except UsageError as error:
                raise UsageError(f"{place}: {error.message}", hint=error.hint) from error
        return cls(**values)

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> MaintainPolicy:
        """Build a policy from keys and texts, as in a section ``[maintain]``.

        Raises:
            UsageError: there is no such key, or a text is not valid.
        """
        unknown = next((key for key in texts if key not in KEYS), None)
        if unknown is not None:
            raise UsageError(
                f"{unknown!r} is not a key of a policy",
                hint=OLD_KEYS[unknown]
                if unknown in OLD_KEYS
                else f"Use one or more of: {', '.join(KEYS)}.",
            )
        return cls.resolve(lambda key: (key, texts[key]) if key in texts else None)
