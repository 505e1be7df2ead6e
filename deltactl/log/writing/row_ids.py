"""Assign row ids to new files.

Source: PROTOCOL.md, "Row Tracking".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import MALFORMED, CorruptLogError, SafetyError
from deltactl.log.writing.commit_base import CommitBase
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.arrow_schemas import replace_column
from deltactl.protocol.features import ROW_TRACKING, has_feature
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.stats import num_records

ROW_TRACKING_DOMAIN = "delta.rowTracking"


def read_high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """Return the greatest row id that was assigned; -1 if none was.

    Raises:
        CorruptLogError: the log does not contain this id. With a guess, ids that are in use could
            be assigned again.
    """
    domain = domains.get(ROW_TRACKING_DOMAIN)
    if domain is None or domain.removed:
        return -1
    try:
        return int(json.loads(domain.configuration)["rowIdHighWaterMark"])
    except MALFORMED as error:
        raise CorruptLogError(
            f"the domain metadata {ROW_TRACKING_DOMAIN} has no valid rowIdHighWaterMark: "
            f"{domain.configuration[:200]!r}"
        ) from error


def tracks_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether new files must have row ids."""
    suspended = TableProperties(metadata.configuration).row_tracking_suspended
    return has_feature(protocol, ROW_TRACKING) and not suspended


@dataclass(slots=True)
class RowIds:
    """Assigns row ids above the table's high-water mark."""

    high_water_mark: int
    start: int

    @classmethod
    def of(cls, base: CommitBase) -> RowIds | None:
        """Return the free ids of a table; ``None`` if the table has no row tracking.

        Raises:
            CorruptLogError: the log does not contain the high-water mark.
        """
        if not tracks_row_ids(base.protocol, base.metadata):
            return None
        mark = read_high_water_mark(base.domains)
        return cls(mark, mark)

    @property
    def grew(self) -> bool:
        """Return whether ids were assigned."""
        return self.high_water_mark > self.start

    def take(self, num_rows: int) -> int:
        """Assign ``num_rows`` consecutive ids and return the first."""
        first = self.high_water_mark + 1
        self.high_water_mark += num_rows
        return first

    def domain(self) -> DomainMetadata:
        """Return the table's high-water mark after the assigned ids."""
        text = json.dumps({"rowIdHighWaterMark": self.high_water_mark}, separators=(",", ":"))
        return DomainMetadata(ROW_TRACKING_DOMAIN, text)


def assign_row_ids(added: pa.Table, row_ids: RowIds, version: int) -> pa.Table:
    """Assign ids to files that have no row ids, and ``version`` to files that have no version.

    ``version`` is that of the commit that adds the files.

    Raises:
        SafetyError: the log does not say how many rows a file has.
    """
    versions = pc.fill_null(added["default_row_commit_version"], version)
    added = replace_column(added, "default_row_commit_version", versions)
    bare = pc.is_null(added["base_row_id"])
    if not pc.any(bare).as_py():
        return added
    rows = num_records(added["stats"]).filter(bare)
    if rows.null_count:
        name = added["path"].filter(bare).filter(pc.is_null(rows))[0].as_py()
        raise SafetyError(
            f"row ids cannot be assigned to the rows of {name!r}. The file was written before "
            "row tracking was enabled, and the log does not say how many rows it has",
            hint="Choose a version that was committed after row tracking was enabled.",
        )
    # Deleted rows are counted too: they keep their ids.
    counts = rows.to_numpy()
    first = row_ids.take(int(counts.sum()))
    ids = np.zeros(added.num_rows, np.int64)
    ids[np.asarray(bare)] = first + np.cumsum(counts) - counts
    return replace_column(added, "base_row_id", pc.coalesce(added["base_row_id"], pa.array(ids)))
