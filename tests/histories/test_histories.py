"""A few histories for every run of the tests; ``make histories`` goes on for hours."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl import Table
from tests.histories import our_steps
from tests.histories.__main__ import main
from tests.histories.plan import History, Writers, make_history
from tests.histories.run import Outcome, run_history
from tests.histories.shrink import shrink
from tests.histories.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (1, 2)
SPARK_SEED = 1


def run(
    seed: int, writers: Writers, length: int, folder: Path, spark: SparkSession | None = None
) -> Outcome:
    return run_history(make_history(seed, writers, length), spark, folder=folder)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_readers_agree_when_delta_rs_writes(tmp_path: Path, seed: int) -> None:
    outcome = run(seed, "delta-rs", 10, tmp_path)
    assert outcome.failure is None, "\n".join([*outcome.lines, outcome.failure.detail])
    assert outcome.tally.comparisons["DuckDB and our scan"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
# Py4J leaves sockets to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_all_readers_agree_when_spark_writes(delta_spark: SparkSession, tmp_path: Path) -> None:
    outcome = run(SPARK_SEED, "both", 4, tmp_path, delta_spark)
    assert outcome.failure is None, "\n".join([*outcome.lines, outcome.failure.detail])
    assert outcome.tally.comparisons["Spark and our scan"]


def test_a_seed_is_always_the_same_history() -> None:
    assert make_history(7, "both", 16) == make_history(7, "both", 16)
    assert make_history(7, "both", 16) != make_history(8, "both", 16)


def lose_a_file(_: random.Random, table: Table, state: State) -> str:
    """A vacuum with a bug: it removes a live file, if there is one."""
    paths = sorted(table.snapshot().files["path"].to_pylist())
    for path in paths[:1]:
        (state.path / path).unlink()
    return f"{len(paths)} live files"


@pytest.fixture
def with_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let our vacuum lose files."""
    monkeypatch.setattr(our_steps, "_STEPS", {**our_steps._STEPS, "vacuum": lose_a_file})


def history_with_vacuum() -> History:
    histories = (make_history(seed, "delta-rs", 16) for seed in range(1, 100))
    return next(h for h in histories if "vacuum" in [s.kind for s in h.steps if s.number > 5])


@pytest.mark.usefixtures("with_bug")
def test_a_bug_is_found_and_its_history_made_shorter(tmp_path: Path) -> None:
    failed = run_history(history_with_vacuum(), None, folder=tmp_path)
    assert failed.failure is not None
    assert failed.failure.kind == "our scan: FILE_MISSING after deltactl vacuum"

    shortest = shrink(failed, None, 60, tmp_path)

    assert shortest.failure is not None
    assert shortest.failure.kind == failed.failure.kind
    assert [step.kind for step in shortest.history.steps][-1] == "vacuum"
    assert len(shortest.history.steps) == 2  # what adds a file, and what loses it
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("with_bug")
def test_the_command_shows_how_to_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = history_with_vacuum().seed
    words = ["--writers", "delta-rs", "--seed", str(seed), "--folder", str(tmp_path)]
    assert main([*words, "--count", "1", "--shrink-seconds", "0", "--keep"]) == 1
    said = capsys.readouterr().out
    assert f"FAILURE seed {seed}: our scan: FILE_MISSING after deltactl vacuum" in said
    assert f"--seed {seed} --steps " in said
    assert "1 histories" in said
    assert len(list(tmp_path.iterdir())) == 1
