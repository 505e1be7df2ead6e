"""Collect non-file actions; keep only the latest action of each kind or key.

Source: PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltactl.errors import MALFORMED, CorruptLogError
from deltactl.protocol.action_nodes import (
    encode_domain,
    encode_metadata,
    encode_protocol,
    encode_txn,
)
from deltactl.protocol.actions import (
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    parse_domain_metadata,
    parse_metadata,
    parse_protocol,
    parse_txn,
)


@dataclass(slots=True)
class NonFileActions:
    """The latest ``protocol`` and ``metaData``, ``txn`` by application, and domains by name.

    Removed domains are kept and marked, because they must cancel older actions of the same domain.
    ``older_metadata`` are the ``metaData`` actions that were replaced.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    older_metadata: list[Metadata] = field(default_factory=list, compare=False)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Return the physical names of the partition columns, as far as they are known."""
        if self.metadata is None:
            return ()
        return self.metadata.partition_keys

    @property
    def live_domains(self) -> dict[str, DomainMetadata]:
        """Return the domains that were not removed."""
        return {name: domain for name, domain in self.domains.items() if not domain.removed}

    def nodes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name and the JSON object of each action."""
        if self.protocol is not None:
            yield "protocol", encode_protocol(self.protocol)
        if self.metadata is not None:
            yield "metaData", encode_metadata(self.metadata)
        yield from (("txn", encode_txn(txn)) for txn in self.txns.values())
        yield from (("domainMetadata", encode_domain(it)) for it in self.domains.values())

    def apply(self, node: Mapping[str, Any]) -> None:
        """Apply an action that is later than all actions before. File actions are ignored.

        Raises:
            CorruptLogError: the action is malformed.
        """
        try:
            if (protocol := node.get("protocol")) is not None:
                self.protocol = parse_protocol(protocol)
            if (metadata := node.get("metaData")) is not None:
                self._replace_metadata(parse_metadata(metadata))
            if (txn := node.get("txn")) is not None:
                parsed = parse_txn(txn)
                self.txns[parsed.app_id] = parsed
            if (domain := node.get("domainMetadata")) is not None:
                found = parse_domain_metadata(domain)
                self.domains[found.domain] = found
        except MALFORMED as error:
            shown = json.dumps(node, default=str)[:200]
            raise CorruptLogError(f"a log action is malformed: {shown}") from error

    def update(self, newer: NonFileActions) -> None:
        """Apply the actions of a later part of the log."""
        self.protocol = newer.protocol or self.protocol
        self.older_metadata += newer.older_metadata
        if newer.metadata is not None:
            self._replace_metadata(newer.metadata)
        self.txns |= newer.txns
        self.domains |= newer.domains

    def _replace_metadata(self, newer: Metadata) -> None:
        if self.metadata is not None:
            self.older_metadata.append(self.metadata)
        self.metadata = newer
