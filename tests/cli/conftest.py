"""The program as a fixture: in this process, and as a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from deltactl.cli.app import run
from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.options.common import TimeLimit
from deltactl.cli.options.engine import EngineOptions
from deltactl.cli.options.fleet import FleetOptions
from deltactl.cli.output.output import guess_format
from tests.support.json_schema import validate_output


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


FAKES = tuple(
    CommandSpec(name, f"fake: {name}", package="tests.cli.fakes")
    for name in ("show-facts", "go-wrong", "wait-here", "not-written-yet")
) + (
    CommandSpec(
        "go-round",
        "fake: go-round",
        (EngineOptions, TimeLimit, FleetOptions),
        package="tests.cli.fakes",
    ),
)

NAMES = frozenset(spec.name for spec in COMMANDS)
RunCli = Callable[..., Ran]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the settings of whoever runs the tests out of them, and the tests out of their cache."""
    monkeypatch.setenv("DELTACTL_CONFIG", os.devnull)
    monkeypatch.setenv("COLUMNS", "80")  # as a terminal
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> RunCli:
    """Run ``deltactl`` in this process."""

    def call(*args: str, specs: Sequence[CommandSpec] = COMMANDS) -> Ran:
        code = run(args, specs=specs)
        captured = capsys.readouterr()
        if specs is COMMANDS:  # so every test of a command is one of its contract too
            command = next((word for word in args if word in NAMES), None)
            validate_output(guess_format(args), command, captured.out)
        return Ran(code, captured.out, captured.err)

    return call


class Shown(NamedTuple):
    """A row that ``deltactl config`` shows."""

    value: str
    origin: str
    where: str = ""


@pytest.fixture
def settings(cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Shown]]:
    """Run ``deltactl config``, and return what it shows of each setting."""

    def call(*args: str, specs: Sequence[CommandSpec] = COMMANDS) -> dict[str, Shown]:
        monkeypatch.setenv("COLUMNS", "500")
        ran = cli("config", *args, specs=specs)
        assert ran.code == 0, ran.err
        table, _, places = ran.out.partition("\n\n")
        cells = (re.split("  +", line.strip()) for line in table.splitlines()[1:])
        where = dict(line.split(" ", 1) for line in places.splitlines())
        rows = {setting: Shown(*rest) for _, setting, *rest in cells}
        return {
            key: row._replace(where=where.get(row.where, row.where)) for key, row in rows.items()
        }

    return call


@pytest.fixture
def fake_cli(cli: RunCli) -> RunCli:
    """Run ``deltactl`` with the commands of ``tests.cli.fakes`` instead of its own."""

    def call(*args: str) -> Ran:
        return cli(*args, specs=FAKES)

    return call


@pytest.fixture
def process() -> RunCli:
    """Run Python in a process of its own; ``process("-m", "deltactl", ...)`` is the program."""

    def call(*args: str) -> Ran:
        done = subprocess.run(
            [sys.executable, *args], capture_output=True, text=True, timeout=60, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call
