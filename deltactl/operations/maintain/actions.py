"""Define the actions on a table or partition, with their predicted benefit and cost."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from deltactl.errors import DeltactlError
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.commits.events import EventCollector, ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Integers
from deltactl.operations.maintain.policy import ACTIONS, ActionName, MaintainPolicy
from deltactl.operations.run_context import RunContext
from deltactl.storage.names import parse_scheme
from deltactl.units import GIB, MIB, format_timestamp

State: TypeAlias = Literal["planned", "done", "failed", "left"]

_ORDER: Final = {name: number for number, name in enumerate(ACTIONS)}
_NO_COUNTS: Final = np.empty(0, np.int64)
_LEAST_COST: Final = 1e-3
_PER_GIB: Final = 10.0
_PER_SECOND: Final = 0.1
_PER_REQUEST: Final = 0.01

SHARE_WRITTEN: Final = 0.9
"""Size of rows in larger files, as a share of their size in small files."""

_BYTES_PER_SECOND: Final = 100 * MIB  # bytes read and written, both counted
_REQUEST_SECONDS: Final = 0.03
_LOCAL_REQUEST_SECONDS: Final = 0.001
_START_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The benefit and the cost of an action, predicted or measured.

    ``files_removed``: decrease of the number of data files or log files. ``bytes_freed``: bytes of
    deleted files. ``requests_saved``: decrease of the requests of a full scan of the table.
    ``skipping_bytes``: bytes that a query no longer reads: deleted rows, footers, and files that a
    query by a layout column skips. ``requests`` is ``None`` if they were not measured.
    """

    files_removed: int = 0
    bytes_freed: int = 0
    requests_saved: int = 0
    skipping_bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    requests: int | None = 0

    def __add__(self, other: Effect) -> Effect:
        return self._combine(operator.add, other)

    def __sub__(self, other: Effect) -> Effect:
        return self._combine(operator.sub, other)

    def _combine(self, combine: Callable[[Any, Any], Any], other: Effect) -> Effect:
        mine, others = asdict(self), asdict(other)
        combined: dict[str, Any] = {
            name: None if None in (value, others[name]) else combine(value, others[name])
            for name, value in mine.items()
        }
        return Effect(**combined)

    @property
    def benefit(self) -> float:
        """Return the benefit: a file or a request less counts 1, a GiB less counts 10."""
        return (
            self.files_removed
            + self.requests_saved
            + _PER_GIB * (self.bytes_freed + self.skipping_bytes) / GIB
        )

    @property
    def cost(self) -> float:
        """Return the cost: a moved GiB counts 10, a second 0.1, a request 0.01; never zero."""
        cost = (
            _PER_GIB * (self.bytes_read + self.bytes_written) / GIB
            + _PER_SECOND * self.seconds
            + _PER_REQUEST * (self.requests or 0)
        )
        return max(cost, _LEAST_COST)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: bytes, seconds, counts."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """The bins of a rewrite: for each, its input files, their bytes, and its output files."""

    files: Integers = field(default_factory=lambda: _NO_COUNTS)
    bytes: Integers = field(default_factory=lambda: _NO_COUNTS)
    outputs: Integers = field(default_factory=lambda: _NO_COUNTS)
    freed: Integers = field(default_factory=lambda: _NO_COUNTS)

    def __len__(self) -> int:
        return len(self.files)

    def within(self, max_bytes: int) -> Bins:
        """Return the bins that save most files per byte within a limit, as in optimize."""
        gain = (self.outputs - self.files) / np.maximum(self.bytes, 1)
        chosen, left = [], max_bytes
        for index in np.argsort(gain, kind="stable").tolist():
            if self.bytes[index] <= left:
                chosen.append(index)
                left -= int(self.bytes[index])
        return self.take(np.asarray(sorted(chosen), np.int64))

    def take(self, rows: Integers) -> Bins:
        """Return some of the bins."""
        return Bins(
            files=self.files[rows],
            bytes=self.bytes[rows],
            outputs=self.outputs[rows],
            freed=self.freed[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action on a table, or on one partition of it.

    ``partition`` is the name of its Hive directory, ``""`` of a table without partitions, and
    ``None`` for an action on the whole table. ``blocked``: the reason why it must wait, although it
    is due. ``rank`` is counted from 1 over all tables; ``is_part``: only the bins that the budget
    allows. ``why_left``: the reason why it is not done.
    """

    table: str
    name: ActionName
    reason: str
    predicted: Effect
    partition: str | None = None
    score: float = 0.0
    bins: Bins = field(default_factory=Bins)
    places_rows: bool = False
    blocked: str | None = None
    rank: int = 0
    is_part: bool = False
    state: State = "planned"
    why_left: str | None = None

    @property
    def order(self) -> int:
        """Return the position of the action in the safe order."""
        return _ORDER[self.name]

    def limited(self, max_bytes: int) -> Action | None:
        """Return the action with only the bins that fit a limit; ``None`` if none does."""
        bins = self.bins.within(max_bytes)
        if not len(bins):
            return None
        size, files = int(bins.bytes.sum()), int(bins.files.sum())
        gone, freed = files - int(bins.outputs.sum()), int(bins.freed.sum())
        by_bytes = size / max(int(self.bins.bytes.sum()), 1)
        by_files = files / max(int(self.bins.files.sum()), 1)
        predicted = Effect(
            files_removed=gone,
            requests_saved=gone,
            skipping_bytes=int(self.predicted.skipping_bytes * by_bytes),
            bytes_read=size,
            bytes_written=size - freed,
            seconds=self.predicted.seconds * by_bytes,
            requests=math.ceil((self.predicted.requests or 0) * by_files),
        )
        return replace(self, bins=bins, predicted=predicted, is_part=True)

    def left(self, why: str, state: State = "left") -> Action:
        """Return the action as not done, with the reason."""
        return replace(self, state=state, why_left=why)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "action": self.name,
            "partition": self.partition,
            "rank": self.rank or None,
            "score": round(self.score, 3),
            "reason": self.reason,
            "part": self.is_part,
            "state": self.state,
            "why_left": self.why_left,
            "predicted": self.predicted.to_dict(),
        }


_ROWS: Final = pa.schema(
    [("action", pa.string()), ("partition", pa.string()), ("rank", pa.int64())]
    + [("score", pa.float64()), ("reason", pa.string()), ("part", pa.bool_())]
    + [("state", pa.string()), ("why_left", pa.string())]
    + [
        (f"predicted_{it.name}", pa.float64() if it.name == "seconds" else pa.int64())
        for it in fields(Effect)
    ]
)


def to_rows(actions: Iterable[Action]) -> pa.Table:
    """Return the JSON forms as rows of a table, with flat columns."""
    found = [action.to_dict() for action in actions]
    rows = [{**it, **{f"predicted_{k}": v for k, v in it["predicted"].items()}} for it in found]
    return pa.Table.from_pylist(rows, _ROWS)


def sum_effects(effects: Iterable[Effect]) -> Effect:
    """Return the sum of effects."""
    return sum(effects, Effect())


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
    time_travel_bytes: int | None = None
    partitions: int = 0
    small_files: int | None = None
    small_bytes: int | None = None
    rows: int = 0
    deleted_rows: int = 0
    files_a_day: int = 0
    hot_partitions: int = 0
    unclustered_bytes: int | None = None
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
            "files_a_day", "hot_partitions", "unclustered_bytes",
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
    ``events``, ``z_orders`` and ``doubts`` visited the commits that were read for the snapshot.
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
    doubts: CommitDoubts

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
