"""The put-if-absent loop: one commit of a rearrangement, whatever happens on the way.

Source: PROTOCOL.md, "Commit Provenance", "In-Commit Timestamps", "Row Tracking". Every failed put
is settled by reading the version back and comparing the commit's own ``txnId``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import ConflictError
from deltactl.log.action_lines import NewFile, add_line, domain_line, line, remove_lines
from deltactl.log.commit_base import CommitBase, read_winners
from deltactl.log.conflicts import decide
from deltactl.log.put_commit import Sleep, put_commit
from deltactl.log.row_ids import RowIds
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.actions import DomainMetadata, Metadata
from deltactl.protocol.features import Operation, ensure_supported, list_features

MAX_ATTEMPTS = 1000


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
        self._base.ensure_table_is_there(self._store)
        name = self._base.next_commit_file
        if not put_commit(self._store, name, content, txn_id, self._sleep):
            return False
        version = self._base.version + 1
        self._base = replace(self._base, version=version, domains=domains, commit_file=name)
        return True

    def _encode(
        self, groups: Sequence[Group], draft: Draft, txn_id: str
    ) -> tuple[bytes, Mapping[str, DomainMetadata]]:
        """The content of the next version's commit, and the domains after it."""
        base = self._base
        lines = [line("commitInfo", self._commit_info(groups, draft, txn_id))]
        row_ids = RowIds.of(base)
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
        info = self._base.times(self._store, self._clock) | {
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
        self._base, tail = read_winners(self._store, self._base)
        self._metadata = tail.singletons.metadata or self._metadata
        self._touched = pa.chunked_array(
            [*self._touched.chunks, *tail.adds["path"].chunks, *tail.removes["path"].chunks],
            pa.string(),
        )
