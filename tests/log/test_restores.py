"""Which RESTORE undid a commit."""

from typing import Any

import pytest

from deltactl.log.audit.restores import Restores


@pytest.mark.parametrize(
    ("restores", "undo"),
    [
        ({}, None),
        ({7: 4}, 7),
        ({7: 5}, None),  # the commit of version 5 itself is part of version 5
        ({7: 4, 9: 2}, 9),
        ({7: 4, 9: 6}, None),  # version 6 is from before the first RESTORE
        ({7: 4, 9: 8}, 7),  # version 8 is from after it
        ({7: 4, 9: 6, 11: 3}, 11),
        ({3: 1}, None),
    ],
)
def test_the_newest_state_decides(restores: dict[int, int], undo: int | None) -> None:
    assert Restores(restores).find_undo(5) == undo


@pytest.mark.parametrize(
    ("targets", "undo"), [({}, 5), ({7: 6}, 5), ({7: 5}, 5), ({7: 4}, None), ({7: 2}, 7)]
)
def test_a_part_counts_unless_it_was_undone(targets: dict[int, int], undo: int | None) -> None:
    assert Restores(targets, parts={5: 1}).find_undo(3) == undo


@pytest.mark.parametrize(
    ("info", "target"),
    [
        ({"operation": "RESTORE", "operationParameters": {"version": 3}}, 3),
        ({"operation": "RESTORE", "operationParameters": {"version": "3"}}, 3),
        ({"operation": "RESTORE", "operationParameters": {"version": None}}, None),
        ({"operation": "RESTORE", "operationParameters": {"version": 7}}, None),
        ({"operation": "RESTORE", "operationParameters": {"version": -1}}, None),
        ({"operation": "RESTORE", "operationParameters": {"version": 3, "predicate": "p"}}, None),
        ({"operation": "RESTORE", "operationParameters": "version"}, None),
        ({"operation": "RESTORE"}, None),
        ({"operation": "WRITE", "operationParameters": {"version": 3}}, None),
    ],
)
def test_only_a_whole_older_version_is_taken(info: Any, target: int | None) -> None:
    restores = Restores()
    restores.take(7, info)
    assert restores.targets.get(7) == target
