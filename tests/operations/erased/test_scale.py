"""The search of a table with a million live files, of which partition values exclude all."""

import json
from pathlib import Path

import pytest

from benchmarks import sides
from benchmarks.log_tables import write_checkpoint_table, write_json_table
from benchmarks.measure import run_process

MOST_BYTES = 2 << 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["checkpoint", "commits"])
def test_a_million_files_in_bounded_memory(tmp_path: Path, kind: str) -> None:
    table = tmp_path / "t"
    if kind == "checkpoint":
        write_checkpoint_table(table, 1_000_000)
    else:
        write_json_table(table, 1_000, 1_000)
    predicate = "id = 42 AND date = '2000-01-01'"
    run = run_process(sides.deltactl("check", str(table), "--erased", predicate, "-o", "json"))
    result = json.loads(run.output)["result"]
    assert result["erased"]
    assert result["counts"]["files_skipped"] == 1_000_000
    assert run.peak_bytes < MOST_BYTES
