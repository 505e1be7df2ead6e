"""What a commit builds on: the state of the version before it, kept up with other writers.

Source: PROTOCOL.md, "In-Commit Timestamps", "Commit Provenance".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltactl.clock import Clock
from deltactl.errors import NotATableError
from deltactl.log.commit_info import in_commit_timestamp, parse_commit_info
from deltactl.log.listing import list_log
from deltactl.log.replay import Tail, replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The table state a commit builds on: that of ``version``.

    ``commit_file`` is the newest commit known to be there, ``None`` after log cleanup.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata] = field(repr=False)
    commit_file: str | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> CommitBase:
        """The state of a snapshot."""
        commit = snapshot.segment.commit
        return cls(
            snapshot.version,
            snapshot.protocol,
            snapshot.metadata,
            snapshot.domains,
            None if commit is None else commit.name,
        )

    @property
    def next_commit_file(self) -> str:
        """The name that the next commit has to win."""
        return f"{LOG_DIR}/{commit_name(self.version + 1)}"

    def ensure_table_is_there(self, store: Store) -> None:
        """Look before a put, which would make the log's folder anew with one unreadable commit.

        Raises:
            NotATableError: the commit this builds on is gone.
        """
        name = self.commit_file
        if name is not None and store.stat_many([name]) == [None]:
            raise NotATableError(
                f"{name} of {store.uri} is gone: the table was deleted during the run",
                hint="Nothing was committed.",
            )

    def times(self, store: Store, clock: Clock) -> dict[str, Any]:
        """The first fields of the next commitInfo: the times, as the table wants them."""
        now = clock.now_ms()
        info: dict[str, Any] = {}
        if TableProperties(self.metadata.configuration).in_commit_timestamps:
            name = f"{LOG_DIR}/{commit_name(self.version)}"
            previous = in_commit_timestamp(parse_commit_info(name, store.read(name)))
            # The commit that switched them on is the first with one; before it any time is older.
            info["inCommitTimestamp"] = max(now, -1 if previous is None else previous + 1)
        return info | {"timestamp": now}


def read_winners(store: Store, base: CommitBase) -> tuple[CommitBase, Tail]:
    """The state after every commit above ``base``, and what those commits say."""
    commits = list_log(store, base.version + 1).commits
    version = base.version
    while version + 1 in commits:
        version += 1
    winners = [commits[v] for v in range(base.version + 1, version + 1)]
    keys = (f.physical_name for f in base.metadata.partition_fields)
    tail = replay_tail(store, winners, keys)
    news = tail.singletons
    after = CommitBase(
        version=version,
        protocol=news.protocol or base.protocol,
        metadata=news.metadata or base.metadata,
        domains={**base.domains, **news.domains},
        commit_file=winners[-1].name if winners else base.commit_file,
    )
    return after, tail
