"""The explorer finds what it is for: each mistake sown, by a schedule that replays."""

from __future__ import annotations

import pytest

from tests.conftest import REPOSITORY
from tests.explorer.bug import Bug
from tests.explorer.bugs import BUGS
from tests.explorer.jobs import Job, find_bug, opened, tell


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found(bug: Bug) -> None:
    found = find_bug(bug)
    assert found is not None
    assert found.violation.rule == bug.rule
    with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
        assert list(tell(machine, found.schedule))[-1] == f"=> {found.violation}"


def test_the_page_shows_every_bug() -> None:
    page = (REPOSITORY / "docs" / "consistency.md").read_text("utf-8")
    shown = {line[4:].lower() for line in page.splitlines() if line.startswith("### ")}
    assert {bug.name.lower() for bug in BUGS} <= shown


def test_every_rule_that_can_break_was_seen_to_break() -> None:
    broken = {bug.rule for bug in BUGS}
    assert len(BUGS) >= 12
    assert len(broken) >= 8
