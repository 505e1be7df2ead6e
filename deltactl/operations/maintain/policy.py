"""Define the policy of ``maintain`` for a table: enabled actions, times, limits and weights.

Each key has a text form for the section ``[maintain]`` of ``deltactl.toml``. This module imports no
large packages, because the command line reads the keys for ``deltactl config``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from deltactl.errors import UsageError
from deltactl.operations.maintain.windows import Window, parse_windows
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


def parse_actions(text: str) -> frozenset[ActionName]:
    """Parse names of actions that commas separate.

    Raises:
        UsageError: there is no such action.
    """
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in ACTIONS]
    if unknown:
        raise UsageError(
            f"there is no action {unknown[0]!r}", hint=f"Use one or more of: {', '.join(ACTIONS)}."
        )
    return frozenset(name for name in ACTIONS if name in names)


def _whole(text: str, *, least: int = 0) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise UsageError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(
            f"{text!r} is not a number of at least 0", hint="Write a number such as 0.5 or 1."
        )
    return value


def _share(text: str) -> float:
    value = _weight(text)
    if value > 1:
        raise UsageError(f"{text!r} is not between 0 and 1")
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
_maybe_whole = partial(_unless_empty, parse=partial(_whole, least=1))

KEYS: Final[Mapping[str, PolicyKey]] = {
    "actions": PolicyKey("actions", ",".join(ACTIONS), "The actions that may run", parse_actions),
    "window": PolicyKey("windows", "", "When work may begin, with zone", parse_windows),
    "cool-down": PolicyKey(
        "cool_down_ms", "0s", "Minimum time between two runs that did work", parse_duration
    ),
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
    "min-files": PolicyKey(
        "min_files", "5", "Optimize a partition if it would then have this many files fewer", _whole
    ),
    "cluster-columns": PolicyKey(
        "cluster_columns", "", "Columns to cluster rows by", lambda text: text or None
    ),
    "min-unclustered": PolicyKey(
        "min_unclustered_bytes", "1GiB", "Cluster if this many bytes are not clustered", parse_size
    ),
    "checkpoint-after": PolicyKey(
        "checkpoint_after", "", "Commits after which a checkpoint is due", _maybe_whole
    ),
    "min-log-files": PolicyKey(
        "min_log_files", "20", "Clean up if this many log files are expired", _whole
    ),
    "retain": PolicyKey(
        "retain_ms", "", "Retention of the vacuum; not less than that of the table", _maybe_time
    ),
    "min-reclaim": PolicyKey(
        "min_reclaim_bytes", "1B", "Vacuum if this many bytes would be freed", parse_size
    ),
    "list-files": PolicyKey(
        "list_files", "auto", "Whether to list a table's files: auto, always, never", _listing
    ),
    "weight-files": PolicyKey("weight_files", "1", "Benefit of one file less to read", _weight),
    "weight-requests": PolicyKey(
        "weight_requests", "1", "Benefit of one request less for a reader", _weight
    ),
    "weight-freed": PolicyKey("weight_freed", "10", "Benefit of a GiB that is freed", _weight),
    "weight-skipping": PolicyKey(
        "weight_skipping", "10", "Benefit of a GiB that queries skip", _weight
    ),
    "cost-data": PolicyKey("cost_data", "10", "Cost of a GiB that is read or written", _weight),
    "cost-seconds": PolicyKey("cost_seconds", "0.1", "Cost of a second", _weight),
    "cost-requests": PolicyKey("cost_requests", "0.01", "Cost of a request", _weight),
}  # fmt: skip
"""The keys of the policy, in the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainPolicy:
    """The policy for a table; times in ms, sizes in bytes.

    ``None``: the table properties decide. The defaults are safe: files are removed after the
    retention of the table, and rows are placed only by the clustering columns of the table.
    ``KEYS`` describes each field.
    """

    actions: frozenset[ActionName] = frozenset(ACTIONS)
    windows: tuple[Window, ...] = ()
    cool_down_ms: int = 0
    skip_hot_ms: int = 30 * 60 * 1000
    target_bytes: int | None = None
    min_file_bytes: int | None = None
    max_deleted_rows_ratio: float = 0.05
    min_files: int = 5
    cluster_columns: str | None = None
    min_unclustered_bytes: int = 1 << 30
    checkpoint_after: int | None = None
    min_log_files: int = 20
    retain_ms: int | None = None
    min_reclaim_bytes: int = 1
    list_files: Listing = "auto"
    weight_files: float = 1.0
    weight_requests: float = 1.0
    weight_freed: float = 10.0
    weight_skipping: float = 10.0
    cost_data: float = 10.0
    cost_seconds: float = 0.1
    cost_requests: float = 0.01

    @classmethod
    def resolve(cls, find: Callable[[str], tuple[str, str] | None]) -> MaintainPolicy:
        """Build a policy from texts.

        Args:
            find: for a key, the name of its source and the text; ``None`` if it is not set.

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
                hint=f"Use one or more of: {', '.join(KEYS)}.",
            )
        return cls.resolve(lambda key: (key, texts[key]) if key in texts else None)
