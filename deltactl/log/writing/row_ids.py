"""Row ids for files that are new to a table.

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
    """The greatest row id that was given out; -1 where none was.

    Raises:
        CorruptLogError: the table does not say; guessing would hand out ids that rows have.
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
    """Hands out row ids above the table's high-water mark."""

    high_water_mark: int
    start: int

    @classmethod
    def of(cls, base: CommitBase) -> RowIds | None:
        """The ids that a table has left; ``None`` where it does not track rows.

        Raises:
            CorruptLogError: the table does not say which ids were given out.
        """
        suspended = TableProperties(base.metadata.configuration).row_tracking_suspended
        if not has_feature(base.protocol, ROW_TRACKING) or suspended:
            return None
        mark = read_high_water_mark(base.domains)
        return cls(mark, mark)

    @property
    def grew(self) -> bool:
        """Whether ids were taken."""
        return self.high_water_mark > self.start

    def take(self, num_rows: int) -> int:
        """The first of so many consecutive ids, which are given out now."""
        first = self.high_water_mark + 1
        self.high_water_mark += num_rows
        return first

    def domain(self) -> DomainMetadata:
        """The table's high-water mark after what was taken."""
        text = json.dumps({"rowIdHighWaterMark": self.high_water_mark}, separators=(",", ":"))
        return DomainMetadata(ROW_TRACKING_DOMAIN, text)
