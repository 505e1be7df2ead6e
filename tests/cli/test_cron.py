"""A run from cron: a small environment, and a mail for each line that is printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, RunCli
from tests.cli.fleet.test_run import make_table

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        make_table(tmp_path / "lake" / name)
    (tmp_path / "deltactl").symlink_to(sys.prefix)  # where the README installs it
    return tmp_path / "lake"


def run_by_cron(lake: Path, command: str) -> Ran:
    home = lake.parent
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "SHELL": "/bin/sh", "LOGNAME": "etl"},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_the_line_of_the_readme_prints_nothing_until_something_fails(lake: Path) -> None:
    block = re.search(r"```crontab\n(.*?)\n```", README.read_text(), re.DOTALL)
    assert block
    line = block[1].split(maxsplit=5)[-1].replace("s3://lake", str(lake))
    assert run_by_cron(lake, line) == Ran(0, "", "")  # too few files
    line = line.replace("files=50", "files=2")
    assert run_by_cron(lake, line) == Ran(0, "", "")
    assert (lake / "a/_delta_log/00000000000000000004.json").exists()
    assert run_by_cron(lake, line) == Ran(0, "", "")  # too early
    (lake / "b/_delta_log/00000000000000000001.json").write_text("{")
    failed = run_by_cron(lake, line.replace("20h", "0s"))
    assert failed.code == 1
    assert failed.out == "3 tables: 2 unchanged, 1 failed\n"
    assert failed.err.startswith(f"error: {lake}/b: _delta_log/00000000000000000001.json, line 1: ")


def test_a_working_directory_that_was_deleted(lake: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = f"mkdir {home}; cd {home}; rmdir {home}; {sys.prefix}/bin/deltactl check {lake}/a"
    ran = run_by_cron(lake, command)
    assert ran.code == 2
    assert ran.err.startswith("error: the working directory cannot be read: No such file or")


@pytest.mark.parametrize(
    ("command", "prints"),
    [
        ("optimize a -q", False),
        ("optimize a -q --dry-run", True),
        ("optimize a -q --check", True),
        ("optimize a -q --check --if-needed files=9", False),
        ("checkpoint a -q", False),
        ("checkpoint a -q --check", False),
        ("vacuum a -q --yes", False),
        ("check a -q", False),
        ("generate-manifest a -q", False),
        ("generate-manifest a -q --ddl hive", True),
        ("generate-manifest a b -q --ddl hive", True),
        ("restore a -q --yes --to-version 1", False),
        ("clone a copy -q --deep", False),
        ("maintain a -q", False),
        ("maintain a b -q", False),
        ("describe-detail a -q", True),
        ("describe-history a -q", True),
        ("config -q", True),
        ("optimize a -q -o json", True),
    ],
)
def test_quiet_hides_what_succeeded_but_not_what_was_asked_for(
    cli: RunCli, lake: Path, monkeypatch: pytest.MonkeyPatch, command: str, prints: bool
) -> None:
    monkeypatch.chdir(lake)
    ran = cli(*command.split())
    assert ran.code in (0, 3)
    assert (bool(ran.out), ran.err) == (prints, "")


def test_a_sum_tells_what_was_done_from_what_was_not(
    cli: RunCli, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake)
    assert cli("optimize", "a").code == 0
    assert cli("optimize", "a", "b", "c", "--dry-run").out.endswith(
        "\n3 tables: 1 unchanged, 2 planned\n"
    )
    assert cli("optimize", "b").code == 0
    ran = cli("optimize", "a", "c", "--min-interval", "1h")
    ends = [line.split()[:2] for line in ran.out.splitlines()[:-1]]
    assert ends == [["skipped", "a"], ["done", "c"]]
    assert ran.out.endswith("\n2 tables: 1 skipped, 1 done\n")
    assert cli("optimize", "a", "b", "c").out.endswith("\n3 tables: 3 unchanged\n")
