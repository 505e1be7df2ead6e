"""Scenarios of the suites of Delta on Spark that other tests of ours already hold.

The files ``test_*_suite.py`` list all scenarios of a suite: those of ``HELD`` by the test that has
them, the others as tests. Left out is what only SQL, a session or a catalog of Spark has: names,
views, defaults of the session, its log of usage, ``IF NOT EXISTS``, Hive tables.
"""

from collections.abc import Callable
from typing import TypeVar

from tests.conftest import REPOSITORY

Scene = TypeVar("Scene", bound=Callable[..., None])


def ensure_test_exists(test: str) -> None:
    """``file::function``, below ``tests/``; ``[id]`` is a case of the function, by its text."""
    file, _, function = test.partition("::")
    name, _, case = function.rstrip("]").partition("[")
    text = (REPOSITORY / "tests" / file).read_text("utf-8")
    assert f"def {name}(" in text, test
    assert case in text, test


def register(scenes: dict[str, Scene], name: str) -> Callable[[Scene], Scene]:
    """Put a function into a table of scenes, by the scenario in words."""

    def add(scene: Scene) -> Scene:
        scenes[name] = scene
        return scene

    return add
