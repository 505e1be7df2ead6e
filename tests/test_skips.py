"""The gate's rule about skipped tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_fine"/>
<testcase classname="tests.a" name="test_odd"><skipped type="pytest.skip" message="{}"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("spark: no Java runtime", 0),
        ("corpus: no tables of other writers at /somewhere", 0),
        ("does not work yet", 1),
        ("", 1),
    ],
)
def test_only_written_reasons_are_allowed(tmp_path: Path, reason: str, code: int) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(reason))
    ci = REPOSITORY / ".ci"
    done = subprocess.run(
        [sys.executable, ci / "check_skips.py", report, ci / "allowed-skips.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert ("tests.a::test_odd" in done.stderr) is bool(code)


def test_readme_has_the_exit_statuses_of_the_program() -> None:
    from deltactl.cli.exits import MEANINGS

    readme = (REPOSITORY / "README.md").read_text("utf-8")
    for code, meaning in MEANINGS.items():
        assert f"| {code.value} | {meaning.replace('--check', '`--check`')} |" in readme
