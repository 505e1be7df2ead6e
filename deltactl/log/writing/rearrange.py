"""The put-if-absent loop of dataChange=false commits.

Source: PROTOCOL.md, "Commit Provenance", "In-Commit Timestamps", "Row Tracking". Every failed put
is decided by reading the version back and comparing the commit's own ``txnId``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import ConflictError
from deltactl.log.commits.file_actions import decoded_names
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.action_lines import NewFile, add_line, domain_line, line, remove_lines
from deltactl.log.writing.base import CommitBase, win_version
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.conflicts import Verdict, decide
from deltactl.log.writing.put import Sleep
from deltactl.log.writing.row_ids import RowIds
from deltactl.protocol.actions import DomainMetadata, Metadata
from deltactl.protocol.features import Operation, ensure_supported, list_features


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs and outputs that are committed together or not at all.

    ``removed`` holds rows of ``ADD_SCHEMA`` plus ``num_records``.
    """

    removed: pa.Table
    added: tuple[NewFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Description):
    """The same in all attempts; ``measure`` returns the metrics of the committed groups."""

    measure: Callable[[Sequence[Group]], Mapping[str, str]]
    read_version: int
    deletion_timestamp_ms: int
    isolation_level: str = "SnapshotIsolation"


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit: its version, which groups it contains (a flag each), why not the others."""

    version: int
    kept: tuple[bool, ...]
    reason: str | None


class Committer:
    """Commits groups in batches, on top of the commits of other writers.

    All groups were written from one snapshot; each is compared with every commit of others since
    then, for any number of our batches in between.
    """

    def __init__(self, snapshot: Snapshot, *, clock: Clock, sleep: Sleep) -> None:
        """Commit groups that were planned and written from ``snapshot``."""
        self._store, self._clock, self._sleep = snapshot.store, clock, sleep
        self._origin = snapshot.metadata
        self._origin_features = list_features(snapshot.protocol)
        self._base = CommitBase.of(snapshot)
        self._touched = pa.chunked_array([], pa.string())
        self._metadata: Metadata | None = None

    def commit(self, groups: Sequence[Group], draft: Draft) -> Committed:
        """Commit the groups whose inputs no other writer touched.

        Raises:
            ConflictError: no group is left.
            CommitOutcomeUnknownError: it is not known whether the commit succeeded.
            NotATableError: the log is gone.
            UnsupportedFeatureError: a winner upgraded the protocol beyond this program.
            StorageError: the store failed, and the commit does not exist.
        """
        inputs = [decoded_names(group.removed).to_pylist() for group in groups]
        verdict, domains = Verdict((), None), self._base.domains

        def encode(base: CommitBase, txn_id: str) -> bytes:
            nonlocal verdict, domains
            verdict = self._judge(base, inputs)
            chosen = [g for g, keep in zip(groups, verdict.survives, strict=True) if keep]
            info = commit_info(
                base.times(self._store, self._clock),
                draft,
                read_version=draft.read_version,
                txn_id=txn_id,
                metrics=draft.measure(chosen),
            )
            content, domains = _encode(base, chosen, info, draft.deletion_timestamp_ms)
            return content

        won = win_version(
            self._store,
            self._base,
            encode,
            learn=self._learn,
            clock=self._clock,
            sleep=self._sleep,
        )
        self._base = replace(won, domains=domains)
        return Committed(won.version, verdict.survives, verdict.reason)

    def _judge(self, base: CommitBase, inputs: Sequence[Sequence[str]]) -> Verdict:
        # Before each attempt: a winner over an earlier batch may have upgraded the protocol.
        ensure_supported(base.protocol, base.metadata, Operation.REWRITE)
        gained = list_features(base.protocol) - self._origin_features
        verdict = decide(inputs, self._touched, self._origin, self._metadata, gained)
        if not any(verdict.survives):
            raise ConflictError(
                f"nothing could be committed: {verdict.reason}",
                hint="Rerun; the table is as the other writers left it.",
            )
        return verdict

    def _learn(self, base: CommitBase, winners: Tail) -> None:
        self._base = base
        self._metadata = winners.singletons.metadata or self._metadata
        self._touched = pa.chunked_array(
            [
                *self._touched.chunks,
                *decoded_names(winners.adds).chunks,
                *decoded_names(winners.removes).chunks,
            ],
            pa.string(),
        )


def _encode(
    base: CommitBase,
    groups: Sequence[Group],
    info: Mapping[str, Any],
    deletion_timestamp_ms: int,
) -> tuple[bytes, Mapping[str, DomainMetadata]]:
    """Return the content of the next version's commit, and the domains after it."""
    lines = [line("commitInfo", info)]
    row_ids = RowIds.of(base)
    for group in groups:
        for file in group.added:
            ids = None if row_ids is None else (row_ids.take(file.num_records), base.version + 1)
            lines.append(add_line(file, ids))
        lines += remove_lines(group.removed, deletion_timestamp_ms)
    domains = dict(base.domains)
    if row_ids is not None and row_ids.grew:
        domain = row_ids.domain()
        domains[domain.domain] = domain
        lines.append(domain_line(domain))
    return ("\n".join(lines) + "\n").encode(), domains
