"""A table whose commits a catalog decides, given by its path."""

from pathlib import Path

import pytest

from deltactl import Table
from deltactl.table import TableWarning
from tests.cli.conftest import RunCli
from tests.support.managed_scene import Scene


def test_by_path_only_the_published_commits_are_read(tmp_path: Path, cli: RunCli) -> None:
    scene = Scene()
    scene.store.put(f"_delta_log/{scene.append():020}.crc", b"{}")  # the writer's, as its next step
    for info in [*scene.store.list_from("_delta_log"), *scene.store.list_from("")]:
        path = tmp_path / "t" / info.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(scene.store.read(info.name))
    table = str(tmp_path / "t")
    for words in (["describe-history"], ["describe-detail"], ["check"]):
        ran = cli(*words, table, "-o", "json")
        shown = ran.document
        assert (ran.code, shown["published_only"]) == (0, True)
        assert "may know newer ones" in " ".join(shown["warnings"])
        assert "may know newer ones" in cli(*words, table).err
    for words in (
        ["check", table, "--files", "data"],
        ["generate-manifest", table],
        ["clone", table, str(tmp_path / "c"), "--deep"],
        ["optimize", table],
        ["vacuum", table, "--dry-run"],
        ["checkpoint", table],
    ):
        assert cli(*words).code == 7, words
    for words in (
        ["check", table, "--files", "data"],
        ["clone", table, str(tmp_path / "c"), "--deep"],
    ):
        ran = cli(*words, "--published-only", "-o", "json")
        assert (ran.code, ran.document["published_only"]) == (0, True)
    with pytest.warns(TableWarning, match="may know newer ones"):
        assert Table(table).scan(published_only=True).read_all()["id"].to_pylist() == [1]
