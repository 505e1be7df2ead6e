"""A short slice of ``make faults``: the process is killed while delta-rs appends and deletes."""

from pathlib import Path

import pytest

from tests.faults.delta_rs import delta_rs
from tests.faults.rounds import Pace, Team, run_round
from tests.faults.scenes import SCENES
from tests.faults.starter import opened_starter
from tests.faults.victims import JAVA
from tests.support.spark_servers import worker_environ

_SLICE = {"optimize"}
_SPARK_PACE = Pace(seconds=8, writing=2)
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


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("faults")
def test_spark_is_killed_while_others_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in worker_environ().items():
        monkeypatch.setenv(name, value)
    scene = SCENES[0]
    scene.build(tmp_path / scene.name)
    with delta_rs(2) as writers, opened_starter(tmp_path) as starter:
        outcome = run_round(
            scene,
            tmp_path / scene.name,
            tmp_path / "1",
            1,
            Team(writers, starter),
            _SPARK_PACE,
            JAVA,
        )
    assert outcome.acknowledged, "the others did nothing"
