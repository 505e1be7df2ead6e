"""A process that is killed while it maintains tables: the next run comes to the same end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deltactl import maintain
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.scan import scan_snapshot
from deltactl.storage.local.store import LocalStore
from tests.operations.maintain.test_run import build
from tests.support.table_builder import multiset

PROGRAM = """
import sys
from deltactl import maintain
print("begun", flush=True)
maintain(sys.argv[1:])
"""


def shape(root: Path) -> list[tuple[str, int]]:
    """Its live files, by partition and rows: what does not depend on chance."""
    files = DeltaLog(LocalStore(str(root)), lambda _: None).snapshot().files
    rows = zip(files["path"].to_pylist(), files["stats"].to_pylist(), strict=True)
    return sorted((path.partition("/")[0], stats.count("numRecords")) for path, stats in rows)


@pytest.mark.thorough
@pytest.mark.parametrize("after_ms", [0, 40, 120, 250])
def test_the_run_after_a_kill_ends_the_same(tmp_path: Path, after_ms: int) -> None:
    roots = [tmp_path / f"t{number}" for number in range(4)]
    builders = [build(root, commits=10) for root in roots]
    addresses = [str(root) for root in roots]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *addresses],
        stdout=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after_ms / 1000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    report = maintain(addresses)
    assert not report.errors, report.errors
    again = maintain(addresses)
    assert not again.is_due
    for root, builder in zip(roots, builders, strict=True):
        assert shape(root) == [("part=a", 1), ("part=b", 1)]
        snapshot = DeltaLog(LocalStore(str(root)), lambda _: None).snapshot()
        assert multiset(scan_snapshot(snapshot).read_all().to_pylist()) == multiset(builder.rows())
