"""A short slice of ``python -m tests.fuzz.members``, without chance."""

from pathlib import Path

import pytest

from tests.fuzz.members import COMMANDS, find_faults, list_cases

FEW = list(list_cases())[::73]


@pytest.mark.parametrize("number", range(len(FEW)), ids=[case.name for case in FEW])
def test_a_malformed_member_is_reported_or_read_as_others_read_it(
    tmp_path: Path, number: int
) -> None:
    commands = [COMMANDS[number % len(COMMANDS)]]
    assert list(find_faults(FEW[number], tmp_path / "t", commands)) == []
