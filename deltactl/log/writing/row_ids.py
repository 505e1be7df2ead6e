"""Assign row ids to new files.

Source: PROTOCOL.md, "Row Tracking".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from deltactl.errors import MALFORMED, CorruptLogError
from deltactl.log.writing.base import CommitBase
from deltactl.protocol.actions import DomainMetadata
from deltactl.protocol.features import ROW_TRACKING, has_feature
from deltactl.protocol.properties import TableProperties

ROW_TRACKING_DOMAIN = "delta.rowTracking"


def read_high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """Return the greatest row id that was assigned; -1 if none was.

    Raises:
        CorruptLogError: the table does not say it; a guess could assign ids that rows already have.
    """
    domain = domains.get(ROW_TRACKING_DOMAIN)
    if domain is None or domain.removed:
        return -1
    try:
        return int(json.loads(domain.configuration)["rowIdHighWaterMark"])
    except MALFORMED as error:
        raise CorruptLogError(
            f"domain {ROW_TRACKING_DOMAIN} has no rowIdHighWaterMark: "
            f"{domain.configuration[:200]!r}"
        ) from error


@dataclass(slots=True)
class RowIds:
    """Assigns row ids above the table's high-water mark."""

    high_water_mark: int
    start: int

    @classmethod
    def of(cls, base: CommitBase) -> RowIds | None:
        """Return the free ids of a table; ``None`` if it has no row tracking.

        Raises:
            CorruptLogError: the table does not say which ids were assigned.
        """
        suspended = TableProperties(base.metadata.configuration).row_tracking_suspended
        if not has_feature(base.protocol, ROW_TRACKING) or suspended:
            return None
        mark = read_high_water_mark(base.domains)
        return cls(mark, mark)

    @property
    def grew(self) -> bool:
        """Return whether ids were assigned."""
        return self.high_water_mark > self.start

    def take(self, num_rows: int) -> int:
        """Assign so many consecutive ids and return the first."""
        first = self.high_water_mark + 1
        self.high_water_mark += num_rows
        return first

    def domain(self) -> DomainMetadata:
        """Return the table's high-water mark after these ids."""
        text = json.dumps({"rowIdHighWaterMark": self.high_water_mark}, separators=(",", ":"))
        return DomainMetadata(ROW_TRACKING_DOMAIN, text)
