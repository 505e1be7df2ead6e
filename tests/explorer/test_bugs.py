"""The explorer finds what it is for: each mistake sown, by a schedule that replays."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPOSITORY
from tests.docs.blocks import find_blocks
from tests.explorer.bug import Bug
from tests.explorer.bugs import BUGS
from tests.explorer.jobs import Job, find_bug, opened, summarise, tell
from tests.explorer.schedule import Schedule


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found(bug: Bug) -> None:
    found = find_bug(bug)
    assert found is not None
    assert found.violation.rule == bug.rule
    with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
        assert list(tell(machine, found.schedule))[-1] == f"=> {found.violation}"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_page_shows_what_happens(bug: Bug) -> None:
    """`python -m tests.explorer --bugs` prints that part of the page."""
    page = (REPOSITORY / "docs" / "consistency.md").read_text("utf-8")
    section = page.split(f"### {bug.name[0].upper()}{bug.name[1:]}\n")[1].split("\n### ")[0]
    found = re.search(r"Schedule: `([^`]+)`", section)
    assert found
    (block,) = find_blocks("docs/consistency.md", section)
    assert block.said == {"checked": "schedule"}
    with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
        assert block.text.splitlines() == summarise(list(tell(machine, Schedule.parse(found[1]))))


def test_every_rule_that_can_break_was_seen_to_break() -> None:
    broken = {bug.rule for bug in BUGS}
    assert len(BUGS) >= 12
    assert len(broken) >= 8
