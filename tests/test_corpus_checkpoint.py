"""Checkpoints of tables that other writers made: each kind their protocol allows, on a copy.

What cleanup may drop is dropped first, so that the new checkpoint is all there is to read from.
"""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deltactl import CheckpointOptions, Table, UnsupportedFeatureError
from deltactl.log.audit.digests import STATE_COLUMNS, StateDigest, digest_state
from deltactl.log.listing import list_log
from deltactl.log.snapshot import Snapshot
from deltactl.storage.local.store import LocalStore
from tests.conftest import CORPUS
from tests.test_corpus import _ENTRIES, _SOUND, _accepted, _copy, _row_checksum, canonical

__all__ = ["canonical"]

pytestmark = [pytest.mark.corpus, pytest.mark.filterwarnings("ignore::deltactl.table.TableWarning")]

_MANY_ROWS = 100_000
_KINDS: list[dict[str, Any]] = [
    {"kind": "classic"},
    {"kind": "classic", "compat": "spark"},
    {"kind": "v2", "sidecar_rows": 3},
    {"kind": "v2", "top_format": "parquet", "compat": "plain"},
]


def _checkpoints(name: str, target: Path) -> dict[str, Path]:
    """Copies of a table with nothing but a new checkpoint of the latest version, by kind."""
    made = {}
    for number, options in enumerate(_KINDS):
        label = "-".join(map(str, options.values()))
        table = _copy(name, target / f"{number}")
        if name == "kernelrs__crc-full":  # its checksum file has ten files, and its commit none
            (target / f"{number}" / "_delta_log" / f"{0:020}.crc").unlink()
        version = table.snapshot().version
        try:
            report = table.checkpoint(CheckpointOptions(**options))
        except UnsupportedFeatureError:
            continue
        store = LocalStore(str(target / f"{number}"))
        listing = list_log(store)
        new = set(report.written.names) if report.written is not None else None
        old = [info.name for v, info in listing.commits.items() if v < version]
        old += [info.name for info in listing.compacted.values()]
        if new is not None:
            old += [n for c in listing.checkpoints for n in c.names if n not in new]
        assert store.delete_many(old) == {}
        made[label] = target / f"{number}"
    return made


def _digest(snapshot: Snapshot) -> StateDigest:
    return digest_state(snapshot.file_batches(STATE_COLUMNS))


@pytest.mark.parametrize("name", _SOUND or ["-"])
def test_the_table_is_the_same_from_each_kind_of_checkpoint(
    name: str, canonical: ModuleType, tmp_path: Path
) -> None:
    entry = _ENTRIES[name]
    before = Table(str(CORPUS / entry["path"])).snapshot()
    state, expected = _digest(before), _accepted(name, entry["expect"]["row_checksum"])
    for number, (kind, path) in enumerate(_checkpoints(name, tmp_path).items()):
        after = Table(str(path)).snapshot()
        assert _digest(after) == state, kind
        assert after.metadata == before.metadata, kind
        assert dict(after.domains) == dict(before.domains), kind
        assert dict(after.txns) == dict(before.txns), kind
        # The same files have the same rows: once is enough, and a million is too many.
        if number == 0 and entry["expect"]["num_rows"] < _MANY_ROWS:
            assert _row_checksum(canonical, name, Table(str(path)), None) in expected, kind


def _ensure_read_back(name: str, target: Path) -> None:
    """DuckDB and delta-rs read the rows that they read before, whatever the kind."""
    for kind, path in _checkpoints(name, target).items():
        judge = [sys.executable, str(CORPUS / "check_readback.py"), str(path), name]
        verdict = subprocess.run(judge, capture_output=True, text=True, check=False)
        assert verdict.returncode == 0, (kind, verdict.stdout)


# One table of each interesting sort; the rest is explored at length.
_SAMPLE = [
    *("delta__time-travel-partition-changes-b", "dat__multi_partitioned"),
    *("delta__basic-dv-with-checkpoint", "delta__checkpoint"),
]


@pytest.mark.parametrize("name", [name for name in _SAMPLE if name in _SOUND] or ["-"])
def test_other_readers_read_a_sample(name: str, tmp_path: Path) -> None:
    _ensure_read_back(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", _SOUND or ["-"])
def test_other_readers_read_all(name: str, tmp_path: Path) -> None:
    _ensure_read_back(name, tmp_path)
