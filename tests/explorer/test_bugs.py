"""The explorer finds each seeded bug, with a schedule that can be replayed."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.explorer.bug import Bug
from tests.explorer.bugs import BUGS
from tests.explorer.jobs import Job, find_bug, opened, summarise, tell
from tests.explorer.schedule import Schedule
from tests.explorer.search import Walker, explore
from tests.explorer.shrink import shrink
from tests.explorer.world import Violation

SCHEDULES = Path(__file__).with_name("schedules.toml")


# A search takes long: each fourth bug in every run, all of them in `make explore-slow`. The stored
# schedules show all of them in every run.
_SOUGHT, _AT_LENGTH = (
    [
        pytest.param(bug, marks=() if number % 4 == some else pytest.mark.slow)
        for number, bug in enumerate(BUGS)
    ]
    for some in (1, 0)
)


@pytest.mark.parametrize("bug", _SOUGHT, ids=lambda bug: bug.name)
def test_a_bug_is_found(bug: Bug) -> None:
    found = find_bug(bug)
    assert found is not None
    assert found.violation.rule == bug.rule
    with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
        assert list(tell(machine, found.schedule))[-1] == f"=> {found.violation}"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_stored_schedule_shows_the_bug(bug: Bug) -> None:
    """`python -m tests.explorer --bugs` prints the stored schedules."""
    stored = tomllib.loads(SCHEDULES.read_text("utf-8"))[bug.title]
    with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
        lines = summarise(list(tell(machine, Schedule.parse(stored["schedule"]))))
    assert stored["calls"].splitlines() == lines


def test_the_stored_schedules_are_of_the_bugs() -> None:
    assert list(tomllib.loads(SCHEDULES.read_text("utf-8"))) == [bug.title for bug in BUGS]


@pytest.mark.parametrize("bug", _AT_LENGTH, ids=lambda bug: bug.name)
def test_the_reduction_hides_no_bug(bug: Bug) -> None:
    """The full search finds each bug, as the search for the shortest schedule does."""
    job = Job(bug.scenario, bug.model, bug.faults)
    with opened(job, bug) as machine, pytest.raises(Violation) as found:
        explore(machine)
    assert found.value.rule == bug.rule
    with opened(job, bug) as machine:
        schedule = Schedule.parse(found.value.args[1])
        assert list(tell(machine, schedule))[-1] == f"=> {found.value.args[0]}"


@pytest.mark.parametrize("number", [2, 6, 11])
def test_what_is_found_at_random_is_reported_briefly(number: int) -> None:
    """The schedule of a seed has many switches; the printed one has few, and can be replayed."""
    bug = BUGS[number]
    job = Job(bug.scenario, bug.model, bug.faults)
    with opened(job, bug) as machine:
        walker = Walker(machine)
        with pytest.raises(Violation) as found:
            for seed in range(2000):
                walker.walk(seed)
    long = Schedule.parse(found.value.args[1])
    with opened(job, bug) as machine:
        short = shrink(machine, long, bug.rule)
        assert list(tell(machine, short))[-1].startswith(f"=> {bug.rule}")
    best = find_bug(bug)
    assert best is not None
    assert best.schedule.switches <= short.switches <= best.schedule.switches + 2 < long.switches


def test_every_rule_was_seen_to_break() -> None:
    sources = [path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py")]
    rules = {rule for text in sources for rule in re.findall(r'Violation\(\s*"([^"]+)"', text)}
    assert rules | {"a crashed program does not block others", "no false alarm"} == {
        bug.rule for bug in BUGS
    }
