"""A short slice of ``make faults``: the process is killed while delta-rs appends and deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.delta_rs import delta_rs
from tests.faults.rounds import Pace, Team, run_round
from tests.faults.scenes import SCENES
from tests.faults.starter import opened_starter

_SLICE = {"optimize"}
_PACE = Pace(seconds=0.6, writing=0.3)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(_SLICE, id="one"),
        pytest.param({s.name for s in SCENES}, id="all", marks=pytest.mark.slow),
    ],
)
def test_killed_while_others_write(tmp_path: Path, names: set[str]) -> None:
    with delta_rs(2) as writers, opened_starter(tmp_path) as starter:
        team = Team(writers, starter)
        for scene in SCENES:
            if scene.name in names:
                scene.build(tmp_path / scene.name)
                root = tmp_path / f"{scene.name}-1"
                outcome = run_round(scene, tmp_path / scene.name, root, 1, team, _PACE)
                assert outcome.acknowledged, "the others did nothing"
