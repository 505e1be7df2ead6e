"""The program as a fixture: in this process, and as a process of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from deltactl.cli.app import run
from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.options.common import TimeLimit
from deltactl.cli.options.engine import EngineOptions
from deltactl.cli.options.fleet import FleetOptions
from deltactl.cli.output.output import guess_format
from deltactl.cli.signals import Cancellation
from tests.support.json_schema import validate_output
from tests.support.unity_stub import UnityStub, unity_stub


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What ``-o json`` printed."""
        return json.loads(self.out)

    @property
    def result(self) -> Any:
        return self.document["result"]


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

MARK = "Pl4nt3dAs"  # in each secret of a test: no output may have it
UNITY_TOKEN = f"{MARK}-token"
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
def end_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let the time of the run that began last be up, whatever its limit: as if it had an hour."""
    given: list[Cancellation] = []

    def limit(cancellation: Cancellation, *_: object) -> AbstractContextManager[None]:
        given.append(cancellation)
        return nullcontext()

    def end() -> None:
        given[-1].expired_ms = 3_600_000
        given[-1].token.set()

    monkeypatch.setattr("deltactl.cli.session.limit_time", limit)
    return end


@pytest.fixture
def unity(monkeypatch: pytest.MonkeyPatch) -> Iterator[UnityStub]:
    """A Unity Catalog, and the variables that lead to it."""
    monkeypatch.setattr("urllib3.Retry.sleep", lambda *_: None)
    monkeypatch.setenv("DATABRICKS_TOKEN", UNITY_TOKEN)
    with unity_stub(tokens={UNITY_TOKEN}) as stub:
        monkeypatch.setenv("DATABRICKS_HOST", stub.address)
        yield stub


@pytest.fixture
def process() -> RunCli:
    """Run Python in a process of its own; ``process("-m", "deltactl", ...)`` is the program."""

    def call(*args: str) -> Ran:
        done = subprocess.run(
            [sys.executable, *args], capture_output=True, text=True, timeout=60, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call
