"""A few worlds for every run of the tests; ``make world`` goes on for an hour."""

from pathlib import Path

import pytest

from tests.world.__main__ import main
from tests.world.reverts import REVERTS, Revert
from tests.world.run import make_history, run_history

pytestmark = pytest.mark.thorough
SEEDS = range(1, 6)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost(seed: int) -> None:
    outcome = run_history(make_history(seed))
    assert outcome.failure is None, "\n".join([*outcome.lines, str(outcome.failure)])


def test_a_seed_is_always_the_same_history() -> None:
    first, second = (run_history(make_history(4)) for _ in range(2))
    assert first.lines == second.lines


# Every other one in every run, all of them in `make explore-slow`.
_TAKEN_BACK = [
    pytest.param(revert, marks=[pytest.mark.slow] if number % 2 else [])
    for number, revert in enumerate(REVERTS)
]


@pytest.mark.parametrize("revert", _TAKEN_BACK, ids=lambda revert: revert.name)
def test_a_repair_that_is_taken_back_is_found(revert: Revert) -> None:
    with revert.apply():
        outcome = run_history(make_history(revert.seed))
    assert outcome.failure is not None


def test_a_failure_is_shown_with_the_steps_that_lead_to_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    revert = REVERTS[0]
    seed = revert.seed
    with revert.apply():
        assert main(["--seed", str(seed), "--count", "1"]) == 1
    said = capsys.readouterr().out.partition(f"python -m tests.world --seed {seed} --steps ")
    assert 1 <= len(said[2].splitlines()[0].split(",")) < len(make_history(seed).steps) / 2
