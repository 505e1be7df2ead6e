"""Declare what a user writes to the ``commitInfo`` of each commit of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltactl.errors import UsageError
from deltactl.option_fields import Pairs, ensure_declared, execution_option
from deltactl.option_names import option

SECTION: Final = "commit"
"""The section of these options in a file of settings: it applies to all commands that commit."""

COMMIT_INFO_KEYS: Final = (
    "version", "timestamp", "inCommitTimestamp", "userId", "userName", "operation",
    "operationParameters", "job", "notebook", "clusterId", "readVersion", "isolationLevel",
    "isBlindAppend", "operationMetrics", "userMetadata", "tags", "engineInfo", "txnId",
)  # fmt: skip
"""The keys that have a meaning in the protocol, or in Delta on Spark."""

_OPTIONS: Final = {"username": "user_name", "usermetadata": "user_metadata"}


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What each commit of a run says in addition, for its readers in ``describe-history``."""

    user_name: str | None = execution_option(
        None, "Write this userName to each commit", metavar="NAME", is_settable=True
    )
    user_metadata: str | None = execution_option(
        None, "Write this userMetadata to each commit", metavar="TEXT", is_settable=True
    )
    commit_info: Pairs = execution_option(
        {},
        "Write this key to the commitInfo of each commit; may be repeated",
        metavar="KEY=VALUE",
        is_repeated=True,
        is_settable=True,
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        known = {key.lower() for key in COMMIT_INFO_KEYS}
        for key in self.commit_info:
            folded = key.strip().lower()
            if not folded or folded in known:
                own = _OPTIONS.get(folded)
                raise UsageError(
                    f"{option('commit_info')} cannot set {key!r}: readers take this key of "
                    "commitInfo for that of the protocol",
                    hint=f"Use {option(own)} instead." if own else "Choose another key.",
                )
