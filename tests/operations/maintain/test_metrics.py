"""The Prometheus text, read back by the rules of exposition format 0.0.4."""

import re

from deltactl.operations.maintain.actions import TableFacts
from deltactl.operations.maintain.options import Budget
from deltactl.operations.maintain.report import TableReport, TableSample, render_metrics
from tests.conftest import REPOSITORY

_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{table="((?:[^"\\\n]|\\["\\n])*)"\} (\S+)')


def parse(text: str) -> dict[tuple[str, str], float]:
    """Each sample by name and table; lines of one metric stay together, after its TYPE."""
    found: dict[tuple[str, str], float] = {}
    current = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert kind == "gauge"
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        assert match[1] == current
        key = (match[1], match[2])
        assert key not in found
        found[key] = float(match[3])
    assert text.endswith("\n")
    return found


def test_metrics_have_the_known_values_of_each_table() -> None:
    facts = TableFacts("events", "file:///events", "id", 3, 9, 1 << 40, small_files=7)
    facts.last_run_ms = 1_700_000_000_000
    report = TableReport(facts, Budget(), (), seconds=1.25)
    samples = [
        TableSample("events", 0, 1_800_000_000_500, report),
        TableSample("failing", 5, 1_800_000_000_500, report),
        TableSample('odd "\\\nname', 8, 1_800_000_000_500),
    ]
    found = parse(render_metrics(samples))
    assert found["deltactl_small_files", "events"] == 7
    assert found["deltactl_table_bytes", "events"] == 1 << 40
    assert found["deltactl_table_files", "events"] == 9
    assert "deltactl_time_travel_bytes" not in str(found)  # not known
    assert found["deltactl_seconds", "events"] == 1.25
    assert found["deltactl_last_success_timestamp_seconds", "events"] == 1_800_000_000.5
    assert found["deltactl_last_success_timestamp_seconds", "failing"] == 1_700_000_000
    assert found["deltactl_exit_status", r"odd \"\\\nname"] == 8
    assert ("deltactl_small_files", r"odd \"\\\nname") not in found
    assert "deltactl_reclaimable_bytes" not in str(found)  # not known


def test_the_alerts_of_the_tutorial_are_also_for_a_table_that_cannot_be_read() -> None:
    page = (REPOSITORY / "docs/tutorial-autopilot.md").read_text("utf-8")
    used = set(re.findall(r"\bdeltactl_\w+", page))
    facts = TableFacts("events", "file:///events", "id", 3)
    known = parse(render_metrics([TableSample("events", 0, 1, TableReport(facts, Budget(), ()))]))
    assert used <= {name for name, _ in known}
    unread = parse(render_metrics([TableSample("broken", 1, 1)]))
    assert used & {name for name, _ in unread}


def test_nothing_is_no_text() -> None:
    assert render_metrics([]) == ""
