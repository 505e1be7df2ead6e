"""Build the ``commitInfo`` of every commit that deltactl writes.

The fields and their order are those of Delta on Spark. ``commit_times`` chooses the times, also
the in-commit timestamp.
Source: PROTOCOL.md, "Commit Provenance Information".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deltactl import __version__
from deltactl.commit_options import CommitOptions

RESTORE: Final = "RESTORE"

RUN_TAG: Final = "deltactl.runId"

_PROGRAM: Final = "deltactl/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The description of a commit. It is the same in all attempts."""

    operation: str
    parameters: Mapping[str, Any]
    engine_info: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    isolation_level: str = "Serializable"
    is_blind_append: bool = False
    user_metadata: str | None = None

    def commit_info(
        self, times: Mapping[str, Any], said: CommitOptions, *, read_version: int, txn_id: str
    ) -> dict[str, Any]:
        """Return the body of the ``commitInfo`` of an attempt.

        ``times`` are the first fields, see ``choose_times``; ``said`` is what the user adds.
        ``read_version`` is the version from which the commit was prepared; -1 for a new table.
        """
        # A commit has one member for the text of the user and that of the operation.
        notes = [it for it in (said.user_metadata, self.user_metadata) if it is not None]
        return {
            **times,
            **({} if said.user_name is None else {"userName": said.user_name}),
            "operation": self.operation,
            "operationParameters": dict(self.parameters),
            # Delta on Spark writes -1 for CLONE and CONVERT; delta-rs cannot read it.
            **({} if read_version < 0 else {"readVersion": read_version}),
            "isolationLevel": self.isolation_level,
            "isBlindAppend": self.is_blind_append,
            "operationMetrics": dict(self.metrics),
            **({"userMetadata": "; ".join(notes)} if notes else {}),
            **({"tags": dict(self.tags)} if self.tags else {}),
            "engineInfo": self.engine_info,
            "txnId": txn_id,
            **said.commit_info,
        }


def run_tags(run_id: str | None) -> Mapping[str, str]:
    """Return the tag with the id of a run. The log lines of the run have the same id."""
    return {} if run_id is None else {RUN_TAG: run_id}


def find_run(info: Mapping[str, Any]) -> str | None:
    """Return the id of the run that wrote a commit, from its ``commitInfo``."""
    tags = info.get("tags")
    return tags.get(RUN_TAG) if isinstance(tags, dict) else None


def is_by_deltactl(info: Mapping[str, Any]) -> bool:
    """Return whether deltactl wrote a commit, from its ``commitInfo``."""
    return str(info.get("engineInfo")).startswith(_PROGRAM)


def engine_info(engine: str, reason: str = "") -> str:
    """Return the ``engineInfo``: deltactl, its version, the engine, why it was chosen."""
    return f"{_PROGRAM}{__version__} ({engine} engine{reason and f': {reason}'})"
