"""The share of input bytes that an optimize commits while another writer deletes rows.

``python -m benchmarks.races``: 240 files in four bins; the other writer commits 0, 1, 10 or 100
deletes of three rows each, in files by chance, before the first attempt of optimize to commit.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from deltactl import DeltactlError, Table
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.support.forwarding import ForwardingStore
from tests.support.table_builder import Column, TableBuilder, multiset

_FILES, _ROWS, _PARTITIONS = 60, 500, "abcd"


class _Rival(ForwardingStore):
    def __init__(self, inner: Store, builder: TableBuilder, deletes: int) -> None:
        super().__init__(inner)
        self._builder, self._deletes = builder, deletes

    def put_if_absent(self, name: str, data: bytes) -> None:
        chance = random.Random(self._deletes)
        paths = sorted(self._builder.data)
        for _ in range(self._deletes):
            rows = chance.sample(range(_ROWS), 3)
            self._builder.delete_rows(chance.choice(paths), rows)
        self._deletes = 0
        super().put_if_absent(name, data)


def measure(deletes: int, folder: Path) -> str:
    """Return a row of the table of results."""
    store = open_store(str(folder))
    builder = TableBuilder(
        store,
        [Column("id"), Column("p", "string")],
        partition_by=["p"],
        features=["deletionVectors"],
        properties={"delta.enableDeletionVectors": "true"},
    )
    starts = range(0, _FILES * _ROWS, _ROWS)
    for p in _PARTITIONS:
        builder.append(*([{"id": first + n, "p": p} for n in range(_ROWS)] for first in starts))
    began = time.process_time()
    try:
        report = Table(str(folder), store=_Rival(store, builder, deletes)).optimize()
        share, commits = report.bytes_removed / report.plan.bytes_to_rewrite, len(report.versions)
    except DeltactlError:
        share, commits = 0.0, 0
    spent = time.process_time() - began
    rows = Table(str(folder)).scan().read_all().to_pylist()
    assert multiset(rows) == multiset(builder.rows())
    return f"| {deletes} | {share:.0%} | {commits} | {spent:.1f} s |"


def main() -> None:
    """Print the results."""
    print("| deletes | input bytes committed | commits | processor, the other writer's included |")
    print("|---:|---:|---:|---:|")
    for deletes in (0, 1, 10, 100):
        with tempfile.TemporaryDirectory() as scratch:
            print(measure(deletes, Path(scratch, "table")), flush=True)


if __name__ == "__main__":
    main()
