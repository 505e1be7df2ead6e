"""The question before a vacuum, as a person at a terminal meets it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from deltactl.errors import InterruptedRunError
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from tests.support.run import run_on
from tests.support.table_builder import Column, TableBuilder

QUESTION = "Delete 1 file (1 KiB)? 1 version will no longer be readable. [y/N]: "
OLD_S = 1_600_000_000  # 2020-09-13: older than any retention
FORCE = "--force-retention"  # the clock is trusted, although the last commit is long ago


def make_table(root: Path) -> TableBuilder:
    """A live file, and an old one that a vacuum removes."""
    builder = TableBuilder(root, [Column("id")])
    adds = [builder.write_file([{"id": i}]) for i in range(2)]
    builder.commit(*adds)
    gone = adds[0]["add"]["path"]
    builder.remove(gone)
    builder.store.put(gone, b"x" * 1024)
    for path in root.rglob("*"):
        os.utime(path, (OLD_S, OLD_S))
    builder.commit()  # shows that the time has passed
    return builder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    make_table(tmp_path / "events")
    return tmp_path / "events"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_completion_is_installed_after_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    with Person("--install-completion") as person:
        person.wait_for("Write this? [y/N]: ")
        assert f"line in {tmp_path}/.bashrc: [ -r " in person.seen
        assert not (tmp_path / ".bashrc").exists()
        person.type(f"{answer}\n")
        said = "start a new bash to use it" if answer == "y" else "nothing was changed"
        assert person.end() == (0, f"{said}\n")
    assert (tmp_path / ".bashrc").exists() == (answer == "y")


class Person:
    """Sits at a terminal of stdin and stderr; stdout goes elsewhere."""

    def __init__(self, *args: str) -> None:
        self._fd, theirs = pty.openpty()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "deltactl", *args],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )
        os.close(theirs)
        self.seen = ""

    def look(self, seconds: float) -> str:
        """What appears within ``seconds``, or until the program ends."""
        before, until = len(self.seen), time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self._fd], [], [], left)[0]:
                break
            try:
                chunk = os.read(self._fd, 65536)
            except OSError:  # the program has ended
                break
            if not chunk:
                break
            self.seen += chunk.decode()
        return self.seen[before:]

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + 30
        while text not in self.seen:
            assert time.monotonic() < until, self.seen
            self.look(0.1)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self) -> tuple[int, str]:
        """The exit status, and stdout."""
        self.look(20)
        out, _ = self.child.communicate(timeout=20)
        return self.child.returncode, out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.child as child:  # closes its pipe
            child.kill()
        os.close(self._fd)


@pytest.fixture
def asked(table: Path, request: pytest.FixtureRequest) -> Iterator[Person]:
    """Somebody whom the question stands before."""
    with Person("vacuum", str(table), FORCE, *getattr(request, "param", ())) as person:
        person.wait_for("[y/N]: ")
        yield person


def contents(root: Path) -> dict[str, bytes]:
    """All files, but for leases, which are held only while the run lasts."""
    files = (path for path in root.rglob("*") if path.is_file() and "leases" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


def test_nothing_is_drawn_while_it_waits(asked: Person) -> None:
    assert asked.seen.endswith(QUESTION)
    assert asked.look(0.5) == ""  # a bar is drawn ten times a second
    before = asked.seen.rpartition("\x1b[2K")
    assert "vacuum" not in before[2], "the bar is taken away before the question"
    asked.type("y\n")
    code, out = asked.end()
    assert (code, out.splitlines()[0]) == (0, "1 file deleted (1 KiB)")


@pytest.mark.parametrize("asked", [("-o", "json")], indirect=True)
def test_the_plan_stands_before_the_question_and_not_on_stdout(asked: Person) -> None:
    plan = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", asked.seen).replace("\r", "")
    assert "Would remove 1 file (1 KiB), version 3\n" in plan
    assert re.search(r" reason +files +size .*\n +tombstone +1 +1 KiB", plan)
    assert re.search(r" directory +files +size .*\n +\(root\) +1 +1 KiB", plan)
    assert "would expire          version 1\n" in plan
    asked.type("y\n")
    code, out = asked.end()
    assert (code, json.loads(out)["result"]["files_removed"]) == (0, 1)


@pytest.mark.parametrize("asked", [("-q",)], indirect=True)
def test_quiet_asks_without_the_plan(asked: Person) -> None:
    assert asked.seen == QUESTION


@pytest.mark.parametrize("answer", ["", "y\n"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_no_later_answer_counts(
    asked: Person, table: Path, number: int, code: int, answer: str
) -> None:
    before = contents(table)
    asked.child.send_signal(number)
    asked.type(answer)
    started = time.monotonic()
    assert asked.end() == (code, "")
    assert time.monotonic() - started < 10
    assert "\r\nerror: interrupted before it started\r\n" in asked.seen
    assert "what is finished" not in asked.seen
    assert contents(table) == before


def test_the_time_limit_ends_it(table: Path) -> None:
    before = contents(table)
    with Person("vacuum", str(table), FORCE, "--timeout", "5s") as person:
        person.wait_for("[y/N]: ")
        assert person.end() == (1, "")
    assert "\r\nerror: stopped by --timeout 5s before it started\r\n" in person.seen
    assert contents(table) == before


def test_what_is_no_answer_is_asked_again_and_the_end_of_input_is_none(
    asked: Person, table: Path
) -> None:
    before = contents(table)
    asked.type("maybe\n")
    asked.wait_for(f"Answer y or n.\r\n{QUESTION}")
    asked.type("\x04")
    assert asked.end() == (130, "")
    assert contents(table) == before


def test_of_several_tables_a_signal_ends_all(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_table(tmp_path / name)
    before = contents(tmp_path)
    with Person("vacuum", FORCE, str(tmp_path / "a"), str(tmp_path / "b")) as person:
        person.wait_for("[y/N]: ")
        person.child.send_signal(signal.SIGINT)
        code, out = person.end()
    assert (code, out.count("stopped ")) == (130, 2)
    assert person.seen.count("[y/N]") == 1
    assert contents(tmp_path) == before


def test_a_run_cancelled_while_it_plans_writes_nothing(tmp_path: Path) -> None:
    builder = make_table(tmp_path)
    before = contents(tmp_path)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(InterruptedRunError):
        run_on(builder.store, vacuum_table, VacuumOptions(), warn=pytest.fail, cancel=cancel)
    assert contents(tmp_path) == before
