"""The search of a table with many live files, of which footers and partition values exclude all."""

import json
from pathlib import Path

import pytest

from benchmarks import sides
from benchmarks.log_tables import write_read_table
from benchmarks.measure import run_process

MOST_BYTES = 400 << 20


@pytest.mark.slow
def test_five_thousand_files_in_bounded_memory(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_read_table(table, 5_000)
    predicate = "id = 42 AND date = '2000-01-01'"
    run = run_process(
        sides.deltactl(
            "check", str(table), "--erased", predicate, "--engine", "local", "-o", "json"
        )
    )
    result = json.loads(run.output)["result"]
    assert result["erased"]
    assert result["counts"]["files_skipped"] == 5_000
    assert run.peak_bytes < MOST_BYTES
