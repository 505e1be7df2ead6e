"""The put-if-absent loop: one commit of a rearrangement, whatever happens on the way.

Source: PROTOCOL.md, "Commit Provenance", "In-Commit Timestamps", "Row Tracking". Every failed put
is settled by reading the version back and comparing the commit's own ``txnId``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    CorruptLogError,
    NotATableError,
    ObjectNotFoundError,
    StorageError,
)
from deltactl.log.action_lines import NewFile, add_line, domain_line, line, remove_lines
from deltactl.log.commit_info import in_commit_timestamp, parse_commit_info
from deltactl.log.conflicts import decide
from deltactl.log.listing import list_log
from deltactl.log.replay import replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.features import Operation, ensure_supported, has_feature, list_features
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store

ROW_TRACKING_DOMAIN = "delta.rowTracking"
MAX_ATTEMPTS = 1000
_SETTLE_ATTEMPTS = 5

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The table state a commit builds on: that of ``version``."""

    version: int
    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata] = field(repr=False)

    @classmethod
    def of(cls, snapshot: Snapshot) -> CommitBase:
        """The state of a snapshot."""
        return cls(snapshot.version, snapshot.protocol, snapshot.metadata, snapshot.domains)


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs and outputs that stand or fall together.

    ``removed`` holds rows of ``ADD_SCHEMA`` plus ``num_records``.
    """

    removed: pa.Table
    added: tuple[NewFile, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What stays the same over all attempts of a commit."""

    operation: str
    parameters: Mapping[str, object]
    metrics: Callable[[Sequence[Group]], Mapping[str, str]]
    read_version: int
    deletion_timestamp_ms: int
    engine_info: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that landed: its version, which groups it holds (a flag each), why not others."""

    version: int
    kept: tuple[bool, ...]
    reason: str | None
    attempts: int


class Committer:
    """Commits groups one lot after another on top of whatever other writers add meanwhile.

    All groups were written from one snapshot; each is judged against every foreign commit since
    then, however many lots of ours went in between.
    """

    def __init__(self, snapshot: Snapshot, *, clock: Clock, sleep: Sleep) -> None:
        """``snapshot``: the version that the groups were planned and written from."""
        self._store, self._clock, self._sleep = snapshot.store, clock, sleep
        self._origin = snapshot.metadata
        self._origin_features = list_features(snapshot.protocol)
        self._base = CommitBase.of(snapshot)
        commit = snapshot.segment.commit
        self._base_commit = None if commit is None else commit.name
        self._touched = pa.chunked_array([], pa.string())
        self._metadata: Metadata | None = None

    def commit(self, groups: Sequence[Group], draft: Draft) -> Committed:
        """Commit the groups whose inputs nobody else touched.

        Raises:
            ConflictError: no group survived.
            CommitOutcomeUnknownError: the store never told whether the commit landed.
            NotATableError: the log is gone.
            UnsupportedFeatureError: a winner upgraded the protocol beyond this program.
            StorageError: the store failed, and the commit is known not to be there.
        """
        inputs = [group.removed["path"].to_pylist() for group in groups]
        for attempt in range(1, MAX_ATTEMPTS + 1):
            base = self._base
            # Before each attempt: a winner of an earlier lot may have raised the protocol.
            ensure_supported(base.protocol, base.metadata, Operation.REWRITE)
            gained = list_features(base.protocol) - self._origin_features
            verdict = decide(inputs, self._touched, self._origin, self._metadata, gained)
            if not any(verdict.survives):
                raise ConflictError(
                    f"nothing could be committed: {verdict.reason}",
                    hint="The table is as the other writers left it; run again.",
                )
            chosen = [g for g, keep in zip(groups, verdict.survives, strict=True) if keep]
            if self._try(chosen, draft):
                return Committed(self._base.version, verdict.survives, verdict.reason, attempt)
            if attempt > 1:
                self._sleep(random.uniform(0, min(1.0, 0.01 * 2 ** min(attempt, 7))))
            self._read_winners()
        raise ConflictError(
            f"lost the race for a version {MAX_ATTEMPTS} times", hint="Run again at a quieter time."
        )

    def _try(self, groups: Sequence[Group], draft: Draft) -> bool:
        # Every attempt is encoded anew: version, row ids, in-commit timestamp and id all change.
        txn_id = self._clock.new_id()
        content, domains = self._encode(groups, draft, txn_id)
        self._ensure_table_is_there()
        name = f"{LOG_DIR}/{commit_name(self._base.version + 1)}"
        if not _put_commit(self._store, name, content, txn_id, self._sleep):
            return False
        self._base = replace(self._base, version=self._base.version + 1, domains=domains)
        self._base_commit = name
        return True

    def _ensure_table_is_there(self) -> None:
        """A put would make the log's folder anew, with a single commit that nobody can read."""
        name = self._base_commit
        if name is not None and self._store.stat_many([name]) == [None]:
            raise NotATableError(
                f"{name} of {self._store.uri} is gone: the table was deleted during the run",
                hint="Nothing was committed.",
            )

    def _encode(
        self, groups: Sequence[Group], draft: Draft, txn_id: str
    ) -> tuple[bytes, Mapping[str, DomainMetadata]]:
        """The content of the next version's commit, and the domains after it."""
        base = self._base
        lines = [line("commitInfo", self._commit_info(groups, draft, txn_id))]
        row_ids = _RowIds.of(base)
        for group in groups:
            for file in group.added:
                ids = (
                    None if row_ids is None else (row_ids.take(file.num_records), base.version + 1)
                )
                lines.append(add_line(file, ids))
            lines += remove_lines(group.removed, draft.deletion_timestamp_ms)
        domains = dict(base.domains)
        if row_ids is not None and row_ids.grew:
            domain = row_ids.domain()
            domains[domain.domain] = domain
            lines.append(domain_line(domain))
        return ("\n".join(lines) + "\n").encode(), domains

    def _commit_info(self, groups: Sequence[Group], draft: Draft, txn_id: str) -> dict[str, object]:
        now, base = self._clock.now_ms(), self._base
        info: dict[str, object] = {}
        if TableProperties(base.metadata.configuration).in_commit_timestamps:
            name = f"{LOG_DIR}/{commit_name(base.version)}"
            previous = in_commit_timestamp(parse_commit_info(name, self._store.read(name)))
            # The commit that switched them on is the first with one; before it any time is older.
            info["inCommitTimestamp"] = max(now, -1 if previous is None else previous + 1)
        info |= {
            "timestamp": now,
            "operation": draft.operation,
            "operationParameters": dict(draft.parameters),
            "readVersion": draft.read_version,
            "isolationLevel": "SnapshotIsolation",
            "isBlindAppend": False,
            "operationMetrics": dict(draft.metrics(groups)),
        }
        if draft.tags:
            info["tags"] = dict(draft.tags)
        return info | {"engineInfo": draft.engine_info, "txnId": txn_id}

    def _read_winners(self) -> None:
        base = self._base
        commits = list_log(self._store, base.version + 1).commits
        version = base.version
        while version + 1 in commits:
            version += 1
        winners = [commits[v] for v in range(base.version + 1, version + 1)]
        keys = (f.physical_name for f in base.metadata.partition_fields)
        tail = replay_tail(self._store, winners, keys)
        if winners:
            self._base_commit = winners[-1].name
        news = tail.singletons
        self._metadata = news.metadata or self._metadata
        self._touched = pa.chunked_array(
            [*self._touched.chunks, *tail.adds["path"].chunks, *tail.removes["path"].chunks],
            pa.string(),
        )
        self._base = CommitBase(
            version=version,
            protocol=news.protocol or base.protocol,
            metadata=news.metadata or base.metadata,
            domains={**base.domains, **news.domains},
        )


def _put_commit(store: Store, name: str, content: bytes, txn_id: str, sleep: Sleep) -> bool:
    """Put a commit; tell whether it is ours that is there. Never guesses."""
    error: StorageError | None = None
    for attempt in range(_SETTLE_ATTEMPTS):
        if attempt:
            sleep(0.1 * 2**attempt)
        try:
            store.put_if_absent(name, content)
            return True
        except StorageError as failed:
            error = failed
        try:
            info = parse_commit_info(name, store.read(name))
        except ObjectNotFoundError:
            if store.uri.startswith("file:"):
                raise error from None  # a local link either happened or did not
            continue  # the first try may still land: only the same name, put again, settles it
        except StorageError:
            continue
        return info is not None and info.get("txnId") == txn_id
    raise CommitOutcomeUnknownError(
        f"the store did not tell whether {name} was committed: {error}",
        hint="New files were kept. Look at `deltactl describe-history`, then run again; "
        "`vacuum` removes what was not committed.",
    ) from error


@dataclass(slots=True)
class _RowIds:
    """Hands out row ids above the table's high-water mark."""

    high_water_mark: int
    start: int

    @classmethod
    def of(cls, base: CommitBase) -> _RowIds | None:
        suspended = TableProperties(base.metadata.configuration).row_tracking_suspended
        if not has_feature(base.protocol, "rowTracking") or suspended:
            return None
        domain = base.domains.get(ROW_TRACKING_DOMAIN)
        mark = -1
        if domain is not None and not domain.removed:
            try:
                mark = int(json.loads(domain.configuration)["rowIdHighWaterMark"])
            except (ValueError, TypeError, KeyError) as error:
                # Guessing would hand out ids that rows have already.
                raise CorruptLogError(
                    f"domain {ROW_TRACKING_DOMAIN} has no rowIdHighWaterMark: "
                    f"{domain.configuration[:200]!r}"
                ) from error
        return cls(mark, mark)

    @property
    def grew(self) -> bool:
        return self.high_water_mark > self.start

    def take(self, num_rows: int) -> int:
        first = self.high_water_mark + 1
        self.high_water_mark += num_rows
        return first

    def domain(self) -> DomainMetadata:
        text = json.dumps({"rowIdHighWaterMark": self.high_water_mark}, separators=(",", ":"))
        return DomainMetadata(ROW_TRACKING_DOMAIN, text)
