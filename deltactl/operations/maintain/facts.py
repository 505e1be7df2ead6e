"""Define what is known about a table while it is observed, and predict costs by fixed rates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from deltactl.errors import DeltactlError
from deltactl.log.commits.events import EventCollector, ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.maintain.actions import Action, Effect
from deltactl.operations.maintain.policy import ActionName, MaintainPolicy
from deltactl.operations.run_context import RunContext
from deltactl.storage.names import parse_scheme
from deltactl.units import MIB, format_timestamp

SHARE_WRITTEN: Final = 0.9
"""Size of rows in larger files, as a share of their size in small files."""

_BYTES_PER_SECOND: Final = 100 * MIB  # bytes read and written, both counted
_REQUEST_SECONDS: Final = 0.03
_LOCAL_REQUEST_SECONDS: Final = 0.001
_START_SECONDS: Final = 0.05


@dataclass(slots=True)
class TableFacts:
    """Facts about a table; sizes in bytes, times in ms since 1970 UTC.

    A fact is ``None`` if it was not examined, because the policy disables it or there was no
    listing. ``waiting_files`` and ``waiting_log_files`` (commits) have expired by this machine's
    clock only.
    ``problems``: actions that are enabled but not possible. ``requests``: number of requests of the
    observation.
    """

    table: str
    uri: str
    table_id: str
    version: int
    num_files: int = 0
    size_bytes: int = 0
    partitions: int = 0
    small_files: int | None = None
    small_bytes: int | None = None
    rows: int = 0
    deleted_rows: int = 0
    files_a_day: int = 0
    hot_partitions: int = 0
    unclustered_bytes: int | None = None
    expected_skipping: float | None = None
    tail_commits: int = 0
    expired_log_files: int | None = None
    reclaimable_files: int | None = None
    reclaimable_bytes: int | None = None
    orphans: int | None = None
    waiting_files: int | None = None
    waiting_log_files: int | None = None
    has_manifests: bool | None = None
    stale_manifests: int | None = None
    last_run_ms: int | None = None
    requests: int = 0
    problems: dict[str, DeltactlError] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        last_ms = self.last_run_ms
        names = (
            "num_files", "size_bytes", "partitions", "small_files", "small_bytes", "rows",
            "deleted_rows",
            "files_a_day", "hot_partitions", "unclustered_bytes", "expected_skipping",
            "tail_commits", "expired_log_files", "reclaimable_files", "reclaimable_bytes",
            "orphans", "waiting_files", "waiting_log_files", "stale_manifests",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in names},
            "last_run": None if last_ms is None else format_timestamp(last_ms),
            "requests": self.requests,
        }


@dataclass(frozen=True, slots=True)
class TableSubject:
    """A table that is examined; what is found is set in ``facts``.

    ``expiry_ms`` is the time that decides what has expired, see ``trusted_time.planning_now``.
    ``events`` and ``z_orders`` visited the commits that were read for the snapshot.
    """

    facts: TableFacts
    log: DeltaLog
    snapshot: Snapshot
    policy: MaintainPolicy
    now_ms: int
    expiry_ms: int
    context: RunContext
    events: EventCollector
    z_orders: ZOrderCommits

    def action(
        self,
        name: ActionName,
        reason: str,
        benefit: Effect,
        *,
        requests: int,
        bytes_read: int = 0,
        bytes_written: int = 0,
    ) -> Action:
        """Return an action on the whole table, with its benefit and its predicted cost."""
        cost = predict_cost(
            self.log.uri, bytes_read=bytes_read, bytes_written=bytes_written, requests=requests
        )
        return Action(table=self.facts.table, name=name, reason=reason, predicted=cost + benefit)


def predict_cost(uri: str, *, bytes_read: int, bytes_written: int, requests: int) -> Effect:
    """Return the cost of an action on the table at ``uri``; a local table needs no requests."""
    is_remote = (parse_scheme(uri) or "file") not in ("file", "memory")
    request_seconds = _REQUEST_SECONDS if is_remote else _LOCAL_REQUEST_SECONDS
    moved = bytes_read + bytes_written
    return Effect(
        bytes_read=bytes_read,
        bytes_written=bytes_written,
        seconds=_START_SECONDS + moved / _BYTES_PER_SECOND + requests * request_seconds,
        requests=requests if is_remote else 0,
    )
